"""What an engine made of the log: its output, counted, and each asset's last state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from bench.load import between
from bench.stack import BenchProblem
from bus.base import Bus, TopicPartition

SHOWN = 3


class _Vote(msgspec.Struct):
    agent: str
    state: str
    silent: int | None = None
    flapping: msgspec.Raw = msgspec.Raw()


class _Shown(msgspec.Struct):
    """What must be equal: state, marks and votes. Times and places follow from the log."""

    asset: str
    state: str
    unconfirmed: bool
    votes: list[_Vote]
    disputed: str | None = None
    doubts: list[msgspec.Raw] = []


@dataclass
class Outcome:
    """Output of an engine: committed records, bytes of their keys and values, the last states."""

    records: int = 0
    bytes: int = 0
    last: dict[str, str] = field(default_factory=dict)


def outcome(bus: Bus, topic: str, begin: Mapping[TopicPartition, int]) -> Outcome:
    """Read what a sink topic holds after `begin`, committed records only. Raises BenchProblem."""
    output, decode = Outcome(), msgspec.json.Decoder(_Shown).decode
    ends = {place: end for place, (_, end) in bus.offsets([topic]).items()}
    starts = {place: begin.get(place, 0) for place in ends}
    last: dict[bytes, bytes] = {}
    for message in between(bus, starts, ends):
        if message.key is None or message.value is None:
            raise BenchProblem(f"{topic}: a record without key or value at {message.offset}")
        output.records += 1
        output.bytes += len(message.key) + len(message.value)
        last[message.key] = message.value
    output.last = {key.decode(): _plain(decode(value)) for key, value in last.items()}
    return output


def _plain(shown: _Shown) -> str:
    votes = [
        f"{v.agent}:{v.state}{'?' if v.silent else ''}{'~' if v.flapping else ''}"
        for v in shown.votes
    ]
    votes += ("doubt" for _ in shown.doubts)
    marks = f"{'?' if shown.unconfirmed else ''}{f'!{shown.disputed}' if shown.disputed else ''}"
    return f"{shown.state}{marks} {' '.join(votes)}"


def differences(one: Outcome, other: Outcome) -> list[str]:
    """Return what differs between two outcomes, in words: records, then some of the assets."""
    differing = []
    if one.records != other.records:
        differing.append(f"{one.records:,} and {other.records:,} records")
    wrong = sorted(
        asset for asset in one.last.keys() | other.last.keys()
        if one.last.get(asset) != other.last.get(asset)
    )  # fmt: skip
    differing += (f"{a}: {one.last.get(a)!r} and {other.last.get(a)!r}" for a in wrong[:SHOWN])
    if len(wrong) > SHOWN:
        differing.append(f"{len(wrong) - SHOWN:,} more assets")
    return differing
