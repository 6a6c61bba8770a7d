"""Every process of docker-compose.yml starts and works with no more than it is told there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from config.settings import PREFIX, Settings
from ops.health import trouble
from stack import ROOT, EmbeddedBroker, free_port, wait_until

SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
PROCESSES = (
    "job", "pipelines", "materialiser", "web", "worker", "notifier", "simulator", "target",
    "probe-a",
)  # fmt: skip
SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"


class Told:
    """What a service is told there, fitted to this machine: files in place of containers."""

    def __init__(self, folder: Path, broker: EmbeddedBroker, jars_dir: Path) -> None:
        self.values = {
            "DATA_DIR": str(folder),
            "DATABASE_URL": f"sqlite:///{folder}/tallyboard.sqlite3",
            "REDIS_URL": "",
            "KAFKA_BOOTSTRAP": broker.bootstrap,
            "TOPIC_PREFIX": "least.",
            "HTTP_HOST": "127.0.0.1",
            "HTTP_PORT": str(free_port()),
            "TARGET_PORT": str(free_port()),
            "SECRET_KEY": SECRET,
            "PROBES": "probes.toml",
        }
        self.fixed = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            f"{PREFIX}JARS_DIR": str(jars_dir),
        }

    def environment(self, service: str) -> dict[str, str]:
        names = [name.removeprefix(PREFIX) for name in SERVICES[service]["environment"]]
        told = {f"{PREFIX}{name}": self.values.get(name, "") for name in names}
        return self.fixed | told

    def settings(self, service: str) -> Settings:
        ours = {name.lower(): value for name, value in self.values.items() if value}
        return Settings(_env_file=None, **ours)  # type: ignore[arg-type,call-arg]

    @contextmanager
    def running(self, service: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *SERVICES[service]["command"][1:]],
                cwd=ROOT, env=self.environment(service), stdout=output, stderr=output,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.slow
@pytest.mark.extensive
def test_each_process_lives_with_what_it_is_told(
    tmp_path: Path, broker: EmbeddedBroker, jars_dir: Path
):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    told = Told(folder, broker, jars_dir)
    with told.running("prepare", tmp_path / "prepare.log") as prepare:
        assert prepare.wait(90) == 0, (tmp_path / "prepare.log").read_text()
    with ExitStack() as stack:
        logs = {name: tmp_path / f"{name}.log" for name in PROCESSES}
        running = {name: stack.enter_context(told.running(name, log)) for name, log in logs.items()}
        for name, process in running.items():

            def lives(name: str = name, process: subprocess.Popen[bytes] = process) -> bool:
                assert process.poll() is None, logs[name].read_text()
                return not trouble(told.settings(name), name)

            wait_until(lives, 120, f"{name} gives no sign of life, see {logs[name]}")
