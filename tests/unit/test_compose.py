"""docker-compose.yml against the settings and the supervisor's list, as no Docker is needed for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from agents.checks import load_targets
from agents.probe import variables
from config.settings import PREFIX, Settings
from dashboard.server.limits import SPARE
from ops.processes import processes

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OTHERS = {"kafka", "postgres", "redis", "prepare"}
PRODUCT = set(SERVICES) - OTHERS
SECRET = re.compile(r"password|secret|auth", re.IGNORECASE)

FILLED = {
    "TALLYBOARD_SECRET_KEY": "7f0c2d1e8a7465f9c3e2d1a0b8f7e6d5c4b3a29e",
    "POSTGRES_PASSWORD": "pg",
    "REDIS_PASSWORD": "rd",
}


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


@pytest.mark.parametrize("service", sorted(PRODUCT | {"prepare"}))
def test_every_setting_exists_and_is_accepted(
    service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = environment(service)
    unknown = {
        name
        for name in given
        if name.startswith(PREFIX) and name[len(PREFIX) :].lower() not in Settings.model_fields
    }
    assert unknown == set()
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    settings = Settings()
    for setting, value in {
        "DATABASE_URL": "postgres://tallyboard:pg@postgres:5432/tallyboard",
        "REDIS_URL": "redis://:rd@redis:6379/0",
        "KAFKA_BOOTSTRAP": "kafka:9092",
        "SECRET_KEY": FILLED["TALLYBOARD_SECRET_KEY"],
    }.items():
        assert given.get(f"{PREFIX}{setting}", value) == value
    assert settings.data_dir == Path("/data")


NEEDS = {
    "prepare": {"DATABASE_URL"},
    "job": {"KAFKA_PASSWORD", "SPARK_SECRET"},
    "pipelines": {"KAFKA_PASSWORD"},
    "materialiser": {"KAFKA_PASSWORD", "DATABASE_URL"},
    "web": {"KAFKA_PASSWORD", "DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DATA_KEYS"},
    "worker": {"KAFKA_PASSWORD", "DATABASE_URL", "REDIS_URL"},
    "notifier": {"DATABASE_URL", "REDIS_URL", "SMTP_PASSWORD", "DATA_KEYS"},
    "simulator": {"KAFKA_PASSWORD"},
    "probe-a": {"KAFKA_PASSWORD"},
    "probe-b": {"KAFKA_PASSWORD"},
    "probe-c": {"KAFKA_PASSWORD"},
    "target": set[str](),
}
"""Which secrets a process is told."""


@pytest.mark.parametrize("service", sorted(PRODUCT | {"prepare"}))
def test_a_process_is_told_the_secrets_that_it_needs(service: str) -> None:
    secrets = {name for name, field in Settings.model_fields.items() if "Secret" in str(field)}
    secrets |= {"database_url", "redis_url"}
    given = {name.removeprefix(PREFIX) for name in SERVICES[service]["environment"]}
    assert given & {name.upper() for name in secrets} == NEEDS[service]
    assert "env_file" not in SERVICES[service], "it would bring all of them"


def test_agents_share_no_volume_with_what_keeps_secrets() -> None:
    for name in set(PRODUCT) - {
        "job", "materialiser", "notifier", "pipelines", "web", "worker",
    }:  # fmt: skip
        assert "data:/data" not in SERVICES[name]["volumes"]


PASSED = {
    "worker": {"PUBLIC_URL": "https://board.example.org"},
    "notifier": {"SMTP_HOST": "mail.example.org", "PUBLIC_URL": "https://board.example.org"},
    "web": {"HTTPS": "1", "TRUSTED_PROXIES": "2", "ALLOWED_HOSTS": "board.example.org"},
    "job": {
        "KAFKA_BOOTSTRAP": "kafka.example.org:9093",
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA_USERNAME": "tallyboard",
        "KAFKA_PASSWORD": "p",
    },
}


def test_what_is_set_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for service, passed in PASSED.items():
        for name, value in passed.items():
            monkeypatch.setitem(FILLED, f"{PREFIX}{name}", value)
        told = environment(service)
        assert {name: told[f"{PREFIX}{name}"] for name in passed} == passed
    monkeypatch.setitem(FILLED, f"{PREFIX}KAFKA_CA_FILE", "./ca.pem")
    for service in PRODUCT - {"target", "notifier"}:
        told = environment(service)
        assert {name: told[f"{PREFIX}{name}"] for name in PASSED["job"]} == PASSED["job"]
        mounted = told[f"{PREFIX}KAFKA_CA_FILE"]
        assert f"./ca.pem:{mounted}:ro" in map(fill, SERVICES[service]["volumes"])


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


def test_the_job_has_room_for_its_heaps() -> None:
    def megabytes(text: str) -> int:
        return int(text[:-1]) * (1024 if text[-1] == "g" else 1)

    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    heaps = megabytes(environment("job")[f"{PREFIX}SPARK_MEMORY"])
    heaps += megabytes(settings.errand_memory)
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
    found = re.findall(
        r"^([a-z0-9._-]+)(?:\[[^\]]*\])?==(\S+)", (ROOT / lock).read_text(), re.MULTILINE
    )
    return dict(found)


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
    assert {"tests", "bench", "requirements-dev.lock", ".git", ".env", ".data"} <= set(ignored)


def test_no_secret_is_written_down() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if SECRET.search(key) or ("://" in str(value) and "@" in str(value)):
                given = ":?" in str(value) or str(value) == f"${{{key}:-}}"
                assert given, f"{name}: {key} must come from the environment"


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
    assert "--require-hashes -r requirements.lock" in dockerfile
    assert "USER tallyboard" in dockerfile
    assert "python -m ops.jars" in dockerfile


def test_the_probes_of_the_containers_check_services_that_are_there() -> None:
    path = SERVICES["probe-a"]["environment"]["TALLYBOARD_PROBES"]
    targets = load_targets(ROOT / path, {})
    ours = load_targets(ROOT / "probes.toml", variables(Settings(_env_file=None)))  # type: ignore[call-arg]
    assert [target.name for target in targets] == [target.name for target in ours]
    assert {urlsplit(t.url).hostname if t.kind == "http" else t.host for t in targets} <= set(
        SERVICES
    )
