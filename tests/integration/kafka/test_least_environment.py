"""Every process of docker-compose.yml and of deploy/kubernetes starts and works with no more than
it is told there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from config.settings import PREFIX, Settings
from ops.health import process_problem
from support.run import manifests
from support.run.stack import ROOT, EmbeddedBroker, free_port, wait_until

DEPLOYMENTS = {
    "compose": yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"],
    "kubernetes": manifests.services(),
}
PROCESSES = ("job", "pipelines", "materialiser", "web", "worker", "notifier", "beat")
AGENTS = ("simulator", "target", "probe-a")
"""Processes of the demo, which only Compose has."""
SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"
MOUNTED = "/run/secrets"
OWN_KEYS = {"data-key", "push-key.pem", "command-keys.json"}
"""What a process writes into its data directory where it uses a key and was given none."""


class LocalDeployment:
    """What a service is told there, fitted to this machine: folders in place of volumes, and Spark
    here."""

    def __init__(
        self, services: dict[str, Any], folder: Path, broker: EmbeddedBroker, jars_dir: Path
    ) -> None:
        self.folder, self.services = folder, services
        self.values = {
            "DATABASE_URL": f"sqlite:///{folder}/tallyboard.sqlite3",
            "REDIS_URL": "",
            "KAFKA_BOOTSTRAP": broker.bootstrap,
            "TOPIC_PREFIX": f"least-{uuid4().hex[:8]}.",
            "HTTP_HOST": "127.0.0.1",
            "HTTP_PORT": str(free_port()),
            "TARGET_PORT": str(free_port()),
            "COMMAND_KEYS": f"{folder}/command-keys/command-keys.json",
            "DEMO": "1",
            "REPLICATION": "1",
            "SPARK_MASTER": "",
            "SPARK_CONF": "",
        }
        self.fixed = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            f"{PREFIX}JARS_DIR": str(jars_dir),
        }
        self.secrets = write_secrets(folder / "secrets")

    def environment(self, service: str) -> dict[str, str]:
        variables = {}
        for name, value in self.services[service]["environment"].items():
            mounted = str(value).startswith(MOUNTED)
            given = str(value).replace(MOUNTED, str(self.secrets)) if mounted else ""
            variables[name] = self.values.get(name.removeprefix(PREFIX), given)
        return self.fixed | variables | {f"{PREFIX}DATA_DIR": str(self.folder / service)}

    def settings(self, service: str) -> Settings:
        ours = {name.lower(): value for name, value in self.values.items() if value}
        return Settings(_env_file=None, data_dir=self.folder / service, **ours)  # type: ignore[arg-type,call-arg]

    @contextmanager
    def running(self, service: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *self.services[service]["command"][1:]],
                cwd=ROOT, env=self.environment(service), stdout=output, stderr=output,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def write_secrets(folder: Path) -> Path:
    """Write the files that are below `/run/secrets` in every deployment; returns their folder."""
    folder.mkdir()
    names = ("secret-key", "data-keys", "database-password", "redis-password", "spark-secret")
    for name in names:
        (folder / name).write_text(SECRET)
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "push-key").write_bytes(pem)
    return folder


@pytest.mark.slow
@pytest.mark.extensive(
    guard="tests/unit/ops/test_compose.py::test_a_process_is_given_the_secrets_that_it_needs_as_files"
)
@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_each_process_lives_with_what_it_is_told(
    tmp_path: Path, broker: EmbeddedBroker, jars_dir: Path, deployment: str
):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    local_deployment = LocalDeployment(DEPLOYMENTS[deployment], folder, broker, jars_dir)
    names = [name for name in (*PROCESSES, *AGENTS) if name in local_deployment.services]
    assert set(PROCESSES) <= set(names)
    with local_deployment.running("prepare", tmp_path / "prepare.log") as prepare:
        assert prepare.wait(90) == 0, (tmp_path / "prepare.log").read_text()
    with ExitStack() as stack:
        logs = {name: tmp_path / f"{name}.log" for name in names}
        running = {
            name: stack.enter_context(local_deployment.running(name, log))
            for name, log in logs.items()
        }
        for name, process in running.items():

            def lives(name: str = name, process: subprocess.Popen[bytes] = process) -> bool:
                assert process.poll() is None, logs[name].read_text()
                return not process_problem(local_deployment.settings(name), name)

            wait_until(lives, 120, f"{name} gives no sign of life, see {logs[name]}")
    made = {path.name for path in folder.glob("*/*") if path.parent.name in names}
    assert not made & OWN_KEYS, "a process uses a key that its container is not given"
    assert (folder / "command-keys" / "command-keys.json").exists()
