"""What the tests of this stage share: a client of the broker, a PostgreSQL server, and a program's
own environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.kafka import KafkaBus
from ops.agents_wheel import build
from support.kafka.brokers import bus_of
from support.run.stack import EmbeddedBroker
from support.web.postgresql import postgresql_server


@pytest.fixture(scope="session")
def bus(broker: EmbeddedBroker) -> KafkaBus:
    """A client of the session's broker."""
    return bus_of(broker)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server; each test makes its database."""
    with postgresql_server(tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture(scope="session")
def agents_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment: `tallyboard-agents`, and the packages it names.

    Those two are links to the ones that the lock file pins, so that nothing is fetched.
    """
    folder = tmp_path_factory.mktemp("agents-environment")
    python = folder / "venv" / "bin" / "python"
    _uv("venv", "--no-config", "--python", sys.executable, python.parents[1])
    [packages] = python.parents[1].glob("lib/*/site-packages")
    for part in ("confluent_kafka", "msgspec"):
        for path in Path(sysconfig.get_path("platlib")).glob(f"{part}*"):
            if path.suffix == ".dist-info":
                shutil.copytree(path, packages / path.name)  # uv follows no link to one
            else:
                (packages / path.name).symlink_to(path)
    _uv("pip", "install", "--offline", "--no-deps", "--python", python, build(folder))
    _uv("pip", "check", "--python", python)
    return python


def _uv(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "uv", *map(str, words)], check=True, timeout=120)
