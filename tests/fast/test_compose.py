"""docker-compose.yml against the settings and the supervisor's list, as no Docker is needed for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from agents.checks import load_targets
from agents.probe import variables
from config.settings import PREFIX, Settings
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
        if name in FILLED:
            return FILLED[name]
        assert kind != ":?", f"{name} is required, and this test does not know it"
        return default or ""

    return re.sub(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", value, text)


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
    assert settings.bootstrap == "kafka:9092"
    assert settings.database == "postgres://tallyboard:pg@postgres:5432/tallyboard"
    assert settings.redis_url == "redis://:rd@redis:6379/0"
    assert settings.web_secret() == "7f0c2d1e8a7465f9c3e2d1a0b8f7e6d5c4b3a29e"


def test_demo_agents_are_behind_a_profile() -> None:
    without = {
        process.name for process in processes(Settings(demo=False, kafka_bootstrap="kafka:9092"))
    }
    assert {name for name in PRODUCT if "profiles" not in SERVICES[name]} == without


def test_no_secret_is_written_down() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if SECRET.search(key) or ("://" in str(value) and "@" in str(value)):
                assert ":?" in str(value), f"{name}: {key} must come from the environment"


def test_every_volume_is_declared_and_used() -> None:
    mounted = {
        volume.partition(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
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
    version = SERVICES["kafka"]["image"].rpartition(":")[2]
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
