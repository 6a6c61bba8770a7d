"""Batch queries that the console requests from the job, and their results. Times in ms.

A request is in the parameters of a record of `job.control`. Results are records of `job.results`,
keyed by the request's id, each small enough for a topic with default settings.
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

# Largest number of assets that one reading of the state store returns.
MOST_ROWS = 10_000
# Largest number of assets with timelines in a what-if: those that differ most.
MOST_DIFFERENT = 2_000
# Largest number of transitions in a timeline.
MOST_MOMENTS = 100
# Approximate size of a result record.
PART_BYTES = 400_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


# ---- what is asked ------------------------------------------------------------------------------


class ReadState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read a scenario's committed state: one asset, the assets of one partition, or all.

    after: only names after this one, in code point order; empty: from the first.
    """

    scenario: Name
    partition: Annotated[int, msgspec.Meta(ge=0, le=999)] | None = None
    asset: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None
    after: Annotated[str, msgspec.Meta(max_length=255)] = ""


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A daily snapshot of a bucket's fold.

    offset: of the first record after it; snapshot: its file in the snapshots' folder; digest: the
    file's SHA-256.
    """

    offset: Natural
    snapshot: FileName
    digest: str


class WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replay a scenario's log from `since` under its rule, and under a rule with these keys
    changed.

    buckets: the snapshots with which both runs may start, by bucket name (`attack/0`); see
    `lead_time`.
    """

    scenario: Name
    since: Natural
    changes: dict[str, Any]
    buckets: dict[str, Snapshot] = {}


class Cancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """End the batch query of this request."""

    ask: Id


_ASKED = {"read-state": ReadState, "what-if": WhatIf, "cancel": Cancel}


def parameters_of(ask: Control) -> ReadState | WhatIf | Cancel:
    """Return the parameters of a batch query request.

    Raises UnreadableJobRecord naming the field.
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
    """Return how long before the window the first snapshot must be, ms; None: never long enough.

    then: the rule that produced the snapshot's state; rules: the rules applied from there on, each
    as a `scenario` record in the log would be.

    A rule equal to `then` continues as if never interrupted, and needs no time. Any other rule
    weighs and dates the existing votes, tallies them, and fires what is overdue, all at once. Two
    things that it would have done differently before take time to become right:

    * Votes that `then` did not take, considered silent, or has forgotten. The rule would have let
      them fall silent and forgotten them too, after its own lifetime plus its memory. From then on,
      both have the same votes. If votes never expire under the rule, such a vote is missing for
      ever. Votes that `then` let live longer fall silent late, and are forgotten one memory later.
    * Tallies that `then` judged differently. Their hold starts at the snapshot, although it may
      have passed long ago. A tally that lasts for the longest hold becomes the state, whatever it
      was.

    The lead time is therefore the first, if votes may be missing, plus the second. Overrides and
    mutes do not depend on a rule. What a rule derives from still earlier history stays as `then`
    made it: a state kept without a majority or during silence, an asset that was purged, the start
    of a state.
    """
    needed = [_lead_time(then, rule) for rule in rules]
    longest = max(needed, default=0)
    return None if longest == inf else int(longest)


def _lead_time(then: Scenario, rule: Scenario) -> float:
    if rule == then:
        return 0
    return _votes_lead(then, rule) + max((rule.holds or {"": 0}).values())


def _votes_lead(then: Scenario, rule: Scenario) -> float:
    """Return the time until the votes left by `then` are those the rule would have, ms."""
    memory, lifetime = rule.forget_delay or 0, _or_ever(rule.lifetime)
    if not _has_votes_of(then, rule):
        return lifetime + memory
    return memory if lifetime < _or_ever(then.lifetime) else 0


def _has_votes_of(then: Scenario, rule: Scenario) -> bool:
    """Return whether `then` keeps every vote, live or silent, that `rule` would keep."""
    words = {spec.name for spec in rule.states} <= {spec.name for spec in then.states}
    return (
        _or_ever(rule.lifetime) <= _or_ever(then.lifetime)
        and (rule.forget_delay or 0) <= (then.forget_delay or 0)
        and _oldest(rule) <= _oldest(then)
        and rule.fold == then.fold
        and (then.open_vocabulary or (words and not rule.open_vocabulary))
    )


def _oldest(rule: Scenario) -> float:
    """Return the age up to which a report becomes a vote, live or silent, ms."""
    limit = _or_ever(rule.report_age_limit)
    return limit if rule.forget_delay else min(limit, _or_ever(rule.lifetime))


def _or_ever(ms: int | None) -> float:
    return inf if ms is None else ms


# ---- what comes back ----------------------------------------------------------------------------


class StoredAsset(msgspec.Struct, frozen=True):
    """An asset in Spark's committed state.

    tallied: what the votes make; state: what is shown, None if purged; offset and step: of the last
    event applied; changed: of the last event that changed state, pending or override; emitted_at:
    when it was last emitted; timers: time, type and agent of its timers (no agent: empty); answers:
    number of answers remembered; unconfirmed_reason, disputed, doubts: as in a state record; waits:
    each state waited for, and since when; purged_at: time of the last purge, while remembered.
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
    timers: list[tuple[int, str, str]]
    answers: int
    forget_at: int | None
    unconfirmed_reason: str | None = None
    disputed: str | None = None
    waits: list[tuple[str, int]] = []
    purged_at: int | None = None
    doubts: list[Doubt] = []


class StoredBucket(msgspec.Struct, frozen=True):
    """A bucket of the committed state: its clock, the last offset applied, asset count and rule."""

    partition: int
    clock: int
    offset: int
    assets: int
    rule: dict[str, Any]


class Stored(msgspec.Struct, frozen=True, tag="read-state"):
    """A part of the state that was read. Every part has the epoch; only the last one has the rest.

    batch: the committed batch that was read; committed_at: time of its commit; cut: whether there
    are more assets after the last of these.
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
    """An asset that behaves differently under the proposed rule.

    before: its states under both rules when the window began; running, proposed: states that began
    within the window; earlier, later: number of transitions moved; shift: by how much in total, ms,
    in either direction.
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
    """Totals for a state under each rule: time of assets in it, ms, and how often one entered
    it."""

    state: str
    running_ms: int
    proposed_ms: int
    running: int
    proposed: int


class Began(msgspec.Struct, frozen=True):
    """What both runs of a partition started with, and the time of it, ms.

    means: the state of a daily snapshot; the very first record of the log; or, in mid-log, an empty
    state. why: why an available snapshot was not used.
    """

    means: Literal["snapshot", "log", "empty"]
    at: int
    why: str = ""


class Totals(msgspec.Struct, frozen=True):
    """The totals of a what-if.

    begun: time at which the first partition starts; until: the last time in the log; began: what
    each partition started with; offsets: first offset and the one after the last, by partition;
    records: number replayed under each rule; assets: number seen; different: number that behave
    differently; other_end: number that end in another state; running, proposed: transitions within
    the window; same, gained, lost, earlier, later: what became of them; shift: by how much
    transitions moved in total, ms; rules: both, as plain data.
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
    """A part of the result of a what-if. The last part has the totals."""

    ask: Id
    part: int
    rows: list[Difference] = []
    last: bool = False
    totals: Totals | None = None


Result = Stored | WhatIfResult
T = TypeVar("T")
_DECODER: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)


def encode_result(result: Result) -> bytes:
    """Return the value of a result record."""
    return msgspec.json.encode(result)


def decode_result(value: bytes | None) -> Result:
    """Return a result record. Raises UnreadableJobRecord."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableJobRecord(f"Result: {error}") from None


def portions(rows: Iterable[T], most: int = PART_BYTES) -> Iterator[list[T]]:
    """Yield the rows in portions of about `most` bytes when encoded. The last may be empty."""
    portion: list[T] = []
    size = 0
    for row in rows:
        portion.append(row)
        size += len(msgspec.json.encode(row))
        if size >= most:
            yield portion
            portion, size = [], 0
    yield portion
