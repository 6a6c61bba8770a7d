"""The fold as Spark's StatefulProcessor: one grouping key is one bucket."""

from __future__ import annotations

import os
import socket
import time as wall
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pandas as pd
from pyspark import SparkFiles
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from domain.bounds import applied_time
from domain.fold import Bucket
from domain.lateness import Lateness as Late
from domain.records import DeadLetter, Emission, Misrouted, Mute, StateRecord, Tick
from domain.scenario import Scenario
from streaming.fold.plan import HANDED_OUT, Plan
from streaming.fold.rules import dump_rule, load_rule
from streaming.state.buckets import BucketId
from streaming.state.restore import SuppressedOutput, restore_state
from streaming.state.store import BucketAssets, TimerStore
from wire.forward import forward_headers
from wire.job import Heartbeat, LatenessReport, encode
from wire.keys import KeyFile
from wire.partitioner import partition_of
from wire.signature import Trust
from wire.sink import DeadRecord, encode_dead_letter, encode_headers, encode_state
from wire.source import decode_placed
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle

ENGINE = "python"
HEARTBEAT_MS = 1000

Header = tuple[str, bytes]


class SourceRow(NamedTuple):
    """A record of a source topic. time: append time, ms; headers: JSON, or None."""

    key: bytes | None
    value: bytes | None
    offset: int
    time: int
    headers: str | None


class SinkRow(NamedTuple):
    """A record for a sink topic. headers: JSON, or None; partition: None: the key's."""

    key: bytes | None
    value: bytes | None
    headers: str | None
    topic: str
    partition: int | None = None


class Meta(NamedTuple):
    """A bucket's state besides its assets and timers. Times in ms.

    scenario: the rule in force, as JSON; live: assets that exist; slot, waiting: see TimerStore;
    beat: when the tick was appended that the last heartbeat came with; records, dead: counted since
    then; stale: not used any more.
    """

    scenario: str
    clock: int = 0
    offset: int = -1
    live: int = 0
    slot: int = 0
    waiting: int = 0
    beat: int = 0
    records: int = 0
    dead: int = 0
    stale: int = 0


def _struct(**fields: Any) -> StructType:
    return StructType([StructField(name, type_()) for name, type_ in fields.items()])


_META = _struct(
    **{name: StringType if name == "scenario" else LongType for name in Meta._fields},
)


class TallyProcessor(StatefulProcessor):
    """Reads a bucket's records in order of offset through the fold, and keeps its state."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._topics = Topics(plan.prefix)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: the bucket's meta, its mutes and late reports as JSON, assets, and
        the names of assets by the slot of their next timer."""
        self._meta = handle.getValueState("meta", _META)
        self._lateness = handle.getValueState("lateness", _struct(lateness=StringType))
        self._mutes = handle.getValueState("mutes", _struct(mutes=StringType))
        asset = _struct(asset=BinaryType, slot=LongType)
        self._assets = handle.getMapState("assets", _struct(name=StringType), asset)
        self._timers = handle.getMapState("dues", _struct(slot=LongType), _struct(names=StringType))
        self._last = handle.getMapState("last", _struct(name=StringType), _struct(last=BinaryType))

    def handleInputRows(  # noqa: N802, the name is Spark's
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803, ARG002
    ) -> Iterator[pd.DataFrame]:
        """Apply the bucket's rows; yields the records for the sink topics."""
        records = _in_order(rows)
        out = self.run(BucketId.parse(key[0]), records)
        if out:
            yield pd.DataFrame(out, columns=list(SinkRow._fields)).astype({"partition": "Int32"})

    def close(self) -> None:
        """Do nothing, as nothing is held open."""

    def run(self, bucket_id: BucketId, rows: Iterable[SourceRow]) -> list[SinkRow]:
        """Apply rows, in order of offset, to the state of the current grouping key."""
        stored = self._meta.get()
        if stored is None:
            stored = self._begin(bucket_id)
        meta = Meta(*stored)
        held, late = self._mutes.get(), self._lateness.get()
        assets = BucketAssets(self._assets)
        timers = TimerStore(self._timers, assets, meta.slot, meta.waiting)
        bucket = Bucket(
            scenario_of(meta.scenario),
            bucket_id.partition,
            self._plan.epoch,
            assets,
            timers,
            clock=meta.clock,
            offset=meta.offset,
            live=meta.live,
            mutes=_load_mutes(held),
            lateness=_load_lateness(late),
        )
        timers.scenario = lambda: bucket.scenario
        held_back = SuppressedOutput(self._last, self._plan.start.quiet.get(str(bucket_id), -1))
        run = _Run(self._plan, self._topics, bucket_id, bucket, meta, held_back)
        for row in rows:
            run.apply(row)
        held_back.flush()
        slot, waiting = timers.flush(bucket.clock)
        assets.flush()
        self._meta.update(tuple(run.meta(slot, waiting)))
        if held or bucket.mutes:
            self._mutes.update((_dump_mutes(bucket.mutes),))
        if late or bucket.lateness.by_agent:
            self._lateness.update((msgspec.json.encode(bucket.lateness.rows()).decode(),))
        return run.out

    def _begin(self, bucket_id: BucketId) -> Meta:
        """Return what a bucket without state begins with: nothing, or its seed."""
        meta = Meta(self._plan.rules[bucket_id])
        path = self._plan.start.seeds.get(str(bucket_id))
        if path is None:
            return meta
        if path.startswith(HANDED_OUT):
            path = SparkFiles.get(path.removeprefix(HANDED_OUT))
        rule = scenario_of(meta.scenario)
        head, slot, waiting = restore_state(path, self._assets, self._timers, self._last, rule)
        if head.mutes:
            self._mutes.update((_dump_mutes({mute.agent: mute for mute in head.mutes}),))
        return meta._replace(
            clock=head.clock, offset=head.offset, live=head.live, slot=slot, waiting=waiting
        )


class _Run:
    """One batch of one bucket."""

    def __init__(
        self,
        plan: Plan,
        topics: Topics,
        bucket_id: BucketId,
        bucket: Bucket,
        meta: Meta,
        held_back: SuppressedOutput,
    ) -> None:
        self.out: list[SinkRow] = []
        self._held_back = held_back
        self._plan, self._topics = plan, topics
        self._id, self._bucket, self._start = bucket_id, bucket, meta
        self._partitions = plan.partitions[bucket_id.scenario]
        self._states = topics.states(bucket_id.scenario)
        self._trust = trust_of(plan.keys, topics.reports(bucket_id.scenario))
        self._bounds = plan.start.bounds.get(str(bucket_id), ())
        self._beat, self._records, self._dead = meta.beat, meta.records, meta.dead

    def apply(self, row: SourceRow) -> None:
        bucket = self._bucket
        if row.offset <= bucket.offset:
            return
        self._let_go(row.offset)
        headers = _load_headers(row.headers) if row.headers else ()
        place = self._id.partition, self._partitions
        record = decode_placed(row.key, row.value, row.time, *place, self._trust, headers)
        time = applied_time(self._bounds, row.offset, row.time, bucket.clock)
        for emission in bucket.apply(record, row.offset, time):
            self._emit(emission, row)
        if isinstance(record, Misrouted) and not self._held_back.covers(row.offset):
            self.out.append(self._forwarded(record.record.asset, row))
        if isinstance(record, Tick):
            self._tick(row.time)
        else:
            self._records += 1

    def _let_go(self, offset: int) -> None:
        """Emit what was held back, before the record at this offset."""
        for name, (value, headers) in self._held_back.before(offset, self._bucket.offset):
            self.out.append(SinkRow(name.encode(), value, _dump_headers(headers), self._states))

    def _emit(self, emission: Emission, row: SourceRow) -> None:
        quiet = self._held_back.covers(row.offset)
        if isinstance(emission, DeadLetter):
            self._dead += 1
            if not quiet:
                self.out.append(self._dead_letter(emission.reason, row))
            return
        value = encode_state(emission) if isinstance(emission, StateRecord) else None
        if quiet:
            self._held_back.put(emission.asset, value, encode_headers(emission))
            return
        headers = _dump_headers(encode_headers(emission))
        self.out.append(SinkRow(emission.asset.encode(), value, headers, self._states))

    def _dead_letter(self, reason: str, row: SourceRow) -> SinkRow:
        dead = DeadRecord(
            reason=reason,
            topic=self._topics.reports(self._id.scenario),
            partition=self._id.partition,
            offset=row.offset,
            timestamp=row.time,
            key=row.key,
            value=row.value,
            headers=_load_headers(row.headers),
        )
        key, value, headers = encode_dead_letter(dead)
        return SinkRow(key, value, _dump_headers(headers), self._topics.dead_letters)

    def _forwarded(self, asset: str, row: SourceRow) -> SinkRow:
        """Return a misrouted record with its asset as the key, for its partition."""
        own = _load_headers(row.headers)
        headers = forward_headers(self._id.partition, row.offset, row.time, own)
        topic, key = self._topics.reports(self._id.scenario), asset.encode()
        right = partition_of(key, self._partitions)
        return SinkRow(key, row.value, _dump_headers(headers), topic, right)

    def _tick(self, time: int) -> None:
        """Send a heartbeat of the bucket each second of ticks, even while its clock is ahead.

        time: when the tick was appended, ms.
        """
        if abs(time - self._beat) < HEARTBEAT_MS:
            return
        beat = self._heartbeat()
        self.out.append(SinkRow(beat.bucket.encode(), encode(beat), None, self._topics.buckets))
        self._beat, self._records, self._dead = time, 0, 0
        self._bucket.lateness.clear()

    def _heartbeat(self) -> Heartbeat:
        bucket = self._bucket
        return Heartbeat(
            bucket=str(self._id),
            scenario=self._id.scenario,
            partition=self._id.partition,
            epoch=self._plan.epoch,
            executor=f"worker-{os.getppid()}",
            host=socket.gethostname(),
            log_time=bucket.clock,
            offset=bucket.offset,
            assets=bucket.live,
            timers=len(bucket.timer_index),
            records=self._records,
            dead_letters=self._dead,
            stale=bucket.lateness.total("stale"),
            engine=ENGINE,
            at=int(wall.time() * 1000),
            mutes=tuple(bucket.mutes[agent] for agent in sorted(bucket.mutes)),
            late=bucket.lateness.total("late"),
            silent=bucket.lateness.total("silent"),
            agents=tuple(LatenessReport(*row) for row in bucket.lateness.rows()),
            job=self._plan.job,
            log=self._plan.start.logs.get(self._topics.reports(self._id.scenario), ""),
        )

    def meta(self, slot: int, waiting: int) -> Meta:
        """Return what is to be kept, now that the timers are entered."""
        bucket = self._bucket
        same = bucket.scenario is scenario_of(self._start.scenario)
        return Meta(
            scenario=self._start.scenario if same else dump_rule(bucket.scenario),
            clock=bucket.clock,
            offset=bucket.offset,
            live=bucket.live,
            slot=slot,
            waiting=waiting,
            beat=self._beat,
            records=self._records,
            dead=self._dead,
        )


@lru_cache(maxsize=64)
def trust_of(keys: str | None, topic: str) -> Trust | None:
    """Return whose signatures count in a topic, by the file of the keys; None: no check."""
    return None if keys is None else Trust(topic, KeyFile(Path(keys)).ring)


@lru_cache(maxsize=64)
def scenario_of(text: str) -> Scenario:
    """Return the scenario that `dump_rule` wrote; the same object for the same text."""
    return load_rule(text)


def _load_mutes(held: Any) -> list[Mute]:
    return msgspec.json.decode(held[0], type=list[Mute]) if held else []


def _load_lateness(held: Any) -> list[Late]:
    return [Late(*row) for row in msgspec.json.decode(held[0])] if held else []


def _dump_mutes(mutes: Mapping[str, Mute]) -> str:
    return msgspec.json.encode(list(mutes.values())).decode()


def _in_order(frames: Iterator[pd.DataFrame]) -> list[SourceRow]:
    columns: list[list[Any]] = [[] for _ in SourceRow._fields]
    for frame in frames:
        for column, name in zip(columns, SourceRow._fields, strict=True):
            column.extend(frame[name].tolist())
    rows = list(map(SourceRow._make, zip(*columns, strict=True)))
    rows.sort(key=lambda row: row.offset)
    return rows


def _dump_headers(headers: Iterable[Header]) -> str:
    return msgspec.json.encode([{"key": key, "value": value} for key, value in headers]).decode()


class _HeaderItem(msgspec.Struct):
    key: str
    value: bytes = b""


def _load_headers(text: str | None) -> tuple[Header, ...]:
    if not isinstance(text, str):
        return ()
    items = msgspec.json.decode(text, type=list[_HeaderItem])
    return tuple((item.key, item.value) for item in items)
