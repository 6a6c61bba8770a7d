"""Batch queries: batches that the console asks of the job, and what they bring back. Times in ms.

What is asked is in the parameters of a record of `job.control`; what comes back in records of
`job.results`, keyed by the ask's id, each small enough for a topic as it is by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from domain.records import Doubt, Override, Pending, Vote
from domain.scenario import Scenario
from wire.job import Control, Id, UnreadableJobRecord
from wire.snapshot import FileName

# Most assets that one reading of the state store brings back.
MOST_ROWS = 10_000
# Most assets that a what-if tells the timelines of: those that differ most.
MOST_DIFFERENT = 2_000
# Most transitions of a timeline that is told.
MOST_MOMENTS = 100
# About how large a record of the results is made.
PART_BYTES = 400_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


# ---- what is asked ------------------------------------------------------------------------------


class ReadState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a scenario's committed state: one asset, or those of one partition, or all.

    after: names that come after this one, in the order of code points; empty: from the first on.
    """

    scenario: Name
    partition: Annotated[int, msgspec.Meta(ge=0, le=999)] | None = None
    asset: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None
    after: Annotated[str, msgspec.Meta(max_length=255)] = ""


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A daily snapshot of a bucket's fold. offset: of the first record after it.

    snapshot: its file below the snapshots' folder; digest: the file's SHA-256.
    """

    offset: Natural
    snapshot: FileName
    digest: str


class WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario's log from `since` on, under its rule and under one with these keys changed.

    buckets: by name (`attack/0`), the snapshots that both may begin with; see `lead_time`.
    """

    scenario: Name
    since: Natural
    changes: dict[str, Any]
    buckets: dict[str, Snapshot] = {}


class Cancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ask whose batch query is to end."""

    ask: Id


_ASKED = {"read-state": ReadState, "what-if": WhatIf, "cancel": Cancel}


def parameters_of(ask: Control) -> ReadState | WhatIf | Cancel:
    """Return what an ask of a batch query says.

    Raises UnreadableJobRecord, which names the field.
    """
    try:
        parameters: ReadState | WhatIf | Cancel = msgspec.convert(
            ask.parameters, _ASKED[ask.action]
        )
    except (KeyError, msgspec.ValidationError) as error:
        raise UnreadableJobRecord(f"parameters: {error}") from None
    return parameters


# ---- what a what-if begins with -----------------------------------------------------------------


def lead_time(then: Scenario, rules: Iterable[Scenario]) -> int | None:
    """Return how long before the window the first snapshot must be, ms; None: never enough.

    then: the rule that made the snapshot's state; rules: those that are taken up there, each as a
    `scenario` record in the log would be.

    A rule that is `then` itself goes on as if it had never been interrupted, and needs no time.
    Another one weighs and dates the votes that are there, tallies them, and lets happen what is
    overdue, all at once. Two things that it would have made otherwise before take time to come
    right:

    * Votes that `then` did not take, took for silent, or has forgotten. The rule would have had
      them fall silent and forgotten them too, a lifetime of its own and its memory later, and from
      there on both have the same; where its votes live for ever, such a vote is missing for ever.
      Where `then` let them live longer, they fall silent late, and are forgotten a memory later.
    * Tallies that `then` saw otherwise: their hold begins at the snapshot, although it may have
      passed long ago. Of a tally that lasts the longest hold makes the state, whichever it was.

    So it is the one, where votes may be missing, and then the other. Overrides and mutes do not
    depend on a rule. What a rule draws from ever earlier history stays as `then` made it: a state
    that is kept without a majority or in silence, an asset that was purged, the beginning of a
    state.
    """
    needed = [_lead_time(then, rule) for rule in rules]
    longest = max(needed, default=0)
    return None if longest == inf else int(longest)


def _lead_time(then: Scenario, rule: Scenario) -> float:
    if rule == then:
        return 0
    return _votes_lead(then, rule) + max((rule.holds or {"": 0}).values())


def _votes_lead(then: Scenario, rule: Scenario) -> float:
    """Return the time until the votes that `then` left are those that the rule would have, ms."""
    memory, lifetime = rule.forget_delay or 0, _or_ever(rule.lifetime)
    if not _has_votes_of(then, rule):
        return lifetime + memory
    return memory if lifetime < _or_ever(then.lifetime) else 0


def _has_votes_of(then: Scenario, rule: Scenario) -> bool:
    """Return whether `then` has every vote, live or silent, that `rule` would have."""
    words = {spec.name for spec in rule.states} <= {spec.name for spec in then.states}
    return (
        _or_ever(rule.lifetime) <= _or_ever(then.lifetime)
        and (rule.forget_delay or 0) <= (then.forget_delay or 0)
        and _oldest(rule) <= _oldest(then)
        and rule.fold == then.fold
        and (then.open_vocabulary or (words and not rule.open_vocabulary))
    )


def _oldest(rule: Scenario) -> float:
    """Return the age up to which a report leaves a vote, live or silent, ms."""
    limit = _or_ever(rule.report_age_limit)
    return limit if rule.forget_delay else min(limit, _or_ever(rule.lifetime))


def _or_ever(ms: int | None) -> float:
    return inf if ms is None else ms


# ---- what comes back ----------------------------------------------------------------------------


class StoredAsset(msgspec.Struct, frozen=True):
    """An asset as Spark's committed state has it.

    tallied: what the votes make; state: what is shown, None of one that is purged; offset and
    step: of the last event applied to it; changed: of the last that changed state, pending or
    override; emitted_at: when it was last emitted; dues: time and type of its timers, and
    on whose vote, empty where it is on none; answers: how many are remembered; unconfirmed_reason,
    disputed, doubts: as in a state record; waits: each state that is waited for, and since when;
    purged_at: of the last purge, where that is still remembered.
    """

    partition: int
    asset: str
    tallied: str | None
    state: str | None
    previous: str | None
    since: int
    unconfirmed: bool
    offset: int
    step: int
    changed: tuple[int, int]
    emitted_at: int
    votes: list[Vote]
    pending: Pending | None
    override: Override | None
    dues: list[tuple[int, str, str]]
    answers: int
    forget_at: int | None
    unconfirmed_reason: str | None = None
    disputed: str | None = None
    waits: list[tuple[str, int]] = []
    purged_at: int | None = None
    doubts: list[Doubt] = []


class StoredBucket(msgspec.Struct, frozen=True):
    """A bucket of the committed state: its clock, the last offset applied, assets, and its rule."""

    partition: int
    clock: int
    offset: int
    assets: int
    rule: dict[str, Any]


class Stored(msgspec.Struct, frozen=True, tag="read-state"):
    """A part of what was read of the state. Each tells the epoch, the last one all else.

    batch: the committed batch that was read, committed_at: when it was; cut: whether there are more
    assets after the last of these.
    """

    ask: Id
    part: int
    rows: list[StoredAsset] = []
    last: bool = False
    engine: str = ""
    epoch: int = 0
    batch: int = 0
    committed_at: int = 0
    cut: bool = False
    buckets: list[StoredBucket] = []


# A time, and the state that began then; None: the asset is gone.
Moment = tuple[int, str | None]


class Difference(msgspec.Struct, frozen=True):
    """An asset that fares otherwise under the proposed rule.

    before: the states when the window began, of both; running, proposed: what began within it;
    earlier, later: transitions moved; shift: by how much in all, ms, either way.
    """

    asset: str
    before: tuple[str | None, str | None]
    running: list[Moment]
    proposed: list[Moment]
    gained: int
    lost: int
    earlier: int
    later: int
    shift: int


class StateTotal(msgspec.Struct, frozen=True):
    """Of a state, under each rule: how long assets were in it, ms, and how often one got there."""

    state: str
    running_ms: int
    proposed_ms: int
    running: int
    proposed: int


class Began(msgspec.Struct, frozen=True):
    """What both runs of a partition began with, and the time of that, ms.

    means: the state of a daily snapshot; the log's very first record; or, in mid-log, an empty
    state. why: why not with a snapshot that was at hand.
    """

    means: Literal["snapshot", "log", "empty"]
    at: int
    why: str = ""


class Totals(msgspec.Struct, frozen=True):
    """What a what-if comes to. begun: the time where the first partition begins; until: the log's
    last time; began: by partition, with what.

    offsets: by partition, from the first to before the second; records: replayed under each rule;
    assets: that were seen; different: those that fare otherwise; other_end: those that end in
    another state; running, proposed: transitions within the window; same, gained, lost, earlier,
    later: what became of them; shift: by how much those moved, ms in all; rules: both, as plain
    data.
    """

    begun: int
    since: int
    until: int
    offsets: dict[int, tuple[int, int]]
    records: int
    assets: int
    different: int
    other_end: int
    running: int
    proposed: int
    same: int
    gained: int
    lost: int
    earlier: int
    later: int
    shift: int
    states: list[StateTotal]
    engines: tuple[str, str]
    rules: tuple[dict[str, Any], dict[str, Any]]
    took_ms: int
    began: dict[int, Began] = {}


class WhatIfResult(msgspec.Struct, frozen=True, tag="what-if"):
    """A part of what a what-if found; the last one has the totals."""

    ask: Id
    part: int
    rows: list[Difference] = []
    last: bool = False
    totals: Totals | None = None


Result = Stored | WhatIfResult
T = TypeVar("T")
_DECODER: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)


def encode_result(result: Result) -> bytes:
    """Return the value of a record of the results."""
    return msgspec.json.encode(result)


def decode_result(value: bytes | None) -> Result:
    """Read a record of the results. Raises UnreadableJobRecord."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableJobRecord(f"Result: {error}") from None


def portions(rows: Iterable[T], most: int = PART_BYTES) -> Iterator[list[T]]:
    """Yield the rows in portions of about `most` bytes, encoded; the last may be empty."""
    portion: list[T] = []
    size = 0
    for row in rows:
        portion.append(row)
        size += len(msgspec.json.encode(row))
        if size >= most:
            yield portion
            portion, size = [], 0
    yield portion
