"""The product's processes: their commands, and the order in which they stop."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

from config.jobs import process_of
from config.settings import Settings

GROUP = "tallyboard"
BROKER = "broker"
CELERY = ("-m", "celery", "-A", "dashboard")
ALONE = ("--concurrency", "1", "--without-gossip", "--without-mingle", "--loglevel", "info")
"""Options of Celery's workers, which need not know about each other."""
OF_INVOICES = {"invoices", "invoice-archive", "invoice-lines", "loyalty", "price-differences"}
"""Pipelines that read the invoices of the demo's tills, or what other pipelines make of them."""


@dataclass(frozen=True)
class Process:
    """A supervised process. stop_s: how long it may take to end after SIGTERM.

    early: whether it can start before the database migrations.
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
    """Return the processes required by these settings, or those of them in `only`.

    The broker forms its own group, because the supervisor stops group after group: first the
    processes that talk to the broker, last the broker.
    """
    python = sys.executable
    chosen = [*_core(python)]
    for job in settings.jobs:
        command = (python, "-m", "streaming", "--job", job)
        chosen.append(Process(process_of(job), command, early=True))
    if settings.standby:
        chosen += _standbys(settings, python)
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


def _standbys(settings: Settings, python: str) -> list[Process]:
    """Return a standby for each job."""
    command = (python, "-m", "streaming", "--standby")
    named = [Process(process_of(j, "standby"), (*command, "--job", j)) for j in settings.jobs]
    return [Process("standby", command), *named]


def _stores(settings: Settings, python: str) -> list[Process]:
    """Return the store servers, as many as configured."""
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
    """Return the fleet of tills, if a pipeline that uses invoices is enabled."""
    if not any(settings.runs(name) for name in OF_INVOICES):
        return []
    return [Process("tills", (python, "-m", "agents.demo.tills"))]


def _visitors(settings: Settings, python: str) -> list[Process]:
    """Return the visitors of a shop, if the pipeline that counts their views is enabled."""
    if not settings.runs("product-counts"):
        return []
    return [Process("visitors", (python, "-m", "agents.demo.visitors"))]
