"""Records about pipelines, in `job.pipelines`: their graph, status and progress."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from wire.job import Id, JobAnswer, Number, Status, Stopped, UnreadableJobRecord

Kind = Literal["source", "operator", "store", "sink"]
Text = Annotated[str, msgspec.Meta(max_length=20_000, pattern="^[^\\x00]*$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

# Prefix of a pipeline's name where the job's queries have names too.
PREFIX = "pipeline/"


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a pipeline's graph. inputs: ids of the parts that it reads."""

    id: Id
    kind: Kind
    name: Text
    detail: Text = ""
    inputs: tuple[Id, ...] = ()


class Assignment(msgspec.Struct, frozen=True):
    """A source partition, the task that read it in the last batch, and its backlog.

    behind: number of records in the log that the pipeline has not read.
    """

    topic: Id
    partition: Count
    task: Number = -1
    behind: Count = 0


class Invalid(msgspec.Struct, frozen=True):
    """The number of a topic's records without a valid time, and the reason."""

    topic: Id
    reason: Id
    records: Count


class Gathering(msgspec.Struct, frozen=True):
    """How a pipeline's tables combine updates.

    given: number of updates of keys; sent: number of records they became; budget: what may wait in
    all tasks, bytes; share: the same per task.
    """

    given: Count
    sent: Count
    budget: Count
    share: Count


class PipelineProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a pipeline. Times in Unix ms, sizes in bytes.

    records, dead_letters: read and refused since the last reset; rate: records read per second by
    the last batch; behind_ms: age of the newest record that the last batch read, 0 if nothing
    waits; batch_records: number read by the last batch; batch_limit: largest number it reads from a
    source, so more wait in the log; gathering: None if no sink combines updates; answer: to a
    request, in which case nothing else has changed.
    """

    name: Id
    at: Number
    status: Status
    title: Text = ""
    since: Number = 0
    message: Text = ""
    error: Text = ""
    restarts: Count = 0
    epoch: Count = 0
    slots: Count = 0
    trigger: Text = ""
    store: Text = ""
    graph: tuple[Node, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    invalid: tuple[Invalid, ...] = ()
    records: Count = 0
    dead_letters: Count = 0
    rate: float = 0.0
    behind: Count = 0
    behind_ms: Count = 0
    batch: Number = -1
    batch_ms: Count = 0
    batch_records: Count = 0
    batch_limit: Count = 0
    state_rows: Count = 0
    state_bytes: Count = 0
    gathering: Gathering | None = None
    stopped: Stopped | None = None
    answer: JobAnswer | None = None


def query_name(pipeline: str) -> str:
    """Return the name under which a pipeline receives requests: `pipeline/report-rates`."""
    return PREFIX + pipeline


def encode_pipeline(record: PipelineProgress) -> bytes:
    """Return the value of a record of `job.pipelines`."""
    return msgspec.json.encode(record)


def decode_pipeline(value: bytes | None) -> PipelineProgress:
    """Return a record of `job.pipelines`. Raises UnreadableJobRecord."""
    try:
        return msgspec.json.decode(value or b"", type=PipelineProgress)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableJobRecord(f"PipelineProgress: {error}") from None
