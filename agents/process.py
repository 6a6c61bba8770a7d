"""Code shared by the agents' processes."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import structlog

from agents.reporter import Reporter, ReporterClosed, ReportRefused
from agents.spool import SpoolFull
from domain.records import Report

log = structlog.get_logger("agents")

# When a simulated agent is off the clock by this much, ms, it continues from now: the machine
# slept, Kafka accepted nothing, or the clock was set.
OFF_MS = 30_000
# Largest number of causes of refused reports that one process logs, once per cause and topic.
MAX_LOGGED = 100

# A tuple that begins with its time, Unix ms.
Timed = TypeVar("Timed", bound=tuple[Any, ...])

_logged: set[tuple[str, str]] = set()


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def report_calmly(reporter: Reporter, report: Report) -> None:
    """Send a report. If it is not accepted, drop it and log that, so that the agent goes on.

    This happens if the spool is full, or if the tally could not read the report. It also happens if
    the reporter was closed meanwhile; nothing is logged then, because the process is ending.
    """
    try:
        reporter.accept(report)
    except ReporterClosed:
        return
    except ReportRefused as refusal:
        _log_refusal(reporter.topic, refusal)
    except SpoolFull as full:
        if reporter.refused % 1000 == 1:
            log.warning("report dropped", why=str(full), dropped=reporter.refused)


def _log_refusal(topic: str, refusal: ReportRefused) -> None:
    """Log the first refusal for each cause."""
    if (topic, refusal.cause) in _logged or len(_logged) >= MAX_LOGGED:
        return
    _logged.add((topic, refusal.cause))
    log.error("report refused (logged once)", topic=topic, why=str(refusal))


def paced(
    stream: Callable[[int], Iterator[Timed]], clock: Callable[[], int], stop: threading.Event
) -> Iterator[Timed]:
    """Yield the items of a stream from now on, each at its time (Unix ms), until `stop`.

    The clock may be set meanwhile. No wait is longer than the stream's own gap, and an item that is
    off the clock by more than OFF_MS is left out, as the stream starts again from now.
    """
    while not stop.is_set():
        before = clock()
        for item in stream(before):
            if stop.wait(max(0, min(item[0] - clock(), item[0] - before)) / 1000):
                return
            if abs(off := clock() - item[0]) > OFF_MS:
                log.warning("off the clock, going on from now", off_ms=off)
                break
            yield item
            before = item[0]


def rate_between(low: float, high: float) -> Callable[[str], float]:
    """Return a type for command line arguments: a number per second within these bounds."""

    def rate(text: str) -> float:
        number = float(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"expected {low:g} to {high:g} per second")
        return number

    return rate
