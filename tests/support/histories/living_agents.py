"""Agents that live for an hour or two: clones, wrong and stepped clocks, words nobody knows.

Unlike the histories, whose records are drawn one by one, these are of processes that report in
their rhythm, each by a clock of its own; one of them sees trouble and says so for ever.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from domain.fold import Bucket
from domain.records import Command, Record, RefusedReport, Report, Tombstone
from domain.scenario import FOLD, Scenario
from domain.scenario_parser import scenario_from_plain
from support.histories.histories import stamped

START = 10_000_000
"""Append time of a life's beginning, ms; the times below are seconds after it."""
SITE = "shop"
TROUBLE = 400
"""When one process begins to see trouble."""
STEP = 300
"""When clocks are stepped, that of the broker or that of the process that sees trouble."""
STATES = ("bad", "meh", "good")
RULES: tuple[dict[str, Any], ...] = (
    {"kind": "latest"},
    {"kind": "quorum", "ladder": [{"state": state, "more_than": "1/2"} for state in STATES]},
    {"kind": "quorum", "ladder": [{"state": "bad", "at_least": 1}], "default": "good"},
)
CLOCKS = (0, 0, 0, -2, -5, 2, 200, -200, -480, 280, 301, 360, -1900)
"""By how many seconds a process' clock is ahead of the true time."""
WORDS = ("bad", "bad", "meh", "critical", "", "no time")
"""What is said of the trouble: states, an unknown one, what is unreadable, a time that is none."""


@dataclass
class Process:
    """A process that reports under an agent's name. Seconds; stamps: whether it names a time."""

    agent: str
    ahead: float
    every: float
    stamps: bool
    next: float

    def report(self, now: float, word: str) -> Record:
        """Return what it reports at this time."""
        if word == "":
            return RefusedReport(SITE, self.agent, None, "bad-field")
        if word == "no time":
            return RefusedReport(SITE, self.agent, "bad", "bad-time")
        at = START + round((now + self.ahead) * 1000) if self.stamps else None
        return Report(SITE, self.agent, word, at)


class Calm(NamedTuple):
    """A row that is calm while a process says worse. since: of its last word, seconds."""

    seed: int
    time: float
    since: float


class Life:
    """One hour or two of a few processes, and what the board shows of them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self.rule = self._rule()
        self._processes = [p for number in range(self._pick(2, 3, 4)) for p in self._agent(number)]
        self._witness = self._random.choice(self._processes)
        self._word = self._random.choice(WORDS)
        self._broker_step = self._pick(0, 0, -600, -100, 200)
        self._own_step = self._pick(0, -480, 400, -30)
        self._bucket, self._offset = Bucket(self.rule, 0, 1), 0
        self._words = 0

    @property
    def cloned(self) -> bool:
        """Whether another process reports under the name of the one that sees trouble."""
        return sum(p.agent == self._witness.agent for p in self._processes) > 1

    def calm(self) -> Iterator[Calm]:
        """Yield where the row is calm though the process has said worse twice, the row there."""
        end, said = TROUBLE + 900 + 3 * (self.rule.vote_lifetime or 0) // 1000, 0.0
        while (process := min(self._processes, key=lambda p: p.next)).next < end:
            now = process.next
            process.next += process.every * self._random.uniform(0.9, 1.1)
            self._step(now)
            sees = process is self._witness and now > TROUBLE
            self._append(process.report(now, self._word if sees else "good"), now)
            if sees and self._is_there():
                self._words, said = self._words + 1, now
            if self._words > 1 and self._is_calm():
                yield Calm(self._seed, now, said)

    def _rule(self) -> Scenario:
        holds = {"bad": f"{self._pick(1, 30)}s", "good": "20s"}
        return scenario_from_plain(
            {
                "name": "watch",
                "fold": FOLD,
                "states": [{"name": name} for name in STATES],
                "rule": self._random.choice(RULES),
                "vote_lifetime": f"{self._pick(60, 120, 600)}s",
                "min_voters": self._random.choice((1, 2, {"lower": 2, "raise": 2})),
                "holds": holds if self._random.random() < 0.7 else {},
                "purge_after": {"good": "100s"} if self._random.random() < 0.3 else {},
            }
        )

    def _pick(self, *options: int) -> int:
        return self._random.choice(options)

    def _agent(self, number: int) -> Iterator[Process]:
        for _ in range(2 if self._random.random() < 0.35 else 1):
            ahead, every = self._pick(*CLOCKS), self._pick(1, 7, 15, 30)
            stamps = self._random.random() < 0.85
            yield Process(f"w{number}", ahead, every, stamps, self._random.uniform(0, 5))

    def _step(self, now: float) -> None:
        if now > STEP and self._own_step:
            self._witness.ahead += self._own_step
            self._own_step = 0
        if self._random.random() < 0.002:
            id_ = f"{self._offset:08d}-0000-4000-8000-000000000000"
            self._append(Command("purge", SITE, id_, "olga"), now)

    def _append(self, record: Record, now: float) -> None:
        broker = now + (self._broker_step if now > STEP else 0)
        time = START + round(broker * 1000)
        emissions = self._bucket.apply(stamped(record, time), self._offset, time)
        self._offset += 1
        if any(isinstance(emission, Tombstone) for emission in emissions):
            self._words = 0

    def _is_there(self) -> bool:
        asset = self._bucket.assets.get(SITE)
        return asset is not None and asset.shown is not None

    def _is_calm(self) -> bool:
        asset = self._bucket.assets.get(SITE)
        if asset is None or asset.shown != "good" or asset.is_in_doubt():
            return False
        return asset.unconfirmed is None and asset.disputed is None


def lives(first: int, count: int) -> Iterator[Life]:
    """Yield so many lives, the same on every machine."""
    for seed in range(first, first + count):
        yield Life(seed)
