"""What the agents' processes share."""

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

# So far off the clock, ms, a simulated agent goes on from now: the machine slept, Kafka took
# nothing, or the clock was set.
OFF_MS = 30_000
# Most causes of refused reports that one process logs, once each and topic.
MAX_LOGGED = 100

# Something with its time first, Unix ms.
Timed = TypeVar("Timed", bound=tuple[Any, ...])

_logged: set[tuple[str, str]] = set()


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def report_calmly(reporter: Reporter, report: Report) -> None:
    """Report; drop what is not taken, and say so, so that the agent goes on with its next report.

    That is where the spool is full, and where the tally could not read the report. Also where the
    reporter was closed meanwhile, of which nothing is said: the process ends.
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
    """Log the first refusal of each cause."""
    if (topic, refusal.cause) in _logged or len(_logged) >= MAX_LOGGED:
        return
    _logged.add((topic, refusal.cause))
    log.error("report refused (logged once)", topic=topic, why=str(refusal))


def paced(
    stream: Callable[[int], Iterator[Timed]], clock: Callable[[], int], stop: threading.Event
) -> Iterator[Timed]:
    """Yield what a stream makes from a start (Unix ms) on, each at its time, until `stop`.

    The clock may be set meanwhile: no wait is longer than the stream's own gap, and what is off the
    clock by more than OFF_MS is left out, as the stream begins anew.
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
    """Return a type of command line arguments: a number per second within these bounds."""

    def rate(text: str) -> float:
        number = float(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"expected {low:g} to {high:g} per second")
        return number

    return rate
