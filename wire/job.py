"""Records about the job: heartbeats, progress, control."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec

from domain.records import Mute

T = TypeVar("T")

Status = Literal["starting", "catching-up", "running", "restarting", "waiting", "stopped", "failed"]
Action = Literal[
    "stop",
    "start",
    "reload",
    "reset",
    "rebuild",
    "rule",
    "what-if",
    "read-state",
    "cancel",
]
# failed: it was carried out, and the query does not run for it.
Outcome = Literal["accepted", "done", "refused", "failed", "expired"]

# An ask that the job reads so long after it was appended is answered, and not carried out.
EXPIRES_MS = 5 * 60_000

# Longest texts, characters; a NUL is in none of them, as no database keeps it.
MAX_ID, MAX_USER, MAX_REASON, MAX_ERROR = 100, 150, 500, 20_000

_NO_NUL = "^[^\\x00]*$"
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID, pattern=_NO_NUL)]
User = Annotated[str, msgspec.Meta(max_length=MAX_USER, pattern=_NO_NUL)]
Reason = Annotated[str, msgspec.Meta(max_length=MAX_REASON, pattern=_NO_NUL)]


class LatenessReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one agent's reports that came too late, since the heartbeat before.

    agent: "" for all beyond the most that are named; stale, late, silent: as in a heartbeat;
    rare: reports that came after their agent's vote had turned silent; age: the smallest age, in
    ms of append time after `reported_at`, among the stale and the silent ones, 0 where there are
    none; refused: those refused for their state or time; doubtful: those taken in doubt; detail:
    those taken without their detail; ahead: the least time, ms, by which those were ahead of their
    append time that were too far.
    """

    agent: str
    stale: int = 0
    late: int = 0
    silent: int = 0
    rare: int = 0
    age: int = 0
    refused: int = 0
    doubtful: int = 0
    detail: int = 0
    ahead: int = 0


class Heartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """One bucket's sign of life: what it has reached. Times in ms.

    log_time and offset: the bucket's clock and the last offset applied; records, dead_letters,
    stale, late, silent: counted since the heartbeat before; at: the worker's own clock; mutes: in
    force in the bucket, by agent; left out where there are none; due: a time, in the bucket's
    clock, before which no timer fires; 0 where none waits, None from an engine that does not say.

    stale: reports older than the most age; late: older than their agent's newest, or than the
    asset's purge; silent: older than a vote lives, taken as their agent's last word; agents: the
    same by agent.
    """

    bucket: str
    scenario: str
    partition: int
    epoch: int
    executor: str
    host: str
    log_time: int
    offset: int
    assets: int
    dues: int
    records: int
    dead_letters: int
    stale: int
    engine: str
    at: int
    mutes: tuple[Mute, ...] = ()
    late: int = 0
    silent: int = 0
    agents: tuple[LatenessReport, ...] = ()
    due: int | None = None

    @property
    def ahead(self) -> int:
        """How far the bucket's clock is ahead of the worker's own, ms; 0 where it is behind."""
        return max(0, self.log_time - self.at)


# A bucket's clock ahead of the worker's own by more than this stands still: an alarm.
AHEAD_MS = 5_000

# Largest parameters of an ask, bytes of JSON.
MAX_PARAMETERS = 65_536

Number = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class Control(msgspec.Struct, frozen=True):
    """What the console asks of a query; answered by its id in the progress topic.

    parameters: what the action needs to know besides, each action's own.
    """

    id: Id
    query: Id
    action: Action
    user: User = ""
    reason: Reason = ""
    parameters: dict[str, Any] = {}


class AskStep(msgspec.Struct, frozen=True):
    """How far an ask has come: so much of so much, in units that `what` names."""

    done: Number
    of: Number
    what: Reason = ""


class JobAnswer(msgspec.Struct, frozen=True):
    """What became of an ask: first accepted, where it takes a moment, then how it ended.

    step: how far one has come that was accepted, reported as often as it is worth it.
    """

    id: Id
    action: Action
    outcome: Outcome
    why: Reason = ""
    step: AskStep | None = None


class Stopped(msgspec.Struct, frozen=True):
    """Who stopped a query, or has it read its log again; why, and since when (ms)."""

    user: User
    reason: Reason
    since: Number


class Checkpoint(msgspec.Struct, frozen=True):
    """A query's checkpoint: its last committed batch, when that was (ms), and its size in bytes."""

    batch: Number
    at: Number
    size: Number


class Overlay(msgspec.Struct, frozen=True):
    """Keys of a scenario that were changed from the console: by whom, why, when (ms).

    keys: as plain data, laid over the file's; id: of the ask that it comes from.
    """

    keys: dict[str, Any] = {}
    user: User = ""
    reason: Reason = ""
    since: Number = 0
    id: Annotated[str, msgspec.Meta(max_length=MAX_ID, pattern=_NO_NUL)] = ""


class Carried(msgspec.Struct, frozen=True):
    """A scenario as the job has it, plain: by its file, its overlay, and the two together.

    version: names both, and a proposal is based on it; problem: why the overlay does not count;
    offsets: by partition, of the record from which on it holds, none where it is not in the log.
    """

    scenario: str
    version: str
    configured: dict[str, Any]
    rule: dict[str, Any]
    overlay: Overlay = Overlay()
    problem: str = ""
    offsets: dict[int, int] = {}


class ClockBehind(msgspec.Struct, frozen=True):
    """A broker's clock that is behind the job's own: how far (ms), and since when (Unix ms)."""

    by: Number
    since: Number


class QueryReport(msgspec.Struct, frozen=True):
    """How a query fares: its status, or (`batch`) Spark's own progress of one batch.

    since: when the status began (ms), 0 where it is not given; error: the whole text of what ended
    the query; stopped: where it was asked to stop; rebuild: while it reads again what it was asked
    to; answer: to an ask of the control topic;
    carried: a scenario, as it is now; bounds: by bucket, those on append times that hold in this
    epoch: the last time that counts, ms, and the offset before which it does; asides: by bucket,
    first and last offset of what was set aside, which nobody reads; standby: since when another
    process is ready to take over (ms), 0 where none is; clocks_behind: by bucket, the clock of the
    broker that stamps its records, where that is behind the job's own.
    """

    query: str
    at: int
    status: Status
    epoch: int
    message: str = ""
    restarts: int = 0
    batch: dict[str, Any] | None = None
    since: int = 0
    trigger: str = ""
    error: str = ""
    checkpoint: Checkpoint | None = None
    stopped: Stopped | None = None
    rebuild: Stopped | None = None
    answer: JobAnswer | None = None
    carried: Carried | None = None
    bounds: dict[Id, tuple[tuple[Number, Number], ...]] = {}
    asides: dict[Id, tuple[tuple[Number, Number], ...]] = {}
    standby: Number = 0
    clocks_behind: dict[Id, ClockBehind] = {}


class UnreadableJobRecord(ValueError):
    """A record of a job topic that is not one of ours."""


def bucket_name(scenario: str, partition: int) -> str:
    """Return the name of a bucket, the key of its heartbeats: `attack/0`."""
    return f"{scenario}/{partition}"


def encode(record: Heartbeat | QueryReport | Control) -> bytes:
    """Return the value of a record of a job topic."""
    return msgspec.json.encode(record)


def decode_heartbeat(value: bytes | None) -> Heartbeat:
    """Read a heartbeat. Raises UnreadableJobRecord."""
    return _decode(value, Heartbeat)


def decode_progress(value: bytes | None) -> QueryReport:
    """Read a progress record. Raises UnreadableJobRecord."""
    return _decode(value, QueryReport)


def decode_control(value: bytes | None) -> Control:
    """Read a control record. Raises UnreadableJobRecord."""
    return _decode(value, Control)


def _decode(value: bytes | None, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(value or b"", type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableJobRecord(f"{type_.__name__}: {error}") from None
