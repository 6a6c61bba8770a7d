"""Errands: batches that the console asks of the job, and what they bring back. Times in ms.

What is asked is in the parameters of a record of `job.control`; what comes back in records of
`job.results`, keyed by the ask's id, each small enough for a topic as it is by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar

import msgspec

from domain.records import Override, Pending, Vote
from wire.job import Control, Id, UnreadableJobRecord

MOST_ROWS = 10_000
"""Most assets that one reading of the state store brings back."""
MOST_DIFFERENT = 2_000
"""Most assets that a what-if tells the timelines of: those that differ most."""
MOST_MOMENTS = 100
"""Most transitions of a timeline that is told."""
PART_BYTES = 400_000
"""About how large a record of the results is made."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


# ---- what is asked ------------------------------------------------------------------------------


class ReadState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a scenario's committed state: one asset, or those of one partition, or all.

    after: names that come after this one, in the order of code points; empty: from the first on.
    """

    scenario: Name
    partition: Annotated[int, msgspec.Meta(ge=0, le=999)] | None = None
    asset: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None
    after: Annotated[str, msgspec.Meta(max_length=255)] = ""


class WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario's log from `since` on, under its rule and under one with these keys changed."""

    scenario: Name
    since: Whole
    changes: dict[str, Any]


class Cancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ask whose errand is to end."""

    ask: Id


_ASKED = {"read-state": ReadState, "what-if": WhatIf, "cancel": Cancel}


def parameters_of(ask: Control) -> ReadState | WhatIf | Cancel:
    """What an ask of an errand says. Raises UnreadableJobRecord, which names the field."""
    try:
        found: ReadState | WhatIf | Cancel = msgspec.convert(ask.parameters, _ASKED[ask.action])
    except (KeyError, msgspec.ValidationError) as error:
        raise UnreadableJobRecord(f"parameters: {error}") from None
    return found


# ---- what comes back ----------------------------------------------------------------------------


class StoredAsset(msgspec.Struct, frozen=True):
    """An asset as Spark's committed state has it.

    tallied: what the votes make; state: what is shown, None of one that is purged; offset and
    step: of the last event applied to it; changed: of the last that changed state, pending or
    override; emitted_at: when it was last told of; dues: time, type and agent of what time will
    cause; answers: how many are remembered.
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


Moment = tuple[int, str | None]
"""A time, and the state that began then; None: the asset is gone."""


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


class Totals(msgspec.Struct, frozen=True):
    """What a what-if comes to. begun: where its warm-up begins; until: the log's last time.

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


class Compared(msgspec.Struct, frozen=True, tag="what-if"):
    """A part of what a what-if found; the last one has the totals."""

    ask: Id
    part: int
    rows: list[Difference] = []
    last: bool = False
    totals: Totals | None = None


Result = Stored | Compared
T = TypeVar("T")
_DECODER: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)


def encode_result(result: Result) -> bytes:
    """The value of a record of the results."""
    return msgspec.json.encode(result)


def decode_result(value: bytes | None) -> Result:
    """Read a record of the results. Raises UnreadableJobRecord."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableJobRecord(f"Result: {error}") from None


def portions(rows: Iterable[T], most: int = PART_BYTES) -> Iterator[list[T]]:
    """The rows in portions of about so many bytes, encoded; the last may be empty."""
    portion: list[T] = []
    size = 0
    for row in rows:
        portion.append(row)
        size += len(msgspec.json.encode(row))
        if size >= most:
            yield portion
            portion, size = [], 0
    yield portion
