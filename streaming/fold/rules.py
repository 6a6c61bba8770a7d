"""The scenarios in force: by file, by overlay, in the log."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from bus.base import Bus, ConsumerRecord, Delivered, Producer, TopicPartition
from config.settings import Settings
from domain.fold import UnknownFoldVersion
from domain.overlay import digest, overlaid
from domain.records import ScenarioChange, Tick, UnknownFold, Unsigned
from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import load_scenarios, scenario_from_plain
from streaming.fold.epochs import messages_within
from streaming.state.buckets import BucketId
from streaming.state.storage import StoragePath
from wire.job import Carried, Overlay
from wire.keys import Ring
from wire.signature import Signer, Trust
from wire.source import MAX_BRACKETS, MAX_RECORD, decode_source, encode_scenario, fits, trusted
from wire.topics import Topics

T = TypeVar("T")

# ---- overlays ------------------------------------------------------------------------------------
# The scenarios that the job carries: scenarios.toml, and over it what the console has changed.
#
# Each scenario's overlay is a file of its own below the data directory, written before its rule
# goes into the log: a job that dies between the two appends the rule at its next start.

overlay_log = logging.getLogger("streaming.fold.rules")

FOLDER = "overlay"
# What a scenario has that was never changed from the console.
NOTHING = Overlay()


@dataclass(frozen=True)
class Book:
    """Scenarios by name. configured: by the file; overlays: also those that do not fit any more;
    rules: the two together; problems: why an overlay does not count."""

    configured: Mapping[str, Scenario]
    overlays: Mapping[str, Overlay] = field(default_factory=dict)
    rules: Mapping[str, Scenario] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def overlay(self, name: str) -> Overlay:
        """Return what is laid over a scenario."""
        return self.overlays.get(name, NOTHING)

    def version(self, name: str) -> str:
        """Return the digest of a scenario's file and overlay."""
        return digest(self.configured[name], self.overlay(name).keys)

    def of(self, names: Collection[str]) -> Book:
        """Return the book of these scenarios alone, and of overlays that belong to none."""
        kept = {*names, *(self.overlays.keys() | self.problems.keys()) - self.configured.keys()}
        return Book(
            configured=_only(self.configured, kept),
            overlays=_only(self.overlays, kept),
            rules=_only(self.rules, kept),
            problems=_only(self.problems, kept),
        )

    def changed(self, name: str, overlay: Overlay) -> Book:
        """Return the book with another overlay. Raises ScenarioError where it does not fit."""
        rule = fitting(self.configured[name], overlay)
        problems = {other: why for other, why in self.problems.items() if other != name}
        return replace(
            self,
            overlays={**self.overlays, name: overlay},
            rules={**self.rules, name: rule},
            problems=problems,
        )

    def carried(self, names: Iterable[str], newest: Mapping[BucketId, int]) -> Iterator[Carried]:
        """Yield what is reported of these scenarios.

        newest: the offsets of their rules in the log.
        """
        for name in names:
            yield Carried(
                scenario=name,
                version=self.version(name),
                configured=self.configured[name].to_plain(),
                rule=self.rules[name].to_plain(),
                overlay=self.overlay(name),
                problem=self.problems.get(name, ""),
                offsets={b.partition: at for b, at in newest.items() if b.scenario == name},
            )


def _only(entries: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: entry for name, entry in entries.items() if name in names}


def fitting(configured: Scenario, overlay: Overlay) -> Scenario:
    """Return a scenario with its overlay, if a record can carry it. Raises ScenarioError."""
    rule = overlaid(configured, overlay.keys)
    if overlay.keys and not fits(rule):
        raise ScenarioError(
            f"{rule.name}: expected a scenario of at most {MAX_RECORD:,} bytes and "
            f"{MAX_BRACKETS} brackets, as a record of the log can carry it"
        )
    return rule


def own_book(settings: Settings) -> Book:
    """Return the book of the scenarios that this process's job carries.

    Raises ScenarioError for the file, and where TALLYBOARD_JOB_SCENARIOS does not fit it.
    """
    book = read_book(settings)
    try:
        return book.of(settings.carried(book.configured))
    except ValueError as error:
        raise ScenarioError(str(error)) from None


def read_book(settings: Settings) -> Book:
    """Read the file and the overlays as they are now.

    An overlay that does not fit the file keeps no scenario from running: the file alone counts.

    Raises ScenarioError for the file.
    """
    configured = load_scenarios(settings.scenarios, demo=settings.demo)
    overlays, problems = _read(settings.data_dir / FOLDER)
    rules = dict(configured)
    for name, overlay in overlays.items():
        if name not in configured:
            problems[name] = f"{name}: its overlay waits, as {settings.scenarios.name} lacks it"
            continue
        try:
            rules[name] = fitting(configured[name], overlay)
        except ScenarioError as error:
            problems[name] = f"the overlay does not fit {settings.scenarios.name}: {error}"
    for problem in problems.values():
        overlay_log.warning("%s", problem)
    return Book(configured, overlays, rules, problems)


def _read(folder: Path) -> tuple[dict[str, Overlay], dict[str, str]]:
    overlays, problems = {}, {}
    for path in sorted(folder.glob("*.json")):
        try:
            overlays[path.stem] = msgspec.json.decode(path.read_bytes(), type=Overlay)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            problems[path.stem] = f"{path} cannot be read, and does not count: {error}"
    return overlays, problems


def keep(data_dir: Path, name: str, overlay: Overlay) -> None:
    """Write a scenario's overlay, whole or not at all. Raises OSError."""
    folder = data_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{name}.new"
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(overlay))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / f"{name}.json")


# ---- rules ---------------------------------------------------------------------------------------
# The rules in the log: `scenario` records, which the driver alone appends.

log = logging.getLogger("streaming.fold.rules")

# A scenario record: its offset, and the scenario as JSON.
RuleRecord = tuple[int, str]


class StoredRules(NamedTuple):
    """What the file of Rules holds: the rules by partition, and the ids of the logs by topic."""

    rules: Mapping[str, list[RuleRecord]]
    logs: Mapping[str, str] = {}

    def of(self, place: TopicPartition) -> list[RuleRecord]:
        """Return the rules of a partition, oldest first."""
        return self.rules.get(f"{place[0]}/{place[1]}", [])


def read_rules(path: StoragePath) -> StoredRules:
    """Return what the file of Rules holds; nothing where it cannot be read."""
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return StoredRules({})
    if "rules" not in stored:  # as an earlier release wrote it
        return StoredRules(stored)
    return StoredRules(stored["rules"], stored["logs"])


class Rules:
    """Every scenario record of the source topics, kept in a file next to the checkpoints.

    A log may hold many millions of records and a handful of rules, so it is read through only
    where the file does not know a partition.
    """

    def __init__(
        self,
        bus: Bus,
        topics: Topics,
        path: StoragePath,
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
        sources = {self._topics.reports(name): one for name, one in scenarios.items()}
        edges = {
            place: edge
            for place, edge in self._bus.offsets(sources).items()
            if place[1] < sources[place[0]].partitions
        }
        logs = self._bus.topic_ids(sources)
        known = self._known(edges, logs)
        unknown = {place: edges[place] for place in edges if place not in known}
        scanned = scan(self._bus, self._topics, unknown, self._ring)
        records = {**known, **scanned}
        self._append(records, scenarios)
        self._save(records, logs)
        self.newest = {self._bucket(place): held[-1][0] for place, held in records.items()}
        return {self._bucket(place): held[0][1] for place, held in records.items()}

    def _known(
        self, edges: Mapping[TopicPartition, tuple[int, int]], logs: Mapping[str, str]
    ) -> dict[TopicPartition, list[RuleRecord]]:
        """Return what the file knows of these logs, without records that they have lost since."""
        stored, known = read_rules(self._path), {}
        for place, (begin, end) in edges.items():
            if stored.logs.get(place[0], logs.get(place[0])) != logs.get(place[0]):
                continue
            held = [(int(at), text) for at, text in stored.of(place)]
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

    def _save(
        self, records: Mapping[TopicPartition, list[RuleRecord]], logs: Mapping[str, str]
    ) -> None:
        rules = {f"{topic}/{partition}": held for (topic, partition), held in records.items()}
        self._path.write_whole(json.dumps({"logs": dict(logs), "rules": rules}).encode())

    def _bucket(self, place: TopicPartition) -> BucketId:
        return BucketId(self._topics.scenario_of(place[0]) or "", place[1])


def rule_before(path: StoragePath, place: TopicPartition, offset: int) -> str | None:
    """Return the rule in force at an offset, by the file that Rules keeps.

    None: the log's first.
    """
    held = read_rules(path).of(place)
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
    message: ConsumerRecord, name: str | None, trust: Trust | None, *, demands: bool
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
