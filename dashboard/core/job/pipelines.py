"""The pipelines: which report to boards, how each fares, and one to begin with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Literal

from django.conf import settings

from dashboard.core.common import metrics as common_metrics
from dashboard.core.common.metrics import MetricFamily
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import now_ms
from dashboard.core.job.models import PipelineStatus
from wire.job import UnreadableJobRecord
from wire.pipeline import Node, PipelineProgress, decode_pipeline

# ---- reporters -----------------------------------------------------------------------------------
# The shipped pipelines that report to boards.

REPORTERS = {"clients": "login-guard", "customers": "loyalty"}
"""By the scenario that they report to."""


@dataclass(frozen=True, slots=True)
class BoardReporter:
    """A pipeline that reports to a board; on: whether the settings say that it runs."""

    name: str
    on: bool

    @property
    def setting(self) -> str:
        """Return the setting that turns it on, besides those that run."""
        names = [name.strip() for name in settings.TALLYBOARD.pipelines.split(",")]
        running = [name for name in names if name not in ("", "none")]
        return f"TALLYBOARD_PIPELINES={','.join([*running, self.name])}"


def reporter_of(scenario: str) -> BoardReporter | None:
    """Return the shipped pipeline that reports to this scenario, None where there is none."""
    name = REPORTERS.get(scenario)
    if name is None:
        return None
    return BoardReporter(name, settings.TALLYBOARD.runs(name))


# ---- pipelines -----------------------------------------------------------------------------------
# How each pipeline fares, by its last report. Times in Unix ms.

State = Literal["running", "restarting", "stalled", "stopped", "waiting"]

SILENT_MS = 20_000
"""A pipeline that runs reports every two seconds; one that is silent so long is stalled."""

ASSIGNMENT_TABLE = Table(
    "assignments", "Topic", Column.number("Partition"), Column.number("Task"),
    Column.number("Behind"), narrow=True,
)  # fmt: skip
INVALID_TABLE = Table("invalid-times", "Topic", "Reason", Column.number("Records"), narrow=True)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A part of a pipeline's graph; reads: the names of the parts before it."""

    node: Node
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline; record: its last report; why: its state in words."""

    record: PipelineProgress
    state: State
    why: str

    @property
    def parts(self) -> list[GraphNode]:
        """Return its graph, sources first."""
        names = {node.id: f"{node.name} ({node.kind})" for node in self.record.graph}
        return [
            GraphNode(node, tuple(names.get(id_, id_) for id_ in node.inputs))
            for node in self.record.graph
        ]


def pipelines(now: int) -> list[PipelineView]:
    """Return every pipeline that has reported anything, by name."""
    rows = PipelineStatus.objects.order_by("name")
    return [shown for row in rows if (shown := _shown(row, now)) is not None]


def pipeline(name: str, now: int) -> PipelineView | None:
    """Return one pipeline, None where it has reported nothing."""
    row = PipelineStatus.objects.filter(name=name).first()
    return _shown(row, now) if row is not None else None


def _shown(row: PipelineStatus, now: int) -> PipelineView | None:
    try:
        record = decode_pipeline(row.record.encode())
    except UnreadableJobRecord:
        return None
    return PipelineView(record, *judge(record, now))


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


# ---- skeleton ------------------------------------------------------------------------------------
# A pipeline to begin with: it passes reports on, prints keys and values, and has its test.

NAME = re.compile(r"[a-z][a-z0-9-]{0,59}")
RESERVED = frozenset(("all", "none"))


class NoSkeleton(Exception):
    """A pipeline that cannot be begun; the message says why."""


PIPELINE = Template('''\
"""$title: passes each report on, and prints its key and its value."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Pipeline, Print, Sink, Source


def $function(reports: DataFrame) -> DataFrame:
    """Return the reports as they are: key, value (JSON) and id."""
    reports = reports.where("value.type = 'report'")
    return reports.select(
        "key",
        sql.to_json("value").alias("value"),
        sql.concat_ws("/", "topic", "partition", "offset").alias("id"),
    )


PIPELINE = Pipeline(
    name="$name",
    title="$title",
    sources={
        "reports": Source(
            "orders.reports",
            schema="type string, agent string, state string",
            dead_letters=False,
        )
    },
    # A stream: each report goes out. A table, Sink(..., compacted=True), gathers updates of a key.
    sinks=(Sink("pipelines.$name"),),
    transform=$function,
    prints=Print("$name"),
)
''')

TEST = Template('''\
"""The pipeline $name, as a function of DataFrames: no Kafka is needed."""

from __future__ import annotations

from pyspark.sql import Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from pipelines.$function import $function

SCHEMA = """key string, value struct<type string, agent string, state string>,
topic string, partition int, offset long"""


def test_each_report_is_passed_on_and_ticks_are_not(spark: SparkSession) -> None:
    report = Row(type="report", agent="station-1", state="received")
    tick = Row(type="tick", agent=None, state=None)
    place = {"topic": "orders.reports", "partition": 0}
    rows = [
        Row(key="order-7", value=report, **place, offset=3),
        Row(key=None, value=tick, **place, offset=4),
        Row(key="order-7", value=report, **place, offset=5),
    ]
    result = $function(spark.createDataFrame(rows, SCHEMA))
    value = '{"type":"report","agent":"station-1","state":"received"}'
    expected = [
        Row(key="order-7", value=value, id=f"orders.reports/0/{offset}") for offset in (3, 5)
    ]
    assertDataFrameEqual(result, spark.createDataFrame(expected))
''')


def write_skeleton(root: Path, name: str) -> list[Path]:
    """Write a new pipeline and its test below `root`; return the two files.

    Raises NoSkeleton for a wrong name, or where there is such a pipeline.
    """
    if not NAME.fullmatch(name) or name in RESERVED:
        raise NoSkeleton(
            f"name: expected lower-case letters, digits and '-', beginning with a letter, at most "
            f"60, and neither all nor none, got {name!r}"
        )
    words = {"name": name, "function": name.replace("-", "_"), "title": _title(name)}
    files = {
        root / "pipelines" / f"{words['function']}.py": PIPELINE,
        root / "tests" / "integration" / "spark" / f"test_{words['function']}.py": TEST,
    }
    for path in files:
        if path.exists():
            raise NoSkeleton(f"{path} is there already")
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.substitute(words))
    return list(files)


def _title(name: str) -> str:
    return name.replace("-", " ").capitalize()


# ---- metrics -------------------------------------------------------------------------------------


def metrics() -> Iterator[MetricFamily]:
    """Yield how each pipeline fares."""
    shown = pipelines(now_ms())
    records = [one.record for one in shown]
    yield common_metrics.PIPELINE_STATUS.family(((one.record.name, one.state), 1) for one in shown)
    yield common_metrics.PIPELINE_LAG.family(((one.name,), one.behind) for one in records)
    yield common_metrics.PIPELINE_LAG_SECONDS.family(
        ((one.name,), one.behind_ms / 1000) for one in records
    )
    yield common_metrics.PIPELINE_RESTARTS.family(((one.name,), one.restarts) for one in records)
    yield common_metrics.PIPELINE_DEAD_LETTERS.family(
        ((one.name,), one.dead_letters) for one in records
    )
    yield common_metrics.PIPELINE_INVALID_TIMES.family(
        ((one.name, each.topic, each.reason), each.records)
        for one in records
        for each in one.invalid
    )
