"""The judge: what a job wrote, held against the plain fold over the log that it read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from bus.base import ConsumerRecord
from domain.fold import Bucket
from domain.records import (
    SET_ASIDE,
    DeadLetter,
    Misrouted,
    Record,
    ScenarioChange,
    StateRecord,
    Tombstone,
)
from domain.version import Version
from support.spark.jobs import Job, read_up_to
from wire.forward import forwarded_from
from wire.partitioner import partition_of
from wire.sink import (
    DeadRecord,
    decode_dead_letter,
    encode_dead_letter,
    encode_headers,
    encode_state,
)
from wire.source import decode_placed
from wire.topics import Topics

MARKER = b"marker-"
"""Keys of the records that `Load.finish` puts at the end of each partition begin so."""

MOST_SHOWN = 12
"""Most records of an asset's history that a failure's message shows."""


Place = tuple[str, int, int]
"""A topic, a partition and an offset."""


class Key(NamedTuple):
    """What a record of a states topic is known by."""

    topic: str
    asset: str
    version: Version


class DeadKey(NamedTuple):
    """What a dead letter is known by: source topic, its place there, and why it was refused."""

    topic: str
    partition: int
    offset: int
    reason: str


class Content(NamedTuple):
    """What must be equal, byte for byte."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass
class Judged:
    """What the plain fold makes of a log.

    emissions, dead: all of it; needed: what was due up to each partition's marker; logs: the log
    itself, by topic and partition; rules: how many scenario records it holds; misrouted, forwarded:
    the places of the records that were to be forwarded up to the marker, and of those that were.
    """

    emissions: dict[Key, Content] = field(default_factory=dict)
    dead: dict[DeadKey, Content] = field(default_factory=dict)
    needed: set[Key | DeadKey] = field(default_factory=set)
    logs: dict[tuple[str, int], Sequence[ConsumerRecord]] = field(default_factory=dict)
    causes: set[str] = field(default_factory=set)
    outcomes: set[str] = field(default_factory=set)
    rules: int = 0
    misrouted: set[Place] = field(default_factory=set)
    forwarded: set[Place] = field(default_factory=set)

    def fold(
        self, topics: Topics, log: Sequence[ConsumerRecord], partitions: int, epoch: int = 1
    ) -> None:
        """Add one source partition's log."""
        place = log[0].topic, log[0].partition
        self.logs[place] = log
        records = [_decoded(message, partitions) for message in log]
        bucket = Bucket(_first_rule(records), place[1], epoch)
        self.rules += sum(isinstance(record, ScenarioChange) for record in records)
        marker = max((m.offset for m in log if (m.key or b"").startswith(MARKER)), default=-1)
        states = topics.states(topics.scenario_of(place[0]) or "")
        for message, record in zip(log, records, strict=True):
            if isinstance(record, Misrouted) and message.offset <= marker:
                self.misrouted.add((*place, message.offset))
            if (origin := forwarded_from(message.headers)) is not None:
                self.forwarded.add((message.topic, *origin))
            for out in bucket.apply(record, message.offset, message.timestamp):
                key = self._add(states, message, out)
                if message.offset <= marker:
                    self.needed.add(key)

    def _add(
        self, states: str, source: ConsumerRecord, out: StateRecord | Tombstone | DeadLetter
    ) -> Key | DeadKey:
        if isinstance(out, DeadLetter):
            dead = DeadKey(source.topic, source.partition, source.offset, out.reason)
            self.dead[dead] = dead_letter(out.reason, source)
            return dead
        key = Key(states, out.asset, out.version)
        assert key not in self.emissions, f"the fold gave {key} twice"
        value = encode_state(out) if isinstance(out, StateRecord) else None
        self.emissions[key] = Content(out.asset.encode(), value, encode_headers(out))
        self.causes.add(out.cause.type)
        if out.answer is not None:
            self.outcomes.add(out.answer.outcome)
        return key

    def check(self, states: Iterable[ConsumerRecord], dead: Iterable[ConsumerRecord]) -> None:
        """Fail unless these are the fold's, and all that is needed among them."""
        left = self.misrouted - self.forwarded
        assert not left, f"{len(left)} were not forwarded, for example {sorted(left)[:3]}"
        missing = self.needed - _check_states(self, states) - _check_dead(self, dead)
        assert not missing, _missing(self, missing)

    def history(self, key: Key) -> Iterator[str]:
        """The last records before this version that the asset, or all assets, got."""
        topic = key.topic.removesuffix(".states") + ".reports"
        name = key.asset.encode()
        for place, log in self.logs.items():
            if place[0] != topic or partition_of(name, self._partitions(topic)) != place[1]:
                continue
            before = [m for m in log if m.offset <= key.version.offset and m.key in (None, name)]
            yield from map(_line, [m for m in before if m.key or b"tick" not in (m.value or b"")])

    def _partitions(self, topic: str) -> int:
        return sum(name == topic for name, _ in self.logs)


def _decoded(message: ConsumerRecord, partitions: int) -> Record:
    place = message.partition, partitions
    return decode_placed(
        message.key, message.value, message.timestamp, *place, headers=message.headers
    )


def _first_rule(records: Iterable[Record]) -> Any:
    """The rule that the log's first scenario record holds."""
    return next(r.scenario for r in records if isinstance(r, ScenarioChange))


def _line(message: ConsumerRecord) -> str:
    return f"  {message.offset} at {message.timestamp}: {message.value!r:.200}"


def dead_letter(reason: str, source: ConsumerRecord) -> Content:
    """The dead letter of this record; a header without a value becomes an empty one."""
    headers = tuple((name, value or b"") for name, value in source.headers)
    dead = DeadRecord(
        reason,
        source.topic,
        source.partition,
        source.offset,
        source.timestamp,
        source.key,
        source.value,
        headers,
    )
    key, kept, headed = encode_dead_letter(dead)
    return Content(key, kept, tuple(headed))


def judge_log(job: Job, epoch: int = 1) -> Judged:
    """The plain fold over the whole log of the job's source topics, but for what was set aside."""
    logs: dict[tuple[str, int], list[ConsumerRecord]] = defaultdict(list)
    asides = {(each["topic"], each["partition"]): each["span"] for each in set_aside(job)}
    held = job.bus.offsets(job.topics.reports(name) for name in job.scenarios())
    for message in read_up_to(job.bus, held):
        place = (message.topic, message.partition)
        first, last = asides.get(place, (0, -1))
        if not first <= message.offset <= last:
            logs[place].append(message)
    judged, scenarios = Judged(), job.scenarios()
    for (topic, partition), log in logs.items():
        partitions = scenarios[job.topics.scenario_of(topic) or ""].partitions
        if partition < partitions:
            judged.fold(job.topics, log, partitions, epoch)
        else:  # somebody added it: nothing belongs there
            judged.misrouted |= {
                (topic, partition, message.offset)
                for message in log
                if isinstance(_decoded(message, partitions), Misrouted)
            }
    return judged


def set_aside(job: Job) -> list[dict[str, Any]]:
    """What the job set aside: topic, partition, span of offsets, records, codec, by its letters."""
    asides = {}
    for message in job.read([job.topics.dead_letters]):
        letter = decode_dead_letter(message.key, message.value, message.headers)
        if letter.reason == SET_ASIDE:
            aside = msgspec.json.decode(letter.value or b"")
            span = (aside["first"], aside["last"])
            place = {"topic": letter.topic, "partition": letter.partition, "span": span}
            asides[letter.topic, letter.partition, span] = {**aside, **place}
    return list(asides.values())


def assert_equal_to_fold(job: Job, epoch: int = 1) -> Judged:
    """Every record of the sink topics is one of the fold's, and none of the fold's is missing."""
    states = job.bus.offsets(job.topics.states(name) for name in job.scenarios())
    dead = job.bus.offsets([job.topics.dead_letters])
    judged = judge_log(job, epoch)
    judged.check(read_up_to(job.bus, states), read_up_to(job.bus, dead))
    return judged


def _check_states(judged: Judged, messages: Iterable[ConsumerRecord]) -> set[Key | DeadKey]:
    """Each is the fold's, and each asset's versions come first in the order in which they rise.

    So whoever keeps the higher version loses nothing on the way, and ends with the fold's last.
    """
    keys: set[Key | DeadKey] = set()
    newest: dict[tuple[str, str], Version] = {}
    for message in messages:
        version = Version.parse(dict(message.headers)["version"].decode())
        key = Key(message.topic, (message.key or b"").decode(), version)
        assert _content(message) == judged.emissions.get(key), _differs(judged, key, message)
        before = newest.get(key[:2])
        assert key in keys or before is None or before < version, (
            f"{key} comes for the first time after {before}"
        )
        newest[key[:2]] = version if before is None else max(before, version)
        keys.add(key)
    return keys


def _check_dead(judged: Judged, messages: Iterable[ConsumerRecord]) -> set[Key | DeadKey]:
    """Each is the fold's."""
    keys: set[Key | DeadKey] = set()
    for message in messages:
        letter = decode_dead_letter(message.key, message.value, message.headers)
        if letter.reason == SET_ASIDE:
            continue  # the job's, not the fold's
        key = DeadKey(letter.topic, letter.partition, letter.offset, letter.reason)
        expected = judged.dead.get(key)
        assert _content(message) == expected, (
            f"dead letter {key}\n  is  {_content(message)!r:.600}\n  not {expected!r:.600}"
            f"\n  the fold's there: {[k for k in judged.dead if k[:3] == key[:3]]}"
        )
        keys.add(key)
    return keys


def _content(message: ConsumerRecord) -> Content:
    return Content(message.key, message.value, message.headers)


def _missing(judged: Judged, missing: set[Key | DeadKey]) -> str:
    some = sorted(missing, key=lambda key: (len(key), key))[:3]
    lines = [f"{len(missing)} of {len(judged.needed)} missing, for example {some}"]
    if isinstance(some[0], Key):
        lines += [f"which is {judged.emissions[some[0]]!r:.400}"]
        lines += list(judged.history(some[0]))[-MOST_SHOWN:]
    return "\n".join(lines)


def _differs(judged: Judged, key: Key, message: ConsumerRecord) -> str:
    """Return what is wrong with a record of a states topic, and how it came about."""
    expected = judged.emissions.get(key)
    if expected is None:
        near = [k.version for k in judged.emissions if k[:2] == key[:2]]
        near.sort(key=lambda v: abs(v.offset - key.version.offset))
        difference = f"the fold gives no such version, but {[str(v) for v in near[:4]]}"
        difference += f"\n  found: {message.value!r:.600}"
    else:
        difference = first_difference(expected, _content(message))
    lines = [f"{key.topic} {key.asset!r} {key.version}: {difference}"]
    return "\n".join([*lines, *list(judged.history(key))[-MOST_SHOWN:]])


def first_difference(expected: Content, actual: Content) -> str:
    """The first field in which two records differ, or that their bytes do."""
    if expected.headers != actual.headers:
        return f"headers are {actual.headers}, not {expected.headers}"
    old, new = (msgspec.json.decode(one.value or b"null") for one in (expected, actual))
    for path, one, other in _differences("", old, new):
        return f"{path or 'value'} is {other!r:.300}, not {one!r:.300}"
    return f"other bytes of the same meaning: {actual.value!r:.600}, not {expected.value!r:.600}"


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from _differences(f"{path}.{name}".lstrip("."), old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{path}[{at}]", *pair)
    elif old != new or type(old) is not type(new):
        yield path, old, new
