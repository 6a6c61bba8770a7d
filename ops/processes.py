"""The product's processes: what runs, by which command, in what order it stops."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

from config.settings import Settings

GROUP = "tallyboard"
BROKER = "broker"
CELERY = ("-m", "celery", "-A", "dashboard")
ALONE = ("--concurrency", "1", "--without-gossip", "--without-mingle", "--loglevel", "info")
"""Options of Celery's workers: they need not know of each other."""
OF_INVOICES = {"invoices", "invoice-archive", "invoice-lines", "loyalty", "price-differences"}
"""Pipelines that read what the demo's tills send, or what others make of it."""


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
    """Return all processes that these settings ask for, or those of them that `only` names.

    The broker is a group of its own, because the supervisor stops group after group: what talks
    to the broker first, the broker last.
    """
    python = sys.executable
    chosen = [*_core(python)]
    if settings.standby:
        chosen += [Process("standby", (python, "-m", "streaming", "--standby"))]
    if settings.pipelines != "none":
        chosen += [Process("pipelines", (python, "-m", "streaming.pipelines"))]
    if settings.demo:
        chosen += _demo(python)
        chosen += _tills(settings, python)
        chosen += _visitors(settings, python)
    chosen += _stores(settings, python)
    if settings.catches_mail:
        chosen += [Process("mail", (python, "-m", "ops.mail_catcher"))]
    if settings.embedded_broker:
        broker = (python, "-m", "ops.broker")
        chosen += [Process("broker", broker, stop_s=3, group=BROKER, early=True)]
    return [process for process in chosen if not only or process.name in only]


def _core(python: str) -> list[Process]:
    manage = (python, "manage.py")
    worker = (python, *CELERY, "worker", *ALONE)
    return [
        Process("job", (python, "-m", "streaming"), early=True),
        Process("materialiser", (*manage, "materialise")),
        Process("web", (*manage, "serve")),
        Process("worker", (*worker, "-n", "worker@%h")),
        Process("notifier", (*worker, "-n", "notifier@%h", "-Q", "notifications", "-P", "threads")),
        Process("beat", (python, *CELERY, "beat", "--loglevel", "info")),
    ]


def _stores(settings: Settings, python: str) -> list[Process]:
    """Return the store servers, as many as are asked for."""
    command = (python, "-m", "stores", "--store", settings.stores_keep, "--port")
    return [
        Process(f"store-{number}", (*command, str(port)))
        for number, port in enumerate(settings.store_ports, 1)
    ]


def _demo(python: str) -> list[Process]:
    probes = [
        Process(name, (python, "-m", "agents.probe", "--as", name))
        for name in ("probe-a", "probe-b", "probe-c")
    ]
    return [
        Process("simulator", (python, "-m", "agents.demo.simulator")),
        Process("target", (python, "-m", "agents.demo.target")),
        *probes,
    ]


def _tills(settings: Settings, python: str) -> list[Process]:
    """Return the fleet of tills where a pipeline is wanted that has use for invoices."""
    if not any(settings.runs(name) for name in OF_INVOICES):
        return []
    return [Process("tills", (python, "-m", "agents.demo.tills"))]


def _visitors(settings: Settings, python: str) -> list[Process]:
    """Return the visitors of a shop where the pipeline is wanted that counts their views."""
    if not settings.runs("product-counts"):
        return []
    return [Process("visitors", (python, "-m", "agents.demo.visitors"))]
