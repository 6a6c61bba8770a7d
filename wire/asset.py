"""The fold's own state as bytes: for Spark's state store and for the daily snapshots.

The first byte is the codec's version, so that a later one can still read what this one wrote:
version 6 has doubts; version 5 has tasks; version 4 has silent votes, order and age of votes,
waits, and who was answered; version 3 has the mutes of a bucket and the mark of a muted vote;
version 2 keeps a vote's detail as its text, version 1 kept it as a map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from domain.asset import AnsweredCommand, Asset, next_timer
from domain.fold import Bucket
from domain.records import REFUSED, Doubt, Flap, Mute, Muted, Override, Task, Vote
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from domain.timer_index import TimerHeap
from wire.source import detail_text

T = TypeVar("T")

CODEC = 6
READABLE = (1, 2, 3, 4, 5, CODEC)
_BEFORE_FOLD_2 = (1, 2, 3)
_WITHOUT_TASKS = 4
_WITHOUT_DOUBTS = 5


class UnreadableAsset(ValueError):
    """State bytes of an unknown codec version, or damaged."""


def dump_asset(asset: Asset) -> bytes:
    """Return one asset as bytes."""
    return _dump(_fields(asset))


def load_asset(data: bytes) -> Asset:
    """Read what `dump_asset` wrote. Raises UnreadableAsset."""
    return _read(_asset, data)


def dump_bucket(bucket: Bucket) -> bytes:
    """Return a whole bucket, its rule included, as bytes; its epoch is not part of it."""
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
    return _read(lambda fields, version: _bucket(fields, version, epoch), data)


def _bucket(fields: list[Any], version: int, epoch: int) -> Bucket:
    plain, partition, clock, offset, live, entries, *later = fields
    mutes = [Mute(*mute) for mute in later[0]] if later else []
    scenario = scenario_from_plain(plain)
    assets = {name: _asset(asset, version) for name, asset in entries}
    return Bucket(
        scenario,
        partition,
        epoch,
        assets,
        TimerHeap(_times(assets, scenario)),
        clock=clock,
        offset=offset,
        live=live,
        mutes=mutes,
    )


def _times(assets: dict[str, Asset], scenario: Scenario) -> list[tuple[str, int]]:
    timers = [(name, next_timer(asset, scenario)) for name, asset in assets.items()]
    return [(name, timer.time) for name, timer in timers if timer is not None]


def _dump(data: Any) -> bytes:
    return bytes([CODEC]) + msgspec.msgpack.encode(data)


def _read(make: Callable[[Any, int], T], data: bytes) -> T:
    if not data or data[0] not in READABLE:
        expected = " or ".join(map(str, READABLE))
        raise UnreadableAsset(f"state: expected codec version {expected}, got {data[:1]!r}")
    try:
        return make(msgspec.msgpack.decode(memoryview(data)[1:]), data[0])
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


def _vote(fields: list[Any], version: int) -> Vote:
    if isinstance(fields[-1], dict):  # the detail, as version 1 wrote it
        fields[-1] = detail_text(fields[-1])
    if len(fields) > 8 and fields[8] is not None:
        fields[8] = Muted(*fields[8])
    if version in _BEFORE_FOLD_2:
        reported_at, time = fields[2:4]
        fields += [None] * (10 - len(fields)) + [min(reported_at, time), max(0, time - reported_at)]
    if version > _WITHOUT_DOUBTS and fields[-1] is not None:
        fields[-1] = Flap(*fields[-1])
    return Vote(*fields)


def _doubt(fields: list[Any]) -> Doubt:
    muted = fields[-1]
    return Doubt(*[*fields[:-1], muted and Muted(*muted)])


def _asset(fields: list[Any], version: int) -> Asset:
    if version in _BEFORE_FOLD_2:
        fields = _from_fold_1(fields)
    if version <= _WITHOUT_TASKS:
        fields = [*fields, []]
    if version <= _WITHOUT_DOUBTS:
        fields = [*fields, [], None]
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
        votes={vote[0]: _vote(vote, version) for vote in votes},
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


# Why an asset is unconfirmed that an earlier release said to be, which kept no reason.
OLD_MARK = "not known: it was tallied by an earlier release"


def _from_fold_1(fields: list[Any]) -> list[Any]:
    """Return an asset's fields as version 3 and earlier wrote them, in today's form."""
    state, shown, previous, since, unconfirmed, votes, pending, override, *rest = fields
    *places, answers, forget_at = rest
    reason = OLD_MARK if unconfirmed else None
    waits = [pending[:2]] if pending else []
    answered = [[command, outcome, _old_cause(outcome), ""] for command, outcome in answers]
    before = [state, shown, previous, since, reason, None, votes, waits, override]
    return [*before, *places, answered, forget_at, None]


def _old_cause(outcome: str) -> str:
    """Return the cause for answering a command again, where an earlier release kept none."""
    return "refused" if outcome.startswith(REFUSED) else "set"
