"""Simulated agents for the demo: `python -m agents.demo.simulator`."""

from __future__ import annotations

import argparse
import heapq
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from operator import itemgetter

import structlog

from agents.demo.worlds import Orders, Timed, Watched, attack, connectivity
from agents.process import paced, rate_between, report_calmly, stop_on_signals
from agents.reporter import Reporter, wall_clock
from agents.spool import SpoolInUse
from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from config.pulse import Pulse
from config.settings import Settings
from domain.records import Report
from wire.topics import Topics

log = structlog.get_logger("agents.demo.simulator")

SCENARIOS = ("attack", "connectivity", "orders")
# The share of the rate that goes to orders, which have some five reports each.
ORDERS_SHARE = 0.125
# Agents repeat themselves at least this often, so that their votes do not expire.
SLOWEST_MS = 40_000


def simulate(
    seed: int, start: int, scenarios: tuple[str, ...] = SCENARIOS, rate: float = 12.0
) -> Iterator[tuple[int, str, Report]]:
    """Yield (time, scenario, report) endlessly from `start` on. Times are in Unix ms and increase.

    rate: approximate number of reports per second in total.
    """
    watched = {name: world(seed) for name, world in WATCHED.items() if name in scenarios}
    streams = []
    if "orders" in scenarios:
        share = rate if not watched else rate * ORDERS_SHARE
        rate -= 0 if not watched else share
        streams.append(_named("orders", Orders(seed, max(1, int(5_000 / share))).run(start)))
    pairs = sum(map(len, watched.values()))
    every_ms = min(SLOWEST_MS, max(1, int(1000 * pairs / rate)))
    streams += [_named(name, world.run(start, every_ms)) for name, world in watched.items()]
    return heapq.merge(*streams, key=itemgetter(0))


WATCHED: Mapping[str, Callable[[int], Watched]] = {"attack": attack, "connectivity": connectivity}


def _named(name: str, stream: Iterator[Timed]) -> Iterator[tuple[int, str, Report]]:
    return ((at, name, report) for at, report in stream)


def send(
    stream: Callable[[int], Iterator[tuple[int, str, Report]]],
    reporters: Mapping[str, Reporter],
    clock: Callable[[], int],
    stop: threading.Event,
    beat: Callable[[], None] = lambda: None,
) -> None:
    """Send each report at its time, until `stop`.

    stream: creates the reports from a start (ms); beat: called after each report.
    """
    for _, scenario, report in paced(stream, clock, stop):
        report_calmly(reporters[scenario], report)
        beat()


def run(settings: Settings, arguments: argparse.Namespace, stop: threading.Event) -> None:
    """Simulate until `stop`, then wait briefly for reports in flight."""
    bus, topics = KafkaBus(settings.kafka_options()), Topics(settings.topic_prefix)
    names = tuple(arguments.scenario or SCENARIOS)
    with ExitStack() as stack:
        reporters = {
            name: stack.enter_context(
                Reporter(bus, topics.reports(name), settings.data_dir / "spool/simulator" / name)
            )
            for name in names
        }
        log.info("simulating", seed=arguments.seed, rate=arguments.rate, scenarios=",".join(names))
        send(
            lambda start: simulate(arguments.seed, start, names, arguments.rate),
            *(reporters, wall_clock, stop, Pulse(settings.data_dir, "simulator").beat),
        )
        _part(reporters, leave=arguments.leave)


def _part(reporters: Mapping[str, Reporter], *, leave: bool) -> None:
    """Wait up to 2 s in total for reports in flight; the rest stays in the spools.

    leave: withdraw the votes first, except on orders: an order stays where it was last reported.
    """
    if leave:
        for name in WATCHED.keys() & reporters.keys():
            log.info("leaving", scenario=name, votes=reporters[name].leave_all())
    end = time.monotonic() + 2
    for name, reporter in reporters.items():
        left = reporter.flush(max(0, end - time.monotonic()))
        log.info("stopping", scenario=name, confirmed=reporter.confirmed, unconfirmed=left)
        reporter.close(0)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("agents.demo.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="what happens (default 1)")
    parser.add_argument(
        "--rate", type=rate_between(0.1, 10_000), default=12.0, help="reports per second in all"
    )
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this one")
    parser.add_argument(
        "--leave",
        action="store_true",
        help="withdraw all votes at the end; else the demo goes on where it stopped",
    )
    return parser.parse_args(arguments)


def main() -> None:
    """Simulate until SIGTERM."""
    arguments, settings = parse(), enter()
    configure_logs(settings.log_level, "simulator")
    try:
        run(settings, arguments, stop_on_signals())
    except SpoolInUse as error:
        sys.exit(f"simulator: {error}")


if __name__ == "__main__":
    main()
