"""A bucket's log that grows line by line, for examples of what the fold makes of it."""

from __future__ import annotations

from typing import Any

from domain.fold import Bucket
from domain.records import (
    Command,
    DeadLetter,
    Emission,
    Record,
    Report,
    ScenarioChange,
    StateRecord,
    Tick,
    Tombstone,
)
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from wire.asset import dump_bucket, load_bucket

SHOP = "shop.example"
LATEST = {"kind": "latest"}
ANY = {"kind": "quorum", "ladder": [{"state": "down", "at_least": 1}], "default": "up"}
MAJORITY = {
    "kind": "quorum",
    "ladder": [{"state": state, "more_than": "1/2"} for state in ("down", "slow", "up")],
}


def scenario(**rule: Any) -> Scenario:
    """A scenario with the states down, slow and up; its rule is `latest` unless told."""
    states = [{"name": name} for name in ("down", "slow", "up")]
    return scenario_from_plain({"name": "net", "states": states, "rule": LATEST, **rule})


class Log:
    """A bucket's log as it grows. Times are ms and absolute; without one, no time passes."""

    def __init__(self, epoch: int = 1, **rule: Any) -> None:
        self.bucket = Bucket(scenario(**rule), partition=3, epoch=epoch)
        self.offset = -1
        self.commands = 0

    def add(self, record: Record, at: int | None = None) -> list[Emission]:
        self.offset += 1
        return self.bucket.apply(record, self.offset, self.bucket.clock if at is None else at)

    def report(
        self, agent: str, state: str, at: int | None = None, *, asset: str = SHOP, **more: Any
    ) -> list[Emission]:
        return self.add(Report(asset, agent, state, **more), at)

    def tick(self, at: int) -> list[Emission]:
        return self.add(Tick(), at)

    def switch(self, at: int | None = None, **rule: Any) -> list[Emission]:
        return self.add(ScenarioChange(scenario(**rule)), at)

    def command(self, kind: Any, at: int | None = None, **more: Any) -> StateRecord | Tombstone:
        """Apply a command of olga's; returns its answer, which is the last thing emitted."""
        self.commands += 1
        fields = {"asset": SHOP, "id": f"id-{self.commands}", "user": "olga", **more}
        answer = self.add(Command(kind, **fields), at)[-1]
        assert not isinstance(answer, DeadLetter)
        assert answer.answer
        return answer

    def outcome(self, kind: Any, at: int | None = None, **more: Any) -> str:
        answer = self.command(kind, at, **more).answer
        assert answer
        return answer.outcome

    def now(self) -> StateRecord:
        """The asset as a record would tell of it: what a harmless command is answered with."""
        answer = copy_of(self).command("release", user="nobody")
        assert isinstance(answer, StateRecord)
        return answer

    def state(self) -> str | None:
        asset = self.bucket.assets.get(SHOP)
        return asset.shown if asset else None


def copy_of(log: Log) -> Log:
    """A copy of the log's end, so that looking at it leaves no trace."""
    copy = Log()
    copy.bucket = load_bucket(dump_bucket(log.bucket), log.bucket.epoch)
    copy.offset, copy.commands = log.offset, log.commands + 1000
    return copy


def only(emissions: list[Emission]) -> StateRecord:
    """The one state record that was emitted."""
    [record] = emissions
    assert isinstance(record, StateRecord)
    return record


def causes(emissions: list[Emission]) -> list[tuple[str, int]]:
    """Type and time of what caused each record."""
    return [(e.cause.type, e.cause.time) for e in emissions if not isinstance(e, DeadLetter)]
