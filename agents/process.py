"""What the agents' processes share."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import structlog

from agents.reporter import Reporter, ReporterClosed
from agents.spool import SpoolFull
from domain.records import Report

log = structlog.get_logger("agents")


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def report_calmly(reporter: Reporter, report: Report) -> None:
    """Report; where the spool is full, drop the report and say so now and then.

    Also where the reporter was closed meanwhile: the process ends.
    """
    try:
        with suppress(ReporterClosed):
            reporter.accept(report)
    except SpoolFull as full:
        if reporter.refused % 1000 == 1:
            log.warning("report dropped", why=str(full), dropped=reporter.refused)
