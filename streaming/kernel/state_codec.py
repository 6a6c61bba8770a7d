"""A bucket's state as the kernel keeps it, written by Python: the bytes of Codec and Run."""

from __future__ import annotations

import struct
from uuid import UUID

import msgspec

from domain.asset import Asset
from domain.fold import Bucket
from domain.records import Doubt, Override, Task, Vote

# Version of an asset.
CURRENT = 7
# What a vote has beyond a plain one.
HAS_MUTE, HAS_SILENCE, HAS_ORDER, HAS_AGE = 1, 2, 4, 8
HAS_DOUBT, HAS_DETAIL_FAULT, HAS_FLAP, HAS_CLAIM = 16, 32, 64, 128
# Versions of a bucket's own: without mutes, and with some.
META_PLAIN, META_MUTES = 1, 2
_META = struct.Struct(">b7q")
_NONE = -1


def dump_kernel_meta(bucket: Bucket) -> bytes:
    """Return what the kernel keeps of a bucket besides its assets; nothing is counted yet."""
    mutes = [bucket.mutes[agent] for agent in sorted(bucket.mutes)]
    encoded = msgspec.json.encode(mutes) if mutes else b""
    version = META_MUTES if mutes else META_PLAIN
    counted = (0, 0, 0, 0)  # the last heartbeat; records, dead letters, stale reports since
    return _META.pack(version, bucket.clock, bucket.offset, bucket.live, *counted) + encoded


def dump_kernel_asset(asset: Asset, noted: int | None) -> bytes:
    """Return an asset's entry. noted: when the timer index looks at it, ms; None: no timer."""
    out = _Out()
    out.signed(_NONE if noted is None else noted)
    for text in (asset.state, asset.shown, asset.previous):
        out.text(text)
    out.signed(asset.since)
    out.text(asset.unconfirmed)
    out.text(asset.disputed)
    out.signed(asset.offset, len(asset.votes))
    for _, vote in sorted(asset.votes.items()):
        _vote(out, vote, asset)
    out.signed(len(asset.waits))
    for state, since in sorted(asset.waits.items()):
        out.text(state)
        out.signed(since)
    _override(out, asset.override)
    changed_offset, changed_step = asset.changed
    out.signed(asset.step, changed_offset - asset.offset, changed_step)
    out.signed(asset.reminded - asset.since, asset.emitted_at - asset.since)
    _answers(out, asset)
    out.signed(_NONE if asset.forget_at is None else asset.forget_at)
    out.signed(_NONE if asset.purged_at is None else asset.purged_at)
    out.signed(len(asset.tasks))
    for task in asset.tasks:
        _task(out, task)
    out.signed(len(asset.doubts))
    for _, doubt in sorted(asset.doubts.items()):
        _doubt(out, doubt, asset)
    out.signed(_or_none(asset.settled))
    return bytes(out.data)


def _doubt(out: _Out, doubt: Doubt, asset: Asset) -> None:
    for text in (doubt.agent, doubt.reason, doubt.said):
        out.text(text)
    out.signed(doubt.time - asset.since, doubt.offset - asset.offset, doubt.until - doubt.time)
    out.signed(doubt.weight)
    out.text(None if doubt.muted is None else doubt.muted.user)
    if doubt.muted is not None:
        out.signed(_or_none(doubt.muted.until))


def _task(out: _Out, task: Task) -> None:
    out.id(task.id)
    for text in (task.do, task.user, task.reason):
        out.text(text)
    out.signed(_or_none(task.due))
    out.text(task.state)
    out.text(task.condition)
    out.signed(*map(_or_none, (task.every, task.until, task.times)))
    out.text(task.within)
    out.text(task.outcome)
    out.signed(_or_none(task.ran))
    out.text(task.aside)


def _or_none(number: int | None) -> int:
    return _NONE if number is None else number


def _answers(out: _Out, asset: Asset) -> None:
    out.signed(len(asset.answers))
    for answered in asset.answers:
        out.id(answered.command)
        for text in (answered.outcome, answered.cause, answered.user):
            out.text(text)


def _vote(out: _Out, vote: Vote, asset: Asset) -> None:
    out.text(vote.agent)
    out.text(vote.state)
    out.signed(vote.time - asset.since, vote.reported_at - vote.time, vote.offset - asset.offset)
    out.signed(_life(vote), vote.weight)
    out.text(vote.detail)
    order = min(vote.reported_at, vote.time)
    age = vote.time - order
    has = HAS_MUTE if vote.muted is not None else 0
    has |= HAS_SILENCE if vote.silent is not None else 0
    has |= HAS_ORDER if vote.order != order else 0
    has |= HAS_AGE if vote.age != age else 0
    has |= HAS_DOUBT if vote.doubt is not None else 0
    has |= HAS_DETAIL_FAULT if vote.detail_fault is not None else 0
    has |= HAS_FLAP if vote.flap is not None else 0
    has |= HAS_CLAIM if vote.claimed != vote.reported_at else 0
    out.signed(has)
    if vote.muted is not None:
        out.text(vote.muted.user)
        out.signed(_NONE if vote.muted.until is None else vote.muted.until)
    if vote.silent is not None:
        out.signed(vote.silent - vote.time)
    if vote.order != order:
        out.signed(vote.order - order)
    if vote.age != age:
        out.signed(vote.age - age)
    if vote.doubt is not None:
        out.text(vote.doubt)
    if vote.detail_fault is not None:
        out.text(vote.detail_fault)
    if vote.flap is not None:
        out.text(vote.flap.state)
        out.signed(vote.flap.time - vote.time, vote.flap.until - vote.flap.time, vote.flap.again)
    if vote.claimed != vote.reported_at:
        out.signed(vote.claimed - vote.reported_at)


def _life(vote: Vote) -> int:
    """Return how long a vote lives from its time on: 0 for ever, else never 0."""
    if vote.expires is None:
        return 0
    life = vote.expires - vote.time
    return life if life < 0 else life + 1


def _override(out: _Out, pin: Override | None) -> None:
    out.text(None if pin is None else pin.state)
    if pin is None:
        return
    out.signed(_NONE if pin.until is None else pin.until)
    out.text(pin.user)
    out.text(pin.reason)
    out.id(pin.command)
    out.signed(pin.since)
    out.text(pin.underlying)


class _Out:
    """Bytes as they are written."""

    def __init__(self) -> None:
        self.data = bytearray([CURRENT])

    def signed(self, *values: int) -> None:
        """Append integers of variable length: zigzag, 7 bits a byte, the least first."""
        for value in values:
            left = value << 1 if value >= 0 else (-value << 1) - 1
            while left > 0x7F:
                self.data.append(left & 0x7F | 0x80)
                left >>= 7
            self.data.append(left)

    def text(self, text: str | None) -> None:
        """Append UTF-8 after its length plus one, zero for None."""
        if text is None:
            self.signed(0)
            return
        data = text.encode()
        self.signed(len(data) + 1)
        self.data += data

    def id(self, command: str) -> None:
        """Append a command's id, a UUID, as its 16 bytes."""
        self.data += UUID(command).bytes
