"""docker-compose.yml and Dockerfile against settings and the list of processes, without Docker."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from py_vapid import Vapid02

from agents.checks import load_targets
from agents.probe import variables
from config.entry import unknown_settings
from config.secret_files import SUFFIX
from config.settings import PREFIX, SECRETS, Settings
from dashboard.serve.server.request_limits import SPARE
from ops.processes import processes

ROOT = Path(__file__).resolve().parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OTHERS = {"kafka", "postgres", "redis", "prepare"}
PRODUCT = set(SERVICES) - OTHERS
OURS = sorted(PRODUCT | {"prepare"})
SECRET = re.compile(r"password|secret|auth|keys?(_FILE)?$", re.IGNORECASE)
UNSET = "./ops/unset"
MOUNTED = "/run/secrets/"

PEM = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----"

FILLED: dict[str, str] = {}
"""Variables of the environment in which Compose is called."""


def fill(text: str) -> str:
    """Substitute variables as Compose does: a given value, the default, or an error."""

    def value(match: re.Match[str]) -> str:
        name, kind, default = match.groups()
        if kind == ":+":
            return default if name in FILLED else ""
        if name in FILLED:
            return FILLED[name]
        assert kind != ":?", f"{name} is required, and this test does not know it"
        return default or ""

    return re.sub(r"\$\{(\w+)(?:(:-|:\?|:\+)([^}]*))?\}", value, text)


def environment(service: str) -> dict[str, str]:
    return {key: fill(str(value)) for key, value in SERVICES[service]["environment"].items()}


def test_runs_what_the_supervisor_runs() -> None:
    outside = Settings(kafka_bootstrap="kafka:9092")
    wanted = {process.name: ["python", *process.command[1:]] for process in processes(outside)}
    assert {name: SERVICES[name]["command"] for name in PRODUCT} == wanted


@pytest.mark.parametrize("service", OURS)
def test_every_setting_exists_and_is_accepted(
    service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    password = "7f0c2d1e8a7465f9c3e2d1a0b8f7e6d5c4b3a29e"
    for name in SERVICES[service].get("secrets", ()):
        (tmp_path / name).write_text(f"{PEM if name == 'push-key' else password}\n")
    for name, value in environment(service).items():
        monkeypatch.setenv(name, value.replace(MOUNTED, f"{tmp_path}/"))
    monkeypatch.chdir(tmp_path)
    assert unknown_settings() == []
    settings = Settings()
    assert settings.data_dir == Path("/data")
    assert settings.bootstrap == "kafka:9092"
    database = f"postgres://tallyboard:{password}@postgres:5432/tallyboard"
    assert settings.database_url == (database if "database_password" in NEEDS[service] else None)
    redis = f"redis://:{password}@redis:6379/0"
    assert settings.redis_url == (redis if "redis_password" in NEEDS[service] else None)


# ---- settings ---------------------------------------------------------------------------------

FILES = {
    "SCENARIOS": {
        "job",
        "pipelines",
        "materialiser",
        "web",
        "worker",
        "notifier",
        "beat",
        "prepare",
    },
    "SPARK_CONF": {"job", "pipelines"},
    "VIEWS": {"web"},
    "PROBES": {"probe-a", "probe-b", "probe-c"},
    "KAFKA_CA_FILE": PRODUCT - {"notifier", "beat", "target"},
}
"""Settings that name a file, and the containers that mount it."""
FIXED = {"DATA_DIR", "JARS_DIR", "HTTP_HOST", "TARGET_PORT", "COMMAND_KEYS"}
"""Settings that are as the containers are made; `HTTP_PORT` is that of this machine's side."""
EMBEDDED = {"KAFKA_PORT", "MAIL_CATCHER_PORT"}
"""Settings of the embedded broker and of the demo's mail catcher, which containers do not have."""


@pytest.mark.parametrize("service", OURS)
def test_every_setting_can_be_given(service: str) -> None:
    env = SERVICES[service]["environment"]
    names = {name.upper() for name in set(Settings.model_fields) - set(SECRETS)}
    if service == "web":
        assert SERVICES[service]["ports"] == ["127.0.0.1:${TALLYBOARD_HTTP_PORT:-8000}:8000"]
        assert env[f"{PREFIX}HTTP_PORT"] == "8000"
        names -= {"HTTP_PORT"}
    names -= {name.removeprefix(PREFIX) for name in OF_SECRETS}  # given to whom they are for
    for name in names - FIXED - EMBEDDED - set(FILES):
        assert env[f"{PREFIX}{name}"].startswith(f"${{{PREFIX}{name}:-"), name


def test_the_files_of_settings_are_mounted_where_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in FILES:
        monkeypatch.setitem(FILLED, f"{PREFIX}{name}", f"./own/{name}")
    mounting = defaultdict(set)
    for service in OURS:
        for volume in map(fill, SERVICES[service]["volumes"]):
            source, _, target = volume.partition(":")
            if source.startswith("."):
                mounting[source.removeprefix("./own/")].add(service)
                assert target.endswith(":ro")
    assert mounting == FILES
    for service in FILES["KAFKA_CA_FILE"]:
        file = environment(service)[f"{PREFIX}KAFKA_CA_FILE"]
        assert f"./own/KAFKA_CA_FILE:{file}:ro" in map(fill, SERVICES[service]["volumes"])


def test_files_that_are_not_set_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {v.partition(":")[0] for s in OURS for v in map(fill, SERVICES[s]["volumes"])}
    for path in filter(lambda source: source.startswith("."), sources):
        assert (ROOT / path).is_file()
    assert environment("job")[f"{PREFIX}KAFKA_CA_FILE"] == ""


# ---- secrets and volumes ------------------------------------------------------------------------

NEEDS = {
    "prepare": {"database_password"},
    "job": {"kafka_password", "spark_secret"},
    "pipelines": {"kafka_password"},
    "materialiser": {"kafka_password", "database_password", "redis_password"},
    "web": {
        "kafka_password", "database_password", "redis_password", "secret_key", "data_keys",
        "push_key", "stores_secret",
    },
    "worker": {"kafka_password", "database_password", "redis_password"},
    "notifier": {"database_password", "redis_password", "smtp_password", "data_keys", "push_key"},
    "beat": {"database_password", "redis_password"},
    "simulator": {"kafka_password"},
    "probe-a": {"kafka_password"},
    "probe-b": {"kafka_password"},
    "probe-c": {"kafka_password"},
    "target": set(),
}  # fmt: skip
"""Which secrets a process is given."""
SIGN = {"job", "pipelines", "web", "worker"}
"""Who signs commands, or verifies them."""
URLS = {"database_url", "redis_url"}


@pytest.mark.parametrize("service", OURS)
def test_a_process_is_given_the_secrets_that_it_needs_as_files(service: str) -> None:
    env = environment(service)
    named = {f"{PREFIX}{name.upper()}{SUFFIX}": name for name in NEEDS[service]}
    assert {name for name in env if name in OF_SECRETS} == set(named)
    assert set(SERVICES[service].get("secrets", ())) == {hyphened(name) for name in NEEDS[service]}
    values = {f"{PREFIX}{name.upper()}" for name in set(SECRETS) - URLS}
    assert not values & set(env), "a variable is in docker inspect, and a child's environment"
    assert all(urlsplit(env.get(f"{PREFIX}{name.upper()}", "")).password is None for name in URLS)
    assert "env_file" not in SERVICES[service], "it would bring all of them"


OF_SECRETS = {f"{PREFIX}{name.upper()}{SUFFIX}" for name in SECRETS}


def hyphened(name: str) -> str:
    """The name of a setting as that of a file."""
    return name.replace("_", "-")


@pytest.mark.parametrize("name", sorted(set(SECRETS) - URLS))
def test_each_secret_is_a_file_of_this_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, setting = hyphened(name), f"{PREFIX}{name.upper()}{SUFFIX}"
    default = fill(COMPOSE["secrets"][secret]["file"])
    assert default in (f"./secrets/{secret}", UNSET)
    without = {environment(each)[setting] for each in OURS if name in NEEDS[each]}
    assert without == {"" if default == UNSET else f"{MOUNTED}{secret}"}
    monkeypatch.setitem(FILLED, setting, "./own")
    assert fill(COMPOSE["secrets"][secret]["file"]) == "./own"
    given = {environment(each)[setting] for each in OURS if name in NEEDS[each]}
    assert given == {f"{MOUNTED}{secret}"}


def test_the_documented_commands_make_what_compose_needs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    commands = text.partition("## Containers")[2].partition("```sh\n")[2].partition("```")[0]
    subprocess.run(["bash", "-eu", "-c", commands], cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "secrets"
    assert folder.stat().st_mode & 0o777 == 0o700
    needed = {each["file"].rpartition("-./")[2].strip("}") for each in COMPOSE["secrets"].values()}
    made = {f"secrets/{path.name}" for path in folder.iterdir()}
    assert made == {path for path in needed if path.startswith("secrets/")}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o444}
    secrets = {path.name.replace("-", "_"): path.read_text().strip() for path in folder.iterdir()}
    settings = Settings(_env_file=None, **secrets)  # type: ignore[arg-type,call-arg]
    assert settings.sealing_keys() == [secrets["data_keys"]]
    assert Vapid02.from_pem(secrets["push_key"].encode()).public_key.curve.name == "secp256r1"


def test_no_other_container_is_given_a_secret() -> None:
    given = {name: SERVICES[name].get("secrets", []) for name in OTHERS - {"prepare"}}
    assert given == {
        "kafka": [], "postgres": ["database-password"], "redis": ["redis-password"],
    }  # fmt: skip
    assert set(COMPOSE["secrets"]) == {hyphened(name) for name in set(SECRETS) - URLS}


def test_no_volume_with_a_key_is_shared_with_what_does_not_need_the_key() -> None:
    mounting = defaultdict(set)
    for service, its in SERVICES.items():
        for volume in its.get("volumes", []):
            if not volume.startswith("$"):
                mounting[volume].add(service)
    shared = {volume: services for volume, services in mounting.items() if len(services) > 1}
    agents = {name for name in PRODUCT if "profiles" in SERVICES[name]}
    assert shared == {
        "agents:/data": agents,
        "command-keys:/command-keys": SIGN,
        "snapshots:/data/snapshots": {"job", "worker"},
    }
    keys = f"{PREFIX}COMMAND_KEYS"
    assert {name for name in PRODUCT if keys in SERVICES[name]["environment"]} == SIGN
    assert {SERVICES[name]["environment"][keys] for name in SIGN} == {
        "/command-keys/command-keys.json"
    }


def test_the_image_has_a_private_directory_for_each_volume() -> None:
    targets = {
        target
        for service in OURS
        for source, _, target in (volume.partition(":") for volume in SERVICES[service]["volumes"])
        if not source.startswith("$")
    }
    made = re.search(
        r"install -d -m 0700 -o tallyboard ([^\n]*)", (ROOT / "Dockerfile").read_text()
    )
    assert made
    assert set(made[1].split()) == targets


def test_the_documented_table_of_secrets_is_the_one_that_compose_has() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    table = text.partition("| secret | for |\n|---|---|\n")[2].partition("\n\n")[0]
    given = {
        row.split("|")[1].strip(" `"): row.split("|")[2].split(",") for row in table.split("\n")
    }
    probes = {"probe-a", "probe-b", "probe-c"}
    receivers = {
        secret: {
            name for each in names for name in (probes if "probes" in each else {each.strip()})
        }
        for secret, names in given.items()
    }
    needs = {
        hyphened(secret): {name for name in OURS if secret in NEEDS[name]}
        for secret in set(SECRETS) - URLS
    }
    assert receivers == needs | {"command-keys.json": SIGN}


def test_redis_ends_writing_before_the_kernel_ends_redis() -> None:
    [command] = SERVICES["redis"]["command"][2:]
    assert "--maxmemory-policy noeviction" in command, "the login's limits are counted there"
    assert "--maxmemory $${MAXMEMORY}" in command
    most, limit = (
        fill(SERVICES["redis"]["environment"]["MAXMEMORY"]),
        SERVICES["redis"]["mem_limit"],
    )
    assert megabytes(most.removesuffix("b")) * 2 <= megabytes(fill(limit)), "it forks to rewrite"


@pytest.mark.parametrize(
    "name", [".data", ".data-b", ".env", ".env.production", "secrets", ".venv", ".git"]
)
def test_the_image_takes_no_data_and_no_secret_of_this_directory(name: str) -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert any(fnmatch(name, pattern) for pattern in ignored)


PASSED = {
    "worker": {"PUBLIC_URL": "https://board.example.org"},
    "notifier": {"SMTP_HOST": "mail.example.org", "PUBLIC_URL": "https://board.example.org"},
    "web": {
        "HTTPS": "1",
        "TRUSTED_PROXIES": "2",
        "ALLOWED_HOSTS": "board.example.org",
        "PIPELINES": "all",
    },
    "job": {
        "KAFKA_BOOTSTRAP": "kafka.example.org:9093",
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA_USERNAME": "tallyboard",
    },
}


def test_what_is_set_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for service, passed in PASSED.items():
        for name, value in passed.items():
            monkeypatch.setitem(FILLED, f"{PREFIX}{name}", value)
        env = environment(service)
        assert {name: env[f"{PREFIX}{name}"] for name in passed} == passed
    for service in PRODUCT:
        env = environment(service)
        assert {name: env[f"{PREFIX}{name}"] for name in PASSED["job"]} == PASSED["job"]


def test_the_demo_is_off_unless_it_is_asked_for() -> None:
    for service in PRODUCT | {"prepare"}:
        assert environment(service)[f"{PREFIX}DEMO"] == "0"
    without = {
        process.name for process in processes(Settings(demo=False, kafka_bootstrap="kafka:9092"))
    }
    assert {name for name in PRODUCT if "profiles" not in SERVICES[name]} == without
    assert {tuple(SERVICES[name]["profiles"]) for name in PRODUCT - without} == {("demo",)}


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_a_container_may_do_little(service: str) -> None:
    kept = SERVICES[service]
    assert kept["cap_drop"] == ["ALL"]
    assert kept["security_opt"] == ["no-new-privileges:true"]
    assert kept["read_only"] is (service != "kafka")
    assert kept["pids_limit"] >= 64
    assert re.fullmatch(r"\d+[mg]", fill(kept["mem_limit"]))
    assert "privileged" not in kept
    assert set(kept.get("cap_add", ())) <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
    assert not kept.get("cap_add") or service == "postgres"


def megabytes(text: str) -> int:
    return int(text[:-1]) * (1024 if text[-1] == "g" else 1)


def test_the_job_has_room_for_its_heaps() -> None:
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    heaps = megabytes(settings.spark_memory) + megabytes(settings.batch_query_memory)
    assert megabytes(fill(SERVICES["job"]["mem_limit"])) > 1.4 * heaps


def test_the_web_server_may_open_as_many_files_as_it_has_room_for() -> None:
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    needed = settings.http_connections + settings.sockets + SPARE
    assert SERVICES["web"]["ulimits"]["nofile"] >= needed


@pytest.mark.parametrize("service", sorted(PRODUCT))
def test_each_process_is_asked_whether_it_lives(service: str) -> None:
    asked = SERVICES[service]["healthcheck"]["test"]
    assert asked == ["CMD", "python", "-m", "ops.health", service]


@pytest.mark.parametrize("service", ["kafka", "postgres", "redis"])
def test_images_are_of_an_exact_version_and_may_be_given_by_digest(service: str) -> None:
    image = SERVICES[service]["image"]
    assert re.fullmatch(r"\$\{[A-Z]+_IMAGE:-[a-z/]+:\d+(\.\d+)+(-[a-z0-9.]+)?\}", image)


def test_the_image_begins_with_an_exact_python_that_may_be_given_by_digest() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    given = SERVICES["web"]["build"]["args"]["PYTHON_IMAGE"]
    default = re.fullmatch(r"\$\{PYTHON_IMAGE:-(python:3\.11\.\d+-slim-bookworm)\}", given)
    assert default
    assert f"ARG PYTHON_IMAGE={default[1]}\nFROM ${{PYTHON_IMAGE}}" in dockerfile


def packages(lock: str) -> dict[str, str]:
    """What a lock pins: version by name."""
    pins = re.findall(
        r"^([a-z0-9._-]+)(?:\[[^\]]*\])?==(\S+)", (ROOT / lock).read_text(), re.MULTILINE
    )
    return dict(pins)


def test_no_tool_of_developers_is_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    product, everything = packages("requirements.lock"), packages("requirements-dev.lock")
    assert product.items() <= everything.items(), "make lock"
    names = {re.split(r"[\[<>=~!]", name)[0] for name in project["dependency-groups"]["dev"]}
    assert names <= everything.keys()
    assert not names & product.keys()
    assert {re.split(r"[\[<>=~!]", name)[0] for name in project["project"]["dependencies"]} <= set(
        product
    )
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {"tests", "bench", "requirements-dev.lock"} <= set(ignored)


def test_no_secret_is_written_down() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if SECRET.search(key) and key != f"{PREFIX}COMMAND_KEYS":
                assert MOUNTED in str(value), f"{name}: {key} must come from a file"


def test_every_volume_is_declared_and_used() -> None:
    mounted = {
        volume.partition(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if not volume.startswith("$")
    }
    assert mounted == set(COMPOSE["volumes"])


@pytest.mark.parametrize("service", ["kafka", "postgres", "redis", "web"])
def test_what_others_wait_for_has_a_health_check(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")


def test_dependencies_exist_and_can_be_waited_for() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES, f"{name} waits for {needed}"
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed]


def test_only_the_web_server_is_published() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"web"}
    assert SERVICES["web"]["ports"][0].startswith("127.0.0.1:")


def test_same_kafka_as_the_embedded_one() -> None:
    pins = (ROOT / "ops" / "jars.toml").read_text()
    version = fill(SERVICES["kafka"]["image"]).rpartition(":")[2]
    assert f"org.apache.kafka:kafka_2.13:{version}" in pins


def test_image_has_what_the_settings_point_to() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "USER tallyboard" in dockerfile
    assert "python -m ops.jars" in dockerfile


def test_the_probes_of_the_containers_check_services_that_are_there() -> None:
    [path] = [fill(v) for v in SERVICES["probe-a"]["volumes"] if "TALLYBOARD_PROBES" in v]
    assert path.endswith(":/app/probes.toml:ro")
    targets = load_targets(ROOT / path.partition(":")[0], {})
    ours = load_targets(ROOT / "probes.toml", variables(Settings(_env_file=None)))  # type: ignore[call-arg]
    assert [target.name for target in targets] == [target.name for target in ours]
    assert {urlsplit(t.url).hostname if t.kind == "http" else t.host for t in targets} <= set(
        SERVICES
    )
