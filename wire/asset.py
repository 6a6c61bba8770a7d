"""The fold's state as bytes, for Spark's state store and for the daily snapshots.

The first byte is the version of the codec, so that a later version can recognise what this one
wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, TypeVar

import msgspec

from domain.asset import AnsweredCommand, Asset, next_timer
from domain.fold import Bucket
from domain.records import Doubt, Flap, Mute, Muted, Override, Task, Vote
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from domain.timer_index import TimerHeap

T = TypeVar("T")

CODEC = 7


class UnreadableAsset(ValueError):
    """State bytes that are damaged or have an unknown codec version."""


def dump_asset(asset: Asset) -> bytes:
    """Return an asset as bytes."""
    return _dump(_fields(asset))


def load_asset(data: bytes) -> Asset:
    """Return the asset written by `dump_asset`. Raises UnreadableAsset."""
    return _read(_asset, data)


def dump_bucket(bucket: Bucket) -> bytes:
    """Return a whole bucket including its rule as bytes. The epoch is not included."""
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


def bucket_frame(bucket: Bucket) -> tuple[bytes, bytes]:
    """Return what `dump_bucket` has before and after the array of the assets."""
    before = (
        bucket.scenario.to_plain(),
        bucket.partition,
        bucket.clock,
        bucket.offset,
        bucket.live,
    )
    mutes = [_mute_fields(bucket.mutes[agent]) for agent in sorted(bucket.mutes)]
    fields = len(before) + 2
    head = b"".join(map(msgspec.msgpack.encode, before))
    return bytes([CODEC, 0x90 | fields]) + head, msgspec.msgpack.encode(mutes)


def load_bucket(data: bytes, epoch: int) -> Bucket:
    """Return the bucket written by `dump_bucket`, continuing in `epoch`. Raises UnreadableAsset."""
    return _read(lambda fields: _bucket(fields, epoch), data)


class PackedAssets(MutableMapping[str, Asset]):
    """Assets of a bucket as bytes: each is unpacked when it is asked for, and not kept."""

    def __init__(self, entries: Iterable[msgspec.Raw]) -> None:
        """entries: a name and fields each, as `dump_bucket` has them."""
        name_of = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw]).decode
        self._packed = dict(name_of(entry) for entry in entries)

    def __getitem__(self, name: str) -> Asset:
        return _asset(msgspec.msgpack.decode(self._packed[name]))

    def __setitem__(self, name: str, asset: Asset) -> None:
        self._packed[name] = msgspec.Raw(msgspec.msgpack.encode(_fields(asset)))

    def __delitem__(self, name: str) -> None:
        del self._packed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


_PACKED = msgspec.msgpack.Decoder(
    tuple[dict[str, Any], int, int, int, int, list[msgspec.Raw], list[Any]]
)


def open_bucket(data: bytes, epoch: int) -> Bucket:
    """Return the bucket written by `dump_bucket`, its assets packed and without its timers.

    It is there to be copied, not to go on. Raises UnreadableAsset.
    """

    def opened(fields: Any) -> Bucket:
        plain, partition, clock, offset, live, entries, mutes = fields
        own = {"clock": clock, "offset": offset, "live": live}
        held = [Mute(*mute) for mute in mutes]
        scenario, assets = scenario_from_plain(plain), PackedAssets(entries)
        return Bucket(scenario, partition, epoch, assets, mutes=held, **own)

    return _read(opened, data, _PACKED.decode)


def _bucket(fields: list[Any], epoch: int) -> Bucket:
    plain, partition, clock, offset, live, entries, mutes = fields
    scenario = scenario_from_plain(plain)
    assets = {name: _asset(asset) for name, asset in entries}
    return Bucket(
        scenario,
        partition,
        epoch,
        assets,
        TimerHeap(_times(assets, scenario)),
        clock=clock,
        offset=offset,
        live=live,
        mutes=[Mute(*mute) for mute in mutes],
    )


def _times(assets: dict[str, Asset], scenario: Scenario) -> list[tuple[str, int]]:
    timers = [(name, next_timer(asset, scenario)) for name, asset in assets.items()]
    return [(name, timer.time) for name, timer in timers if timer is not None]


def _dump(data: Any) -> bytes:
    return bytes([CODEC]) + msgspec.msgpack.encode(data)


def _read(
    make: Callable[[Any], T],
    data: bytes,
    decode: Callable[[memoryview], Any] = msgspec.msgpack.decode,
) -> T:
    if not data or data[0] != CODEC:
        raise UnreadableAsset(f"state: expected codec version {CODEC}, got {data[:1]!r}")
    try:
        return make(decode(memoryview(data)[1:]))
    except (msgspec.DecodeError, IndexError, TypeError, ValueError) as error:
        raise UnreadableAsset(f"state: {error}") from None


def _fields(asset: Asset) -> list[Any]:
    return [
        asset.state,
        asset.shown,
        asset.previous,
        asset.since,
        asset.unconfirmed,
        asset.disputed,
        [_vote_fields(vote) for vote in asset.votes.values()],
        [[state, since] for state, since in sorted(asset.waits.items())],
        asset.override and _override_fields(asset.override),
        asset.offset,
        asset.step,
        asset.changed,
        asset.reminded,
        asset.emitted_at,
        [list(answered) for answered in asset.answers],
        asset.forget_at,
        asset.purged_at,
        [_task_fields(task) for task in asset.tasks],
        [_doubt_fields(doubt) for doubt in asset.doubts.values()],
        asset.settled,
    ]


def _doubt_fields(doubt: Doubt) -> list[Any]:
    return [
        doubt.agent,
        doubt.reason,
        doubt.said,
        doubt.time,
        doubt.offset,
        doubt.until,
        doubt.weight,
        doubt.muted and [doubt.muted.until, doubt.muted.user],
    ]


def _vote_fields(vote: Vote) -> list[Any]:
    return [
        vote.agent,
        vote.state,
        vote.reported_at,
        vote.time,
        vote.offset,
        vote.expires,
        vote.weight,
        vote.detail,
        vote.muted and [vote.muted.until, vote.muted.user],
        vote.silent,
        vote.order,
        vote.age,
        vote.doubt,
        vote.detail_fault,
        vote.flap and [vote.flap.state, vote.flap.time, vote.flap.until, vote.flap.again],
        vote.claimed,
    ]


def _task_fields(task: Task) -> list[Any]:
    return [
        task.id,
        task.do,
        task.user,
        task.reason,
        task.due,
        task.state,
        task.condition,
        task.every,
        task.until,
        task.times,
        task.within,
        task.outcome,
        task.ran,
        task.aside,
    ]


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
    *plain, muted, silent, order, age, doubt, detail_fault, flap, claimed = fields
    later = (silent, order, age, doubt, detail_fault, flap and Flap(*flap), claimed)
    return Vote(*[*plain, muted and Muted(*muted), *later])


def _doubt(fields: list[Any]) -> Doubt:
    muted = fields[-1]
    return Doubt(*[*fields[:-1], muted and Muted(*muted)])


def _asset(fields: list[Any]) -> Asset:
    state, shown, previous, since, unconfirmed, disputed, votes, waits, override, *rest = fields
    offset, step, changed, reminded, emitted_at, answers, forget_at, purged_at, *later = rest
    tasks, doubts, settled = later
    return Asset(
        state=state,
        shown=shown,
        previous=previous,
        since=since,
        unconfirmed=unconfirmed,
        disputed=disputed,
        votes={vote[0]: _vote(vote) for vote in votes},
        waits=dict(waits),
        override=Override(*override) if override else None,
        offset=offset,
        step=step,
        changed=(changed[0], changed[1]),
        reminded=reminded,
        emitted_at=emitted_at,
        answers=[AnsweredCommand(*answered) for answered in answers],
        forget_at=forget_at,
        purged_at=purged_at,
        tasks=tuple(Task(*task) for task in tasks),
        doubts={doubt[0]: _doubt(doubt) for doubt in doubts},
        settled=settled,
    )
