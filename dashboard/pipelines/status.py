"""How each pipeline fares, by its last report. Times in Unix ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dashboard.core.tables import Column, Table
from dashboard.pipelines.models import PipelineStatus
from wire.job import UnreadableJobRecord
from wire.pipeline import Node, PipelineProgress, decode_pipeline

State = Literal["running", "restarting", "stalled", "stopped", "waiting"]

SILENT_MS = 20_000
"""A pipeline that runs reports every two seconds; one that is silent so long is stalled."""

ASSIGNMENT_TABLE = Table(
    "assignments", "Topic", Column.number("Partition"), Column.number("Task"),
    Column.number("Behind"), narrow=True,
)  # fmt: skip
INVALID_TABLE = Table("invalid-times", "Topic", "Reason", Column.number("Records"), narrow=True)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a pipeline's graph; reads: the names of the parts before it."""

    node: Node
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A pipeline; record: its last report; why: its state in words."""

    record: PipelineProgress
    state: State
    why: str

    @property
    def parts(self) -> list[Part]:
        """Return its graph, sources first."""
        names = {node.id: f"{node.name} ({node.kind})" for node in self.record.graph}
        return [
            Part(node, tuple(names.get(id_, id_) for id_ in node.inputs))
            for node in self.record.graph
        ]


def pipelines(now: int) -> list[Shown]:
    """Return every pipeline that has reported anything, by name."""
    rows = PipelineStatus.objects.order_by("name")
    return [shown for row in rows if (shown := _shown(row, now)) is not None]


def pipeline(name: str, now: int) -> Shown | None:
    """Return one pipeline, None where it has reported nothing."""
    row = PipelineStatus.objects.filter(name=name).first()
    return _shown(row, now) if row is not None else None


def _shown(row: PipelineStatus, now: int) -> Shown | None:
    try:
        record = decode_pipeline(row.record.encode())
    except UnreadableJobRecord:
        return None
    return Shown(record, *judge(record, now))


def judge(record: PipelineProgress, now: int) -> tuple[State, str]:
    """Return a pipeline's state, and why where that is not what it reported itself."""
    match record.status:
        case "running" if now - record.at > SILENT_MS:
            return "stalled", "no report since then, though it reported no problem"
        case "running":
            return "running", record.message
        case "stopped" | "waiting":
            return record.status, record.message
        case _:
            return "restarting", record.message
