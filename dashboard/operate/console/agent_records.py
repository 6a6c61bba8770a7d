"""An agent's records in the log of a scenario, each with what the job makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from threading import Event

from bus.base import Bus, ConsumerRecord
from dashboard.core.common.times import iso
from dashboard.operate.dead_letters.diagnosis import Sample, fault_of
from dashboard.operate.dead_letters.ingestion import claimed_agent, is_of_agent
from dashboard.operate.dead_letters.validation import RecordVerdict, judge
from domain.records import Misrouted, Report, Unreadable
from domain.scenario import Scenario
from wire.forward import forwarded_from
from wire.source import decode_placed

TAIL = 2_000
"""Records at the end of each partition among which the last ones of an agent are looked for."""
POLL_S = 0.5


def follow(
    bus: Bus, topic: str, scenario: Scenario, agent: str, *, last: int, stop: Event, on: bool
) -> Iterator[str]:
    """Yield a line for each of an agent's last records, oldest first, then for each new one.

    agent: "" for any; last: how many; on: go on with new ones until `stop` is set. Raises BusError.
    """
    edges = bus.offsets([topic])
    ends = {place: end for place, (_, end) in edges.items()}
    starts = {at: max(begin, ends[at] - TAIL) for at, (begin, _) in edges.items()}
    with closing(bus.reader(starts)) as reader:
        found: list[ConsumerRecord] = []
        while not stop.is_set() and any(reader.positions()[at] < end for at, end in ends.items()):
            found += _of_agent(reader.poll(POLL_S, TAIL), agent)
        found.sort(key=lambda message: (message.timestamp, message.partition, message.offset))
        yield from (described(message, scenario) for message in found[-last:])
        while on and not stop.is_set():
            for message in _of_agent(reader.poll(POLL_S, TAIL), agent):
                yield described(message, scenario)


def _of_agent(messages: Iterable[ConsumerRecord], agent: str) -> Iterator[ConsumerRecord]:
    """Yield the records that an agent wrote, as far as that can be read."""
    for message in messages:
        value = message.value or b""
        if agent in ("", claimed_agent(value)) and is_of_agent(message.key, value):
            yield message


def described(message: ConsumerRecord, scenario: Scenario) -> str:
    """Return a record as a line: when and where it was appended, and what the job makes of it."""
    place = f"{message.topic}/{message.partition} offset={message.offset}"
    key = f"key={message.key.decode(errors='replace')!r}" if message.key else "no key"
    return f"{iso(message.timestamp)} {place} {key} {_outcome(message, scenario)}"


def _outcome(message: ConsumerRecord, scenario: Scenario) -> str:
    place = message.partition, scenario.partitions
    record = decode_placed(
        message.key, message.value, message.timestamp, *place, headers=message.headers
    )
    if isinstance(record, Misrouted):
        wanted = f"{record.fault.expected}, got {record.fault.given}"
        return f"forwarded: {record.record.asset!r} belongs on {wanted}"
    if isinstance(record, Unreadable):
        verdict = _unreadable(message, record, scenario)
    else:
        verdict = judge(message.topic, message.key, message.value, message.timestamp)
    origin = forwarded_from(message.headers)
    came = "" if origin is None else f" (forwarded from partition {origin[0]})"
    return f"{_in_words(verdict)}{came}"


def _unreadable(message: ConsumerRecord, record: Unreadable, scenario: Scenario) -> RecordVerdict:
    """Return why the job refuses a record where it lies: `judge` looks for no wrong partition."""
    sample = Sample(message.key, message.value, message.partition, message.timestamp)
    fault = fault_of(record.reason, sample, scenario)
    return RecordVerdict(scenario, message.partition, record.reason, fault, record=record)


def _in_words(verdict: RecordVerdict) -> str:
    if verdict.reason:
        text = verdict.fault.text if verdict.fault else ""
        return " ".join(filter(None, [f"refused ({verdict.reason}):", text, verdict.note]))
    record = verdict.record
    said = f"{record.agent} says {record.state}" if isinstance(record, Report) else "a leave"
    return f"taken: {said}{f'. {verdict.note}' if verdict.note else ''}"
