"""Records of the states topics and of the dead letters as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, Self

import msgspec

from domain.records import (
    Answer,
    Cause,
    Doubt,
    Flap,
    Muted,
    Override,
    Pending,
    StateRecord,
    Task,
    Tombstone,
    Vote,
)
from domain.scenario import Action
from domain.version import Version

Headers = Sequence[tuple[str, bytes]]

MAX_DEAD_VALUE = 65_536
"""How much of a refused record's value is kept, bytes."""


class UnreadableState(ValueError):
    """A record of a states topic that the product did not write."""


# ---- writing ------------------------------------------------------------------------------------

_NULL = msgspec.Raw(b"null")


class _Flap(msgspec.Struct):
    """The written form of a vote that turned worse twice within its lifetime."""

    state: str
    time: int
    until: int

    @classmethod
    def of(cls, flap: Flap) -> Self:
        """Return the domain's flap in this form."""
        return cls(flap.state, flap.time, flap.until)


class _Doubt(msgspec.Struct, omit_defaults=True):
    """The written form of a doubt: `muted` only if its agent is muted."""

    agent: str
    reason: str
    said: str | None
    time: int
    offset: int
    until: int
    weight: int
    muted: Muted | None = None

    @classmethod
    def of(cls, doubt: Doubt) -> Self:
        """Return the domain's doubt in this form."""
        return cls(**{name: getattr(doubt, name) for name in cls.__struct_fields__})


class _Vote(msgspec.Struct):
    """The written form of a vote: its detail unchanged, the last five fields only if set."""

    agent: str
    state: str
    reported_at: int
    time: int
    offset: int
    expires: int | None
    weight: int
    detail: msgspec.Raw = _NULL
    muted: Muted | msgspec.UnsetType = msgspec.UNSET
    silent: int | msgspec.UnsetType = msgspec.UNSET
    doubt: str | msgspec.UnsetType = msgspec.UNSET
    detail_fault: str | msgspec.UnsetType = msgspec.UNSET
    flapping: _Flap | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def of(cls, vote: Vote) -> Self:
        """Return the domain's vote in this form."""
        return cls(
            vote.agent,
            vote.state,
            vote.reported_at,
            vote.time,
            vote.offset,
            vote.expires,
            vote.weight,
            _NULL if vote.detail is None else msgspec.Raw(vote.detail),
            msgspec.UNSET if vote.muted is None else vote.muted,
            msgspec.UNSET if vote.silent is None else vote.silent,
            vote.doubt or msgspec.UNSET,
            vote.detail_fault or msgspec.UNSET,
            msgspec.UNSET if vote.flapping is None else _Flap.of(vote.flapping),
        )


class _Task(msgspec.Struct):
    """The written form of a task."""

    id: str
    do: str
    state: str | None
    condition: str | None = msgspec.field(name="if")
    due: int | None = msgspec.field(name="next")
    every: int | None
    until: int | None
    times: int | None
    within: str | None
    user: str
    reason: str
    outcome: str | None
    ran: int | None
    aside: str | None

    @classmethod
    def of(cls, task: Task) -> Self:
        """Return the domain's task in this form."""
        return cls(**{name: getattr(task, name) for name in cls.__struct_fields__})


class _State(msgspec.Struct, kw_only=True):
    """The written form of a state record: some fields only if set."""

    asset: str
    state: str
    previous: str | None
    since: int
    unconfirmed: bool
    unconfirmed_reason: str | msgspec.UnsetType = msgspec.UNSET
    disputed: str | msgspec.UnsetType = msgspec.UNSET
    version: str
    cause: Cause
    votes: list[_Vote]
    pending: Pending | None
    override: Override | None
    doubts: list[_Doubt] | msgspec.UnsetType = msgspec.UNSET
    tasks: list[_Task] | msgspec.UnsetType = msgspec.UNSET
    notify: bool | msgspec.UnsetType = msgspec.UNSET
    answer: Answer | None


def encode_state(record: StateRecord) -> bytes:
    """Return the value of a state record: JSON, always with the same field order."""
    return msgspec.json.encode(
        _State(
            asset=record.asset,
            state=record.state,
            previous=record.previous,
            since=record.since,
            unconfirmed=record.unconfirmed,
            unconfirmed_reason=record.unconfirmed_reason or msgspec.UNSET,
            disputed=record.disputed or msgspec.UNSET,
            version=str(record.version),
            cause=record.cause,
            votes=[_Vote.of(vote) for vote in record.votes],
            pending=record.pending,
            override=record.override,
            doubts=[_Doubt.of(doubt) for doubt in record.doubts] or msgspec.UNSET,
            tasks=[_Task.of(task) for task in record.tasks] if record.tasks else msgspec.UNSET,
            notify=True if record.tasks and record.notify else msgspec.UNSET,
            answer=record.answer,
        )
    )


def encode_headers(record: StateRecord | Tombstone) -> tuple[tuple[str, bytes], ...]:
    """Return the headers: version, for an answer command and outcome, for a tombstone the cause."""
    headers = [("version", str(record.version).encode())]
    if record.answer is not None:
        headers.append(("command", record.answer.command.encode()))
        headers.append(("outcome", record.answer.outcome.encode()))
    if isinstance(record, Tombstone):
        headers.append(("cause", msgspec.json.encode(record.cause)))
    return tuple(headers)


# ---- reading ------------------------------------------------------------------------------------

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


# Excluded from garbage collection: decoded values hold no cycles, and a batch has many objects.


class CauseValue(msgspec.Struct, frozen=True, gc=False):
    """A cause as stored in the topic."""

    type: Annotated[str, msgspec.Meta(pattern=r"\A[a-z-]{1,20}\Z")]
    partition: Count
    offset: Natural
    time: Natural
    agent: str | None = None
    user: str | None = None
    command: str | None = None


class HistoryCause(CauseValue, frozen=True, gc=False):
    """A cause as the history keeps it.

    voters: of the end of a hold, some of the agents whose live votes were for the state; more: how
    many others there were.
    """

    voters: tuple[str, ...] = ()
    more: Count = 0


class FlapValue(msgspec.Struct, frozen=True, gc=False):
    """A vote that turned worse twice within its lifetime.

    state: what it turned to; time: when last; until: how long the state counts for a dispute, Unix
    ms.
    """

    state: str
    time: Natural
    until: Natural


class DoubtValue(msgspec.Struct, frozen=True, gc=False):
    """A doubt as stored in the topic. said: None if unreadable; until: Unix ms."""

    agent: str
    reason: Annotated[str, msgspec.Meta(max_length=40)]
    said: Annotated[str, msgspec.Meta(max_length=64)] | None
    time: Natural
    offset: Natural
    until: int
    weight: int
    muted: Muted | None = None

    @property
    def counts(self) -> bool:
        """Whether it counts: its agent is not muted and has a weight."""
        return self.weight > 0 and self.muted is None


class VoteValue(msgspec.Struct, frozen=True, gc=False):
    """A vote as stored in the topic. silent: since when (ms), None for a live one.

    detail: JSON of an object or null, unchanged; doubt: why it is in doubt because of its own
    report; detail_fault: why its detail was left out.
    """

    agent: str
    state: str
    reported_at: int
    time: int
    offset: int
    expires: int | None
    weight: int
    detail: msgspec.Raw = _NULL
    muted: Muted | None = None
    silent: Natural | None = None
    doubt: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    detail_fault: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    flapping: FlapValue | None = None

    def detail_object(self) -> dict[str, Any] | None:
        """Return the detail as an object. Raises msgspec.MsgspecError if it is none."""
        return _read_detail(self.detail)


_Detail = dict[str, Any] | None
_read_detail: Callable[[msgspec.Raw], _Detail] = msgspec.json.Decoder(_Detail).decode


class PendingValue(msgspec.Struct, frozen=True, gc=False):
    """A wait for a state, as stored in the topic."""

    state: str
    since: Natural
    due: Natural


class OverrideValue(msgspec.Struct, frozen=True, gc=False):
    """An override as stored in the topic."""

    state: str
    until: Natural | None
    user: Annotated[str, msgspec.Meta(max_length=255)]
    reason: str
    command: str
    since: Natural
    underlying: str | None = None


class TaskValue(msgspec.Struct, frozen=True, gc=False):
    """A task as stored in the topic. Times in Unix ms; due: None after its last run."""

    id: str
    do: Action
    user: Annotated[str, msgspec.Meta(max_length=255)]
    reason: str
    due: Natural | None = msgspec.field(name="next")
    state: str | None = None
    condition: str | None = msgspec.field(default=None, name="if")
    every: Natural | None = None
    until: Natural | None = None
    times: Natural | None = None
    within: str | None = None
    outcome: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    ran: Natural | None = None
    aside: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class AnswerValue(msgspec.Struct, frozen=True, gc=False):
    """A command's outcome as stored in the topic."""

    command: str
    outcome: str


class StateValue(msgspec.Struct, frozen=True, gc=False):
    """The value of a state record. The last five fields are present only if set."""

    asset: str
    state: str
    previous: str | None
    since: Natural
    unconfirmed: bool
    version: str
    cause: CauseValue
    votes: list[VoteValue]
    pending: PendingValue | None
    override: OverrideValue | None
    answer: AnswerValue | None
    unconfirmed_reason: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    disputed: str | None = None
    tasks: tuple[TaskValue, ...] = ()
    notify: bool = False
    doubts: tuple[DoubtValue, ...] = ()


class BriefVote(msgspec.Struct, frozen=True, gc=False):
    """A vote without its offset, expiry, detail and doubt; the last three fields as in
    `VoteValue`."""

    agent: str
    state: str
    time: int
    weight: int
    muted: Muted | None = None
    silent: Natural | None = None
    detail_fault: str | None = None
    flapping: FlapValue | None = None


class Votes(msgspec.Struct, frozen=True, gc=False):
    """The votes of a state record and what they make, for readers of many records."""

    state: str
    votes: list[BriefVote]
    override: OverrideValue | None


class TombstoneValue(msgspec.Struct, frozen=True, gc=False):
    """The contents of the key and headers of a purged asset's record."""

    asset: str
    version: str
    cause: CauseValue
    answer: AnswerValue | None


_STATE = msgspec.json.Decoder(StateValue)
_VOTES = msgspec.json.Decoder(Votes)
_CAUSE = msgspec.json.Decoder(CauseValue)
_HISTORY_CAUSE = msgspec.json.Decoder(HistoryCause)


def read_state(
    key: bytes | None, value: bytes | None, headers: Headers = ()
) -> StateValue | TombstoneValue:
    """Return a record of a states topic as plain fields, decoded fast. Raises UnreadableState."""
    try:
        asset = (key or b"").decode()
        return _tombstone(asset, dict(headers)) if value is None else state_value(value)
    except (KeyError, ValueError) as error:  # msgspec's and Unicode's are ValueErrors
        raise UnreadableState(f"states record of {key!r}: {error!r}") from None


def state_value(value: bytes | str) -> StateValue:
    """Return the value of a state record as plain fields. Raises ValueError."""
    state = _STATE.decode(value)
    check = _read_detail  # msgspec has not validated a Raw yet
    for vote in state.votes:
        check(vote.detail)
    return state


def votes_value(value: bytes | str) -> Votes:
    """Return only the votes in a state record's value. Raises ValueError."""
    return _VOTES.decode(value)


def cause_value(value: bytes | str) -> HistoryCause:
    """Return a cause as the history stores it. Raises ValueError."""
    return _HISTORY_CAUSE.decode(value)


def _tombstone(asset: str, headers: dict[str, bytes]) -> TombstoneValue:
    answer = None
    if "command" in headers:
        answer = AnswerValue(headers["command"].decode(), headers["outcome"].decode())
    cause = _CAUSE.decode(headers["cause"])
    return TombstoneValue(asset, headers["version"].decode(), cause, answer)


def decode_state(
    key: bytes | None, value: bytes | None, headers: Headers = ()
) -> StateRecord | Tombstone:
    """Return a record of a states topic in the domain's form. Raises UnreadableState."""
    read = read_state(key, value, headers)
    try:
        if isinstance(read, StateValue):
            return state_record(read)
        version, cause = Version.parse(read.version), Cause(*_fields(read.cause))
        return Tombstone(read.asset, version, cause, _answer(read.answer))
    except ValueError as error:
        raise UnreadableState(f"states record of {key!r}: {error}") from None


def state_of_json(value: bytes | str) -> StateRecord:
    """Return the state record written by `encode_state`. Raises ValueError for anything else."""
    return state_record(state_value(value))


def state_record(read: StateValue) -> StateRecord:
    """Return a state record in the domain's form. Raises ValueError for an invalid version."""
    return StateRecord(
        read.asset,
        read.state,
        read.previous,
        read.since,
        read.unconfirmed,
        Version.parse(read.version),
        Cause(*_fields(read.cause)),
        tuple([_vote(vote) for vote in read.votes]),
        None if read.pending is None else Pending(*_fields(read.pending)),
        None if read.override is None else Override(*_fields(read.override)),
        _answer(read.answer),
        read.unconfirmed_reason,
        read.disputed,
        tuple([Task(*_fields(task)) for task in read.tasks]),
        tuple([Doubt(*_fields(doubt)) for doubt in read.doubts]),
    )


def _answer(read: AnswerValue | None) -> Answer | None:
    return None if read is None else Answer(read.command, read.outcome)


def _vote(read: VoteValue) -> Vote:
    detail = bytes(read.detail)
    return Vote(
        read.agent,
        read.state,
        read.reported_at,
        read.time,
        read.offset,
        read.expires,
        read.weight,
        None if detail == b"null" else detail.decode(),
        read.muted,
        read.silent,
        min(read.reported_at, read.time),
        max(0, read.time - read.reported_at),
        read.doubt,
        read.detail_fault,
        None if read.flapping is None else Flap(*(*_fields(read.flapping), True)),
        read.reported_at,
    )


_fields = msgspec.structs.astuple


# ---- dead letters -------------------------------------------------------------------------------


class DeadRecord(NamedTuple):
    """A refused record with its source coordinates. timestamp: ms."""

    reason: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


_ORIGINAL = "original-"
_COORDINATES = ("topic", "partition", "offset", "timestamp")


def encode_dead_letter(dead: DeadRecord) -> tuple[bytes | None, bytes | None, Headers]:
    """Return the key, the value (its first 64 KiB) and the headers of a dead letter."""
    headers = [("reason", dead.reason.encode())]
    headers += [(f"source-{name}", str(getattr(dead, name)).encode()) for name in _COORDINATES]
    headers += [(_ORIGINAL + name, value) for name, value in dead.headers]
    value = dead.value if dead.value is None else dead.value[:MAX_DEAD_VALUE]
    return dead.key, value, tuple(headers)


def decode_dead_letter(key: bytes | None, value: bytes | None, headers: Headers) -> DeadRecord:
    """Return a dead letter. Raises KeyError or ValueError if the record is none."""
    named = dict(headers)
    originals = [(n[len(_ORIGINAL) :], v) for n, v in headers if n.startswith(_ORIGINAL)]
    return DeadRecord(
        reason=named["reason"].decode(),
        topic=named["source-topic"].decode(),
        partition=int(named["source-partition"]),
        offset=int(named["source-offset"]),
        timestamp=int(named["source-timestamp"]),
        key=key,
        value=value,
        headers=tuple(originals),
    )
