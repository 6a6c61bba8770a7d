"""What the benches write into the log: reports of five agents, and commands that mark a place."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from uuid import UUID

from bench.stack import BenchProblem, say
from bus.base import Bus, ConsumerRecord, Producer, QueueFull, TopicPartition
from domain.records import Command, Report
from wire.partitioner import partition_of
from wire.signature import Signer
from wire.source import encode_command, encode_report

SCENARIO = "sites"
STATES = ("attack", "clear")
AGENTS = tuple(f"waf-{number}" for number in range(5))
# The scenario of the benches: the majority of five agents, at once.
MAJORITY = """\
[sites]
partitions = 4
commands = "signed"
vote_lifetime = "{lifetime}"
states = [{{ name = "attack" }}, {{ name = "clear" }}]
[sites.rule]
kind = "quorum"
ladder = [{{ state = "attack", more_than = "1/2" }}, {{ state = "clear", more_than = "1/2" }}]
"""

# What agents report of a backlog: four of five times that all is well.
MIX = ("attack", "clear", "clear", "clear", "clear")

CHUNK = 50_000
# How many records from a partition's end an answer is looked for.
NEAR_END = 20

# Key and value of a record.
Keyed = tuple[bytes, bytes]


def backlog(
    reports: int, assets: int, seed: int = 1, agents: Sequence[str] = AGENTS
) -> Iterator[Keyed]:
    """Yield reports on `assets` assets: first one on each, then at random. Encoded once each."""
    chance = Random(seed)
    keys = [asset_key(number) for number in range(assets)]
    now = int(time.time() * 1000)
    values = [encode_report(Report("", agent, state, now)) for agent in agents for state in MIX]
    chance.shuffle(keys)
    first = min(reports, assets)
    yield from zip(keys[:first], chance.choices(values, k=first), strict=True)
    for begin in range(first, reports, CHUNK):
        count = min(CHUNK, reports - begin)
        pairs = (chance.choices(keys, k=count), chance.choices(values, k=count))
        yield from zip(*pairs, strict=True)


def everyone(assets: int, agents: Sequence[str]) -> Iterator[Keyed]:
    """Yield a report of each agent on each asset, agent after agent."""
    for agent in agents:
        value = encode_report(Report("", agent, STATES[-1]))
        for number in range(assets):
            yield asset_key(number), value


def asset_key(number: int) -> bytes:
    """Return the key of an asset of the backlogs."""
    return b"site-%d.example" % number


def turns(assets: list[bytes]) -> Iterator[Keyed]:
    """Yield reports without end, asset after asset, each of which changes its agent's vote."""
    for number in range(2**62):
        turn, place = divmod(number, len(assets))
        flips, agent = divmod(turn, len(AGENTS))
        state = STATES[flips % len(STATES)]
        yield assets[place], encode_report(Report("", AGENTS[agent], state))


def fill(
    bus: Bus, topic: str, records: Iterable[Keyed], expected: int, *, misrouted: bool = False
) -> float:
    """Append records as fast as may be; returns the seconds that it took.

    misrouted: each to a wrong partition. Raises BenchProblem unless the log then holds
    `expected` more.
    """
    partitions = bus.partitions(topic)
    before, begun, said = held(bus, topic), time.monotonic(), time.monotonic()
    producer = bus.producer(linger_ms=20, message_timeout_s=120)
    for number, (key, value) in enumerate(records):
        at = wrong_partition(key, partitions) if misrouted else None
        _send(producer, topic, key, value, at)
        if number % 1000 == 0:
            producer.poll(0)
            if time.monotonic() - said > 2:
                said = time.monotonic()
                say(f"  {number:,} of {expected:,} records written")
    producer.close(120)
    written = held(bus, topic) - before
    if written != expected:
        raise BenchProblem(f"{topic}: {written:,} of {expected:,} records were written")
    return time.monotonic() - begun


def wrong_partition(key: bytes, partitions: int) -> int:
    """Return the partition after the one that belongs to a key."""
    return (partition_of(key, partitions) + 1) % partitions


def _send(producer: Producer, topic: str, key: bytes, value: bytes, partition: int | None) -> None:
    while True:
        try:
            return producer.send(topic, key, value, partition=partition)
        except QueueFull:
            producer.poll(0.01)


def held(bus: Bus, topic: str) -> int:
    """Return how many records a topic has."""
    return sum(end - begin for begin, end in bus.offsets([topic]).values())


def marker_keys(partitions: int) -> list[bytes]:
    """Return one asset for each partition."""
    keys = [b"marker-%d" % number for number in range(100 * partitions)]
    return [
        next(key for key in keys if partition_of(key, partitions) == partition)
        for partition in range(partitions)
    ]


class Markers:
    """A command at the end of each partition of a source topic, and the wait for the answers.

    A bucket applies its records in order, so its answer says that all before it is done.
    """

    def __init__(
        self, bus: Bus, reports: str, states: str, seed: int, signer: Signer | None = None
    ) -> None:
        """Append the commands. signer: signs them; None: they bear no signature."""
        chance, partitions = Random(seed), bus.partitions(reports)
        producer = bus.producer()
        self.ids: set[bytes] = set()
        for key in marker_keys(partitions):
            id_ = str(UUID(int=chance.getrandbits(128)))
            command = Command("set", key.decode(), id_, "bench", state=STATES[0])
            value = encode_command(command)
            signed = value if signer is None else signer.sign(value, reports, key)
            producer.send_and_wait(reports, key, signed)
            self.ids.add(id_.encode())
        producer.close()
        self.ends = {place: end for place, (_, end) in bus.offsets([reports]).items()}
        self._answers = Answers(bus, states, self.ids)

    def answered(self) -> bool:
        """Look once; return whether every command has been answered."""
        return self._answers.complete()

    @property
    def answered_at(self) -> float:
        """Unix seconds of when the last answer was there; at most one look late."""
        return self._answers.at


class Answers:
    """The wait for the answers of commands in a sink topic, among what comes after `begin`.

    Little is read for that: only once the topic has come to rest, and only its last records.
    """

    def __init__(
        self,
        bus: Bus,
        states: str,
        ids: Iterable[bytes],
        begin: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._bus, self._states, self._waiting = bus, states, set(ids)
        self._begin = dict(begin or {})
        self._seen: dict[TopicPartition, int] = {}
        self._read = self._seen
        self.at = 0.0
        """Unix seconds of when the last answer was there; at most one look late."""

    def complete(self) -> bool:
        """Look once; return whether every command has been answered."""
        edges = self._bus.offsets([self._states])
        begins = {place: self._begin.get(place, begin) for place, (begin, _) in edges.items()}
        ends = {place: end for place, (_, end) in edges.items() if begins[place] < end}
        if ends != self._seen:
            self._seen, self.at = ends, time.time()
        elif ends and ends != self._read:
            self._read = ends
            starts = {place: max(begins[place], end - NEAR_END) for place, end in ends.items()}
            for message in between(self._bus, starts, ends):
                self._waiting.discard(dict(message.headers).get("command", b""))
        return not self._waiting


def between(
    bus: Bus,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    silence_s: float = 10,
) -> Iterator[ConsumerRecord]:
    """Yield the records between offsets; ends early where none has come for `silence_s` s."""
    reader = bus.reader(starts)
    try:
        received_at = time.monotonic()
        while any(reader.positions()[place] < end for place, end in ends.items()):
            messages = reader.poll(1, 10_000)
            yield from messages
            if messages:
                received_at = time.monotonic()
            if time.monotonic() - received_at > silence_s:
                return
    finally:
        reader.close()
