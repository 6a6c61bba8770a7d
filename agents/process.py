"""What the agents' processes share."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from agents.reporter import Reporter, ReporterClosed
from agents.spool import SpoolFull
from domain.records import Report

log = structlog.get_logger("agents")

# So far behind the clock (the machine slept), a simulated agent goes on from now.
BEHIND_MS = 30_000

# Something with its time first, Unix ms.
Timed = TypeVar("Timed", bound=tuple[Any, ...])


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
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


def paced(
    stream: Callable[[int], Iterator[Timed]], clock: Callable[[], int], stop: threading.Event
) -> Iterator[Timed]:
    """Yield what a stream makes from a start (Unix ms) on, each at its time, until `stop`."""
    while not stop.is_set():
        for item in stream(clock()):
            if stop.wait(max(0, item[0] - clock()) / 1000):
                return
            yield item
            if (behind := clock() - item[0]) > BEHIND_MS:
                log.warning("behind the clock, going on from now", behind_ms=behind)
                break


def rate_between(low: float, high: float) -> Callable[[str], float]:
    """Return a type of command line arguments: a number per second within these bounds."""

    def rate(text: str) -> float:
        number = float(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"expected {low:g} to {high:g} per second")
        return number

    return rate
