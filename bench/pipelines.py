"""What pipelines cost, and what they cost the board: `python -m bench.pipelines`.

One run of broker and job on the shipped scenarios. Reports of orders come at a steady rate, each of
which changes a state; without pipelines and with them by turns, so that both see the same machine.

- report -> state record: from before the report is given to its producer to the moment a reader in
  another process has the record that it caused.
- processor time and memory of the pipelines' process and all below it, with ticks alone and under
  that load.

With `--actions` the load is so many actions a second at the login besides, as the login guard
counts them, half of them in bursts that challenge a client.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bench.busyness import printed_busyness
from bench.figures import Delays
from bench.load import Keyed
from bench.roles import Role, delays_ms, send, watch_sink
from bench.stack import ROOT, Engine, Following, Product, cpu_seconds, product, say
from domain.records import Report
from ops.leftovers import descendants
from wire.pipeline import decode_pipeline
from wire.source import encode_report

STATES = ("received", "picking", "packing", "shipped")
ORDERS = 500
START_S, SETTLE_S = 120, 15


@dataclass(frozen=True)
class Part:
    """One stretch of the run. cores: processor time in a second; memory: bytes."""

    pipelines: str
    delays: Delays
    idle_cores: float
    loaded_cores: float
    memory: int

    def __str__(self) -> str:
        return (
            f"{self.pipelines:40} p50 {self.delays.p50:6.0f}  p99 {self.delays.p99:6.0f} ms  "
            f"idle {self.idle_cores:5.2f}  loaded {self.loaded_cores:5.2f} cores  "
            f"{self.memory / 1e6:5.0f} MB"
        )


def orders() -> Iterator[Keyed]:
    """Yield reports without end, each of which changes the state of its order."""
    for number in count():
        asset = f"order-{number % ORDERS}"
        state = STATES[number // ORDERS % len(STATES)]
        report = Report(asset, f"station-{number % 9}", state)
        yield asset.encode(), encode_report(report)


def actions() -> Iterator[Keyed]:
    """Yield actions at the login without end: bursts of five of one client, and single ones."""
    for number in count():
        burst = number // 5 % 2
        client = f"client-{number // 5 if burst else number:016x}"
        record = {
            "time": time.time_ns() // 1_000_000,
            "logger": "tallyboard.security",
            "client": client,
            "action": "login",
        }
        yield client.encode(), json.dumps(record).encode()


def memory_of(pid: int) -> int:
    """Return the memory of a process and all below it, bytes: what is shared is shared out."""
    total = 0
    for each in (pid, *descendants(pid)):
        with suppress(OSError):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


class Pipelines:
    """The process of some pipelines, or of none."""

    def __init__(self, copy: Product, names: str) -> None:
        self._copy, self._names = copy, names
        self._pid = 0

    def start(self) -> None:
        """Start it, and wait until each of them runs. Raises BenchProblem."""
        if not self._names:
            return
        self._copy._changes["PIPELINES"] = self._names  # noqa: SLF001
        waiting = set(self._names.split(","))
        follow = Following(self._copy, self._copy.topics.pipelines)
        self._pid = self._copy.start("pipelines", "-m", "streaming.pipelines").pid

        def running() -> bool:
            for record in map(decode_pipeline, follow.look()):
                if record.status == "running" and record.batch >= 0:
                    waiting.discard(record.name)
            return not waiting

        self._copy.wait(running, START_S, "the pipelines")
        follow.close()

    def cores(self, seconds: float) -> float:
        """Return the processor time that it takes in a second, over so many."""
        begun, before = time.monotonic(), cpu_seconds(self._pid) if self._pid else 0
        time.sleep(seconds)
        after = cpu_seconds(self._pid) if self._pid else 0
        return (after - before) / (time.monotonic() - begun)

    def memory(self) -> int:
        """Return the memory that it takes, bytes."""
        return memory_of(self._pid) if self._pid else 0

    def stop(self) -> None:
        """End it."""
        if self._pid:
            self._copy.stop("pipelines")


def measure(copy: Product, names: str, rate: float, seconds: float, acting: float) -> Part:
    """Return one stretch: ticks alone, then the load, with these pipelines. Raises BenchProblem."""
    pipelines = Pipelines(copy, names)
    source, sink = copy.topics.reports("orders"), copy.topics.states("orders")
    other = copy.topics.states("attack")
    with Role("warm-up", send, copy.bootstrap, source, orders, 20.0) as warm:
        pipelines.start()
        warm.finish()
    time.sleep(SETTLE_S)
    idle = pipelines.cores(seconds / 2)
    with ExitStack() as roles:
        watching = roles.enter_context(Role("sink", watch_sink, copy.bootstrap, sink, other))
        sending = roles.enter_context(Role("load", send, copy.bootstrap, source, orders, rate))
        if acting:
            logs = copy.topics.app_logs
            roles.enter_context(Role("actions", send, copy.bootstrap, logs, actions, acting))
        watching.wait_ready()
        sending.wait_ready()
        loaded, memory = pipelines.cores(seconds), pipelines.memory()
        sent, seen = sending.finish(), watching.finish()
    pipelines.stop()
    since = sent.since(time.monotonic() - 10_000)
    return Part(names or "none", Delays.of(delays_ms(since, seen.reports)), idle, loaded, memory)


def main() -> None:
    """Measure each choice that is named, `none` before and after it, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("choices", nargs="*", default=["report-rates"], help="names, with commas")
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--actions", type=float, default=0, help="a second, at the login")
    parser.add_argument("--seconds", type=float, default=40)
    options = parser.parse_args()
    scenarios = (ROOT / "scenarios.toml").read_text()
    with (
        product(scenarios, Engine.parse("kernel"), PIPELINES="none", DEMO="0") as copy,
        printed_busyness(),
    ):
        copy.start_job()
        for choice in (*[one for each in options.choices for one in ("", each)], ""):
            say(str(measure(copy, choice, options.rate, options.seconds, options.actions)))


if __name__ == "__main__":
    main()
