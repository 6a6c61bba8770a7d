"""The fold's own state as bytes: for Spark's state store and for the daily snapshots.

The first byte is the codec's version, so that a later one can still read what this one wrote:
version 3 has the mutes of a bucket and the mark of a muted vote; version 2 keeps a vote's detail as
its text, version 1 kept it as a map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from domain.asset import Asset, next_due
from domain.dues import Dues
from domain.fold import Bucket
from domain.records import Answer, Mute, Muted, Override, Pending, Vote
from domain.scenario import Scenario
from wire.source import detail_text

T = TypeVar("T")

CODEC = 3
READABLE = (1, 2, CODEC)


class UnreadableAsset(ValueError):
    """State bytes of an unknown codec version, or damaged."""


def dump_asset(asset: Asset) -> bytes:
    """One asset as bytes."""
    return _dump(_fields(asset))


def load_asset(data: bytes) -> Asset:
    """Read what `dump_asset` wrote. Raises UnreadableAsset."""
    return _read(_asset, data)


def dump_bucket(bucket: Bucket) -> bytes:
    """A whole bucket, its rule included, as bytes; its epoch is not part of it."""
    return _dump(
        [
            bucket.scenario.to_plain(),
            bucket.partition,
            bucket.clock,
            bucket.offset,
            bucket.live,
            [[name, _fields(bucket.assets[name])] for name in sorted(bucket.assets)],
            [_mute_fields(bucket.mutes[agent]) for agent in sorted(bucket.mutes)],
        ]
    )


def load_bucket(data: bytes, epoch: int) -> Bucket:
    """Read what `dump_bucket` wrote, to go on in `epoch`. Raises UnreadableAsset."""
    return _read(lambda fields: _bucket(fields, epoch), data)


def _bucket(fields: list[Any], epoch: int) -> Bucket:
    plain, partition, clock, offset, live, entries, *later = fields
    mutes = [Mute(*mute) for mute in later[0]] if later else []
    scenario = Scenario.from_plain(plain)
    assets = {name: _asset(asset) for name, asset in entries}
    dues = Dues(_dues(assets, scenario))
    return Bucket(
        scenario,
        partition,
        epoch,
        assets,
        dues,
        clock=clock,
        offset=offset,
        live=live,
        mutes=mutes,
    )


def _dues(assets: dict[str, Asset], scenario: Scenario) -> list[tuple[str, int]]:
    found = [(name, next_due(asset, scenario)) for name, asset in assets.items()]
    return [(name, due.time) for name, due in found if due is not None]


def _dump(data: Any) -> bytes:
    return bytes([CODEC]) + msgspec.msgpack.encode(data)


def _read(make: Callable[[Any], T], data: bytes) -> T:
    if not data or data[0] not in READABLE:
        expected = " or ".join(map(str, READABLE))
        raise UnreadableAsset(f"state: expected codec version {expected}, got {data[:1]!r}")
    try:
        return make(msgspec.msgpack.decode(memoryview(data)[1:]))
    except (msgspec.DecodeError, IndexError, TypeError, ValueError) as error:
        raise UnreadableAsset(f"state: {error}") from None


def _fields(asset: Asset) -> list[Any]:
    pending, override = asset.pending, asset.override
    return [
        asset.state,
        asset.shown,
        asset.previous,
        asset.since,
        asset.unconfirmed,
        [_vote_fields(vote) for vote in asset.votes.values()],
        pending and [pending.state, pending.since, pending.due],
        override and _override_fields(override),
        asset.offset,
        asset.step,
        asset.changed,
        asset.reminded,
        asset.emitted_at,
        [[answer.command, answer.outcome] for answer in asset.answers],
        asset.forget_at,
    ]


def _vote_fields(vote: Vote) -> list[Any]:
    fields = [
        vote.agent,
        vote.state,
        vote.reported_at,
        vote.time,
        vote.offset,
        vote.expires,
        vote.weight,
        vote.detail,
    ]
    return fields if vote.muted is None else [*fields, [vote.muted.until, vote.muted.user]]


def _mute_fields(mute: Mute) -> list[Any]:
    return [mute.agent, mute.until, mute.user, mute.reason, mute.id]


def _override_fields(override: Override) -> list[Any]:
    return [
        override.state,
        override.until,
        override.user,
        override.reason,
        override.command,
        override.since,
        override.underlying,
    ]


def _vote(fields: list[Any]) -> Vote:
    if isinstance(fields[-1], dict):  # the detail, as version 1 wrote it
        fields[-1] = detail_text(fields[-1])
    if len(fields) > 8:
        fields[8] = Muted(*fields[8])
    return Vote(*fields)


def _asset(fields: list[Any]) -> Asset:
    state, shown, previous, since, unconfirmed, votes, pending, override, *rest = fields
    offset, step, changed, reminded, emitted_at, answers, forget_at = rest
    return Asset(
        state=state,
        shown=shown,
        previous=previous,
        since=since,
        unconfirmed=unconfirmed,
        votes={vote[0]: _vote(vote) for vote in votes},
        pending=Pending(*pending) if pending else None,
        override=Override(*override) if override else None,
        offset=offset,
        step=step,
        changed=(changed[0], changed[1]),
        reminded=reminded,
        emitted_at=emitted_at,
        answers=[Answer(*answer) for answer in answers],
        forget_at=forget_at,
    )
