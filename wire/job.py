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
# failed: the request was carried out, but the query does not run because of it.
Outcome = Literal["accepted", "done", "refused", "failed", "expired"]

# A request that the job reads this long after it was appended is answered, but not carried out.
EXPIRES_MS = 5 * 60_000

# Longest texts, characters. None contains NUL, which databases do not store.
MAX_ID, MAX_USER, MAX_REASON, MAX_ERROR = 100, 150, 500, 20_000

_NO_NUL = "^[^\\x00]*$"
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID, pattern=_NO_NUL)]
User = Annotated[str, msgspec.Meta(max_length=MAX_USER, pattern=_NO_NUL)]
Reason = Annotated[str, msgspec.Meta(max_length=MAX_REASON, pattern=_NO_NUL)]


class LatenessReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts of one agent's late reports since the previous heartbeat.

    agent: "" for all agents beyond those listed by name; stale, late, silent: as in a heartbeat;
    rare: reports that arrived after the agent's vote had fallen silent; age: lowest age of the
    stale and silent ones, in ms of append time after `reported_at`, 0 if there are none; refused:
    refused for their state or time; doubtful: taken in doubt; detail: taken without their detail;
    ahead: smallest lead over their append time of those that were too far ahead, ms; forwarded:
    sent on to the partition of their asset, leaves too.
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
    forwarded: int = 0


class Heartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The heartbeat of a bucket: what it has reached. Times in ms.

    log_time and offset: the bucket's clock and the last offset applied; records, dead_letters,
    stale, late, silent: counted since the previous heartbeat; at: the worker's own clock; mutes:
    those in force in the bucket, by agent, left out if there are none; due: a time on the bucket's
    clock before which no timer fires, 0 if none waits, None from an engine that does not say; job:
    the one that carries the bucket, empty for the main one; log: the id of the source topic that
    the offset is of.

    stale: reports older than the largest age; late: older than their agent's newest report, or than
    the asset's purge; silent: older than a vote's lifetime, taken as their agent's last word;
    agents: the same counts by agent.
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
    timers: int
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
    job: str = ""
    log: str = ""

    @property
    def query(self) -> str:
        """The query that carries the bucket."""
        return query_of(self.job, self.engine)

    @property
    def ahead(self) -> int:
        """How far the bucket's clock is ahead of the worker's own, ms; 0 if it is behind."""
        return max(0, self.log_time - self.at)


def query_of(job: str, engine: str) -> str:
    """Return the name of a job's query with an engine: `kernel`, or `shop-kernel`."""
    return f"{job}-{engine}" if job else engine


def job_of(query: str) -> str:
    """Return the job of a query, empty for the main one."""
    return query.rpartition("-")[0]


def engine_of(query: str) -> str:
    """Return the engine of a query."""
    return query.rpartition("-")[2]


# A bucket's clock that is ahead of the worker's own by more than this stands still: an alarm.
AHEAD_MS = 5_000

# Largest parameters of a request, bytes of JSON.
MAX_PARAMETERS = 65_536

Number = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class Control(msgspec.Struct, frozen=True):
    """A request from the console to a query; answered by its id in the progress topic.

    parameters: additional input, specific to the action.
    """

    id: Id
    query: Id
    action: Action
    user: User = ""
    reason: Reason = ""
    parameters: dict[str, Any] = {}


class AskStep(msgspec.Struct, frozen=True):
    """Progress of a request: `done` out of `of`, in units named by `what`."""

    done: Number
    of: Number
    what: Reason = ""


class JobAnswer(msgspec.Struct, frozen=True):
    """The answer to a request: first accepted, if it takes a moment, then the final outcome.

    step: progress of an accepted request, reported as often as useful.
    """

    id: Id
    action: Action
    outcome: Outcome
    why: Reason = ""
    step: AskStep | None = None


class Stopped(msgspec.Struct, frozen=True):
    """Who stopped a query, or had it read its log again; why, and since when (ms)."""

    user: User
    reason: Reason
    since: Number


class Checkpoint(msgspec.Struct, frozen=True):
    """A query's checkpoint: its last committed batch, the time of that (ms), and its size in
    bytes."""

    batch: Number
    at: Number
    size: Number


class Overlay(msgspec.Struct, frozen=True):
    """Keys of a scenario changed from the console: by whom, why and when (ms).

    keys: plain data, applied over the file's; id: of the request that changed them.
    """

    keys: dict[str, Any] = {}
    user: User = ""
    reason: Reason = ""
    since: Number = 0
    id: Annotated[str, msgspec.Meta(max_length=MAX_ID, pattern=_NO_NUL)] = ""


class Carried(msgspec.Struct, frozen=True):
    """A scenario as the job has it, as plain data: from its file, its overlay, and both combined.

    version: identifies both, and a proposal is based on it; problem: why the overlay is ignored;
    offsets: by partition, the record from which it holds, empty if it is not in the log.
    """

    scenario: str
    version: str
    configured: dict[str, Any]
    rule: dict[str, Any]
    overlay: Overlay = Overlay()
    problem: str = ""
    offsets: dict[int, int] = {}


class ClockBehind(msgspec.Struct, frozen=True):
    """A broker's clock that is behind the job's own: by how much (ms), and since when (Unix ms)."""

    by: Number
    since: Number


class QueryReport(msgspec.Struct, frozen=True):
    """The state of a query: its status, or (`batch`) Spark's own progress of one batch.

    since: when the status began (ms), 0 if not given; error: full text of the error that ended the
    query; stopped: set if it was asked to stop; rebuild: set while it reads again what it was asked
    to; answer: to a request of the control topic; carried: a scenario, as it is now; bounds: by
    bucket, the bounds on append times in this epoch: the last time that counts, ms, and the offset
    before which the bound applies; asides: by bucket, first and last offset of quarantined records,
    which nobody reads; standby: since when another process is ready to take over (ms), 0 if none
    is; clocks_behind: by bucket, the clock of the broker that stamps its records, if it is behind
    the job's own; replaced: the scenarios whose source topic was deleted and created again, so that
    the query waits.
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
    replaced: tuple[Id, ...] = ()


class UnreadableJobRecord(ValueError):
    """A record of a job topic that the product did not write."""


def bucket_name(scenario: str, partition: int) -> str:
    """Return the name of a bucket, which is the key of its heartbeats: `attack/0`."""
    return f"{scenario}/{partition}"


def encode(record: Heartbeat | QueryReport | Control) -> bytes:
    """Return the value of a record of a job topic."""
    return msgspec.json.encode(record)


def decode_heartbeat(value: bytes | None) -> Heartbeat:
    """Return a heartbeat. Raises UnreadableJobRecord."""
    return _decode(value, Heartbeat)


def decode_progress(value: bytes | None) -> QueryReport:
    """Return a progress record. Raises UnreadableJobRecord."""
    return _decode(value, QueryReport)


def decode_control(value: bytes | None) -> Control:
    """Return a control record. Raises UnreadableJobRecord."""
    return _decode(value, Control)


def _decode(value: bytes | None, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(value or b"", type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableJobRecord(f"{type_.__name__}: {error}") from None
