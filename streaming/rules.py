"""The rules in the log: `scenario` records, which the driver alone appends."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from bus.base import Bus, Delivered, Message, Producer, TopicPartition
from domain.fold import UnknownFoldVersion
from domain.records import ScenarioChange, Tick, UnknownFold, Unsigned
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from streaming.buckets import BucketId
from streaming.log_range import messages_within
from wire.keys import Ring
from wire.signature import Signer, Trust
from wire.source import decode_source, encode_scenario, trusted
from wire.topics import Topics

log = logging.getLogger("streaming.rules")

# A scenario record: its offset, and the scenario as JSON.
RuleRecord = tuple[int, str]


class Rules:
    """Every scenario record of the source topics, kept in a file next to the checkpoints.

    A log may hold many millions of records and a handful of rules, so it is read through only
    where the file does not know a partition.
    """

    def __init__(
        self,
        bus: Bus,
        topics: Topics,
        path: Path,
        ring: Callable[[], Ring] | None = None,
        signer: Signer | None = None,
    ) -> None:
        """ring, signer: None: nobody looks at signatures, and none is made."""
        self._bus, self._topics, self._path = bus, topics, path
        self._ring, self._signer = ring, signer
        self.newest: dict[BucketId, int] = {}

    def settle(self, scenarios: Mapping[str, Scenario]) -> dict[BucketId, str]:
        """Append the rule of each partition whose last one differs from the configured one.

        From then on `newest` has the offset of each partition's last rule. Returns the first rule
        that each partition's log holds, as JSON. Raises BusError and UnknownFoldVersion.
        """
        edges = self._bus.offsets(self._topics.reports(name) for name in scenarios)
        known = self._known(edges)
        unknown = {place: edges[place] for place in edges if place not in known}
        scanned = scan(self._bus, self._topics, unknown, self._ring)
        records = {**known, **scanned}
        self._append(records, scenarios)
        self._save(records)
        self.newest = {self._bucket(place): held[-1][0] for place, held in records.items()}
        return {self._bucket(place): held[0][1] for place, held in records.items()}

    def _known(
        self, edges: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, list[RuleRecord]]:
        """Return what the file knows, without records that the log has lost since."""
        try:
            stored = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        known = {}
        for place, (begin, end) in edges.items():
            held = [(int(at), text) for at, text in stored.get(f"{place[0]}/{place[1]}", [])]
            if held and held[-1][0] < end:
                known[place] = [(at, text) for at, text in held if at >= begin]
        return known

    def _append(
        self,
        records: Mapping[TopicPartition, list[RuleRecord]],
        scenarios: Mapping[str, Scenario],
    ) -> None:
        producer = self._bus.producer(linger_ms=0)
        try:
            for (topic, partition), held in records.items():
                scenario = scenarios[self._bucket((topic, partition)).scenario]
                text = dump_rule(scenario)
                if held and held[-1][1] == text:
                    continue
                place = self._append_one(producer, topic, partition, scenario)
                log.info("%s/%d: rule appended at offset %d", topic, partition, place.offset)
                held.append((place.offset, text))
        finally:
            producer.close()

    def _append_one(
        self, producer: Producer, topic: str, partition: int, scenario: Scenario
    ) -> Delivered:
        """Append a rule, signed; again where the first one was signed by a clock that is wrong."""
        value, signer = encode_scenario(scenario), self._signer
        if signer is None:
            return producer.send_and_wait(topic, None, value, partition=partition)
        while True:
            signed = signer.sign(value, topic, None)
            place = producer.send_and_wait(topic, None, signed, partition=partition)
            if signer.in_time(place.timestamp):
                return place

    def _save(self, records: Mapping[TopicPartition, list[RuleRecord]]) -> None:
        data = {f"{topic}/{partition}": held for (topic, partition), held in records.items()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(data))
        draft.replace(self._path)

    def _bucket(self, place: TopicPartition) -> BucketId:
        return BucketId(self._topics.scenario_of(place[0]) or "", place[1])


def rule_before(path: Path, place: TopicPartition, offset: int) -> str | None:
    """Return the rule in force at an offset, by the file that Rules keeps.

    None: the log's first.
    """
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    held = stored.get(f"{place[0]}/{place[1]}", [])
    return next((text for at, text in reversed(held) if at < offset), None)


def scan(
    bus: Bus,
    topics: Topics,
    edges: Mapping[TopicPartition, tuple[int, int]],
    ring: Callable[[], Ring] | None = None,
) -> dict[TopicPartition, list[RuleRecord]]:
    """Read and return all rules between the (first, next) offsets of each partition.

    A scenario record under another's name is no rule there, nor is one without a signature while
    the rule in force demands one, nor one with a wrong signature: the fold refuses them. ring:
    whose signatures count. Raises UnknownFoldVersion where a rule needs a later release, and
    KeysProblem.
    """
    records: dict[TopicPartition, list[RuleRecord]] = {place: [] for place in edges}
    for message in messages_within(bus, edges):
        place = (message.topic, message.partition)
        demands = bool(records[place]) and load_rule(records[place][-1][1]).signed_commands
        trust = None if ring is None else Trust(message.topic, ring)
        rule = _rule(message, topics.scenario_of(message.topic), trust, demands=demands)
        if rule is not None:
            records[place].append((message.offset, dump_rule(rule)))
    return records


def _rule(
    message: Message, name: str | None, trust: Trust | None, *, demands: bool
) -> Scenario | None:
    """Return the scenario of this name that a record holds, or None. Raises UnknownFoldVersion.

    demands: whether the rule in force demands a signature.
    """
    # Reading every record would take long; one that spells the word in escapes is rare.
    value = message.value
    if value is None or (b'"scenario"' not in value and b"\\u" not in value):
        return None
    record = decode_source(message.key, value, message.timestamp)
    if trust is not None:
        record = trusted(record, message.key, value, message.timestamp, trust)
    if isinstance(record, Unsigned):
        record = Tick() if demands else record.record
    if isinstance(record, UnknownFold) and record.scenario == name:
        raise UnknownFoldVersion(record.scenario, record.fold)
    if not isinstance(record, ScenarioChange) or record.scenario.name != name:
        return None
    return record.scenario


def dump_rule(scenario: Scenario) -> str:
    """Return a scenario as JSON, equal for equal scenarios."""
    return json.dumps(scenario.to_plain(), sort_keys=True, ensure_ascii=False)


def load_rule(text: str) -> Scenario:
    """Read what `dump_rule` wrote."""
    return scenario_from_plain(json.loads(text))
