"""The product's processes: what runs, by which command, in what order it stops."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

from config.settings import Settings

GROUP = "tallyboard"
BROKER = "broker"


@dataclass(frozen=True)
class Process:
    """One supervised process; `stop_s` is how long it may take to end after SIGTERM.

    `early` says that it need not wait for the migrations of the database.
    """

    name: str
    command: tuple[str, ...]
    stop_s: int = 5
    group: str = GROUP
    early: bool = False

    @property
    def full_name(self) -> str:
        """The name under which the supervisor knows it."""
        return f"{self.group}:{self.name}"


def processes(settings: Settings, only: Collection[str] = ()) -> list[Process]:
    """All processes that these settings ask for, or those of them that `only` names.

    The broker is a group of its own, because the supervisor stops group after group: what talks
    to the broker first, the broker last.
    """
    python = sys.executable
    found = [*_core(python)]
    if settings.demo:
        found += _demo(python)
    if settings.embedded_broker:
        broker = (python, "-m", "ops.broker")
        found += [Process("broker", broker, stop_s=3, group=BROKER, early=True)]
    return [process for process in found if not only or process.name in only]


def _core(python: str) -> list[Process]:
    manage = (python, "manage.py")
    celery = (python, "-m", "celery", "-A", "dashboard", "worker", "--beat")
    return [
        Process("job", (python, "-m", "streaming"), early=True),
        Process("materialiser", (*manage, "materialise")),
        Process("web", (*manage, "serve")),
        Process("worker", (*celery, "--concurrency", "1", "--loglevel", "info")),
    ]


def _demo(python: str) -> list[Process]:
    probes = [
        Process(name, (python, "-m", "agents.probe", "--as", name))
        for name in ("probe-a", "probe-b", "probe-c")
    ]
    return [
        Process("simulator", (python, "-m", "agents.simulator")),
        Process("target", (python, "-m", "agents.target")),
        *probes,
    ]
