"""A source partition's log through the plain-Python fold, with what was last emitted."""

from __future__ import annotations

from dataclasses import dataclass, field

from bus.base import Message
from dashboard.core import kafka_gateway
from dashboard.reconciliation.changes import FoldedHistory
from dashboard.reconciliation.log_bounds import NONE, Terms
from domain.bounds import applied_time
from domain.fold import Bucket, UnknownFoldVersion
from domain.quarantine import is_aside
from domain.records import (
    DeadLetter,
    Record,
    ScenarioChange,
    StateRecord,
    Tombstone,
    UnknownFold,
    Unsigned,
)
from wire.source import decode_placed

Emitted = StateRecord | Tombstone


@dataclass
class Replay:
    """One bucket's fold, with what it emitted.

    last: per asset what was last emitted; recent: all of it since `watch` was called; restored:
    assets whose `last` came from a snapshot; terms: on which it is folded; history: of the changes
    that it makes, where somebody compares them. A partition's first scenario record also covers
    what came before it, so records are held back until it has been read.
    """

    scenario: str
    partition: int
    partitions: int
    terms: Terms = NONE
    bucket: Bucket | None = None
    next_offset: int = 0
    last: dict[str, Emitted] = field(default_factory=dict)
    recent: dict[str, list[Emitted]] | None = None
    restored: set[str] = field(default_factory=set)
    history: FoldedHistory | None = None
    _held: list[Message] = field(default_factory=list)

    def watch(self) -> None:
        """Keep everything that is emitted from now on."""
        self.recent = {}
        if self.history is not None:
            self.history.watch()

    def feed(self, message: Message) -> None:
        """Apply the next record of the partition. Raises UnknownFoldVersion and KeysProblem."""
        self.next_offset = message.offset + 1
        if is_aside(self.terms.asides, message.offset):
            return
        if self.bucket is None:
            self._hold(message)
        else:
            self._apply(self.bucket, message)

    def emissions_of(self, asset: str) -> list[Emitted]:
        """Return what was last emitted when `watch` was called, and everything since."""
        emissions = [self.last[asset]] if asset in self.last else []
        return [*emissions, *(self.recent or {}).get(asset, [])]

    def _hold(self, message: Message) -> None:
        self._held.append(message)
        record = self._read(message)
        if isinstance(record, Unsigned):  # no rule is in force yet that could demand a signature
            record = record.record
        if isinstance(record, UnknownFold) and record.scenario == self.scenario:
            raise UnknownFoldVersion(record.scenario, record.fold)
        if isinstance(record, ScenarioChange):
            self.bucket = Bucket(record.scenario, self.partition, epoch=1)
            for held in self._held:
                self._apply(self.bucket, held)
            self._held = []

    def _read(self, message: Message) -> Record:
        trust = kafka_gateway.trust(message.topic)
        return decode_placed(
            message.key, message.value, message.timestamp, self.partition, self.partitions, trust
        )

    def _apply(self, bucket: Bucket, message: Message) -> None:
        time = applied_time(self.terms.bounds, message.offset, message.timestamp, bucket.clock)
        for emission in bucket.apply(self._read(message), message.offset, time):
            if isinstance(emission, DeadLetter):
                continue
            if self.history is not None:
                before = self.emissions_of(emission.asset)[-1:]
                self.history.take(self.scenario, before[0] if before else None, emission)
            if self.recent is None:
                self.restored.discard(emission.asset)
                self.last[emission.asset] = emission
            else:
                self.recent.setdefault(emission.asset, []).append(emission)
