"""What a session timeout costs and saves: `python -m bench.sessions`.

Two processes of `manage.py consume` share a topic of two partitions, and each partition gets ten
records a second. For each session timeout:

- kill: one process is killed as by `kill -9`; until the other has read a record of its partition.
- pause: one process stands still (SIGSTOP) for eight seconds, as in a long garbage collection or on
  a machine that swaps. How often is it taken for dead?
- stop: one process is asked to end (SIGTERM), and leaves its group.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.command import Measured, module_command, parser_of, run
from bench.load import MAJORITY
from bench.results import Row
from bench.stack import ROOT, Engine, Product, product, say
from bus.base import TopicSpec

TIMEOUTS_S = (6, 10, 30, 45)
PAUSE_S = 8.0
EVERY_S = 0.1
# How much longer than the session a takeover may take.
MARGIN_S = 2.0
PATIENCE_S = 60.0
DAY_S = 86_400

ASSIGNED = re.compile(r" (assigned|revoked|lost) (.*)")


def main() -> None:
    """Measure each session timeout."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--timeout", type=int, help="one session timeout alone, s")
    run("sessions", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Kill, pause and stop consumers under each session timeout."""
    rows: list[Row] = []
    runs: list[dict[str, Any]] = []
    with product(MAJORITY.format(lifetime="6h"), Engine("kernel")) as copy:
        for timeout_s in (options.timeout,) if options.timeout else TIMEOUTS_S:
            figures = Trial(copy, timeout_s).run()
            say(f"session timeout {timeout_s} s: {figures}")
            runs.append({"timeout_s": timeout_s, **figures})
            rows += _rows(timeout_s, figures)
    return rows, runs


def _rows(timeout_s: int, figures: dict[str, float]) -> list[Row]:
    command = module_command("sessions", f"--timeout={timeout_s}")
    of = f"(session timeout {timeout_s} s)"
    return [
        Row(f"killed: until another reads on {of}", "s", {"": figures["kill"]},
            timeout_s + MARGIN_S, command=command),
        Row(f"paused for {PAUSE_S:g} s: times taken for dead {of}", "", {"": figures["taken"]},
            command=command),
        Row(f"stopped: until another reads on {of}", "s", {"": figures["stop"]}, command=command),
    ]  # fmt: skip


def _second_of_day(line: str) -> float:
    """Return the time at which a line was printed: the seconds since midnight, UTC."""
    hours, minutes, seconds = line.split(" ", maxsplit=1)[0].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


class Trial:
    """Two consumers under one session timeout."""

    def __init__(self, copy: Product, timeout_s: int) -> None:
        self._copy, self._timeout_s = copy, timeout_s
        self._topic = f"sessions-{timeout_s}"
        copy.bus.ensure_topics([TopicSpec(self._topic, 2, {})])

    def run(self) -> dict[str, float]:
        """Return s until another reads on after a kill and a stop, and deaths seen in a pause."""
        with self._records():
            self._start("first")
            self._start("second")
            self._share("first", "second")
            taken = self._pause("first", "second")
            self._share("first", "second")
            kill = self._takeover("first", "second", self._copy.kill)
            self._start("third")
            self._share("second", "third")
            stop = self._takeover("third", "second", self._copy.stop)
            self._copy.stop(self._name("second"))
        return {"kill": kill, "stop": stop, "taken": taken}

    def _name(self, consumer: str) -> str:
        return f"{consumer}-{self._timeout_s}"

    def _start(self, consumer: str) -> None:
        command = [str(ROOT / "manage.py"), "consume", self._topic, f"--group={self._topic}"]
        command.append(f"--session-timeout={self._timeout_s}s")
        self._copy.start(self._name(consumer), *command)

    def _lines(self, consumer: str) -> list[str]:
        return self._copy.log(self._name(consumer)).read_text().splitlines()

    def _places(self, consumer: str) -> list[str]:
        """Return the partitions that a consumer has now."""
        changes = [match for line in self._lines(consumer) if (match := ASSIGNED.search(line))]
        if not changes or changes[-1][1] != "assigned":
            return []
        return [place for place in changes[-1][2].split() if place.startswith(self._topic)]

    def _share(self, *consumers: str) -> None:
        """Wait until each has one partition. Raises BenchProblem."""

        def shared() -> bool:
            return all(len(self._places(consumer)) == 1 for consumer in consumers)

        self._copy.wait(shared, PATIENCE_S, f"{' and '.join(consumers)} to share {self._topic}")

    def _takeover(self, dying: str, heir: str, end: Any) -> float:
        """End a consumer, and return s until the other has read a record of its partition."""
        (place,) = self._places(dying)
        seen, begun = len(self._lines(heir)), time.time()
        end(self._name(dying))

        def read_on() -> list[str]:
            return [line for line in self._lines(heir)[seen:] if f" record {place} " in line]

        patience_s = self._timeout_s + PATIENCE_S
        self._copy.wait(lambda: bool(read_on()), patience_s, f"{heir} to read {place}")
        return round((_second_of_day(read_on()[0]) - begun) % DAY_S, 2)

    def _pause(self, consumer: str, other: str) -> float:
        """Have a consumer stand still; return how often the other was given its partition."""
        (place,), seen = self._places(consumer), len(self._lines(other))
        group = self._copy.pid(self._name(consumer))
        os.killpg(group, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        os.killpg(group, signal.SIGCONT)
        own = len(self._lines(consumer))

        def goes_on() -> bool:
            return any(" record " in line for line in self._lines(consumer)[own:])

        self._copy.wait(goes_on, PATIENCE_S, f"{consumer} to read again")
        given = (line for line in self._lines(other)[seen:] if " assigned " in line)
        return float(sum(place in line for line in given))

    @contextmanager
    def _records(self) -> Iterator[None]:
        """Send records to both partitions meanwhile."""
        ended, producer = threading.Event(), self._copy.bus.producer()

        def send() -> None:
            while not ended.wait(EVERY_S):
                for partition in (0, 1):
                    producer.send(self._topic, None, b"x", partition=partition)
                producer.poll(0)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            ended.set()
            sender.join()
            producer.close()


if __name__ == "__main__":
    main()
