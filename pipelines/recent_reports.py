"""The last reports of each asset, how many came in the last minute, and how many came twice.

The operator has three stores, as in a stream processor. A report that is sent again, for example by
an agent that got no answer, is the same report: its agent gives the same state at the same time of
its own. It counts once within a minute. So does one that the job forwards to its asset's partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from streaming.pipelines.declaration import AT_ONCE, Pipeline, Sink, Source, Trigger
from streaming.pipelines.records import first_place

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues

LAST = 10
WINDOW_MS, SECOND_MS = 60_000, 1_000
# An asset without reports for this long is forgotten.
REMEMBERED_MS = 3_600_000
RECENT, ROLLING, SEEN = "recent", "rolling", "seen"
REPORT = "type string, agent string, state string, reported_at long"
VALID = "value.type = 'report' AND key || value.agent || value.state IS NOT NULL"
OF_ASSET = """
key string, scenario string, recent array<struct<agent: string, state: string, at: long>>,
in_minute long, repeated long, at long, place string
"""


class RecentReport(NamedTuple):
    """A report on an asset. at: time of its append, Unix ms."""

    agent: str
    state: str
    at: int


@dataclass
class Recent:
    """What is remembered about an asset.

    recent: its last reports, oldest first; rolling: number of reports counted per second, by Unix
    s; seen: when each report's id was first seen, Unix ms. The last two go back one minute from
    `at`.
    """

    recent: list[RecentReport] = field(default_factory=list)
    rolling: dict[int, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    at: int = 0
    repeated: int = 0

    def add(self, report: RecentReport, id_: str) -> None:
        """Count a report, unless it was already seen within the last minute."""
        self.at = max(self.at, report.at)
        self._forget()
        if id_ in self.seen:
            self.repeated += 1
            return
        self.seen[id_] = report.at
        second = report.at // SECOND_MS
        self.rolling[second] = self.rolling.get(second, 0) + 1
        self.recent = [*self.recent, report][-LAST:]

    @property
    def in_minute(self) -> int:
        """Number of reports that count in the minute before `at`."""
        return sum(self.rolling.values())

    def _forget(self) -> None:
        begin = self.at - WINDOW_MS
        self.seen = {id_: at for id_, at in self.seen.items() if at > begin}
        self.rolling = {at: n for at, n in self.rolling.items() if at * SECOND_MS > begin}


def recent_reports(reports: DataFrame) -> DataFrame:
    """Return a record for each asset with reports in a batch: key, value (JSON) and id.

    `in_minute` is accurate to the second, up to the asset's latest report; `repeated` is the number
    of reports in the batch that had come before.
    """
    rows = reports.where(VALID).select(
        sql.regexp_extract("topic", r"(.+)\.reports$", 1).alias("scenario"),
        "key",
        "value.*",
        sql.unix_millis("timestamp").alias("at"),
        "partition",
        "offset",
        first_place().alias("first"),
    )
    states = rows.groupBy("scenario", "key").transformWithState(
        AssetProcessor(), OF_ASSET, outputMode="Update", timeMode="ProcessingTime"
    )
    asset = sql.col("key").alias("asset")
    value = sql.struct("scenario", asset, "in_minute", "repeated", "at", "recent")
    return states.select(
        sql.concat_ws("/", "scenario", "key").alias("key"),
        sql.to_json(value).alias("value"),
        sql.concat_ws("/", "scenario", "key", "place").alias("id"),
    )


class AssetProcessor(StatefulProcessor):
    """Remembers one asset in a list and two maps, each a separate store."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the stores."""
        report = "agent string, state string, at long"
        self._recent = handle.getListState(RECENT, report, ttlDurationMs=REMEMBERED_MS)
        self._rolling = handle.getMapState(ROLLING, "second long", "n long", REMEMBERED_MS)
        self._seen = handle.getMapState(SEEN, "id string", "at long", REMEMBERED_MS)

    def handleInputRows(  # noqa: N802, Spark's own name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803, Spark's own name
    ) -> Iterator[Row]:
        """Yield what is known about the asset after the batch's reports on it are included."""
        rolling, seen = _content(self._rolling), _content(self._seen)
        asset = Recent(
            [RecentReport(*row) for row in self._recent.get()], dict(rolling), dict(seen)
        )
        asset.at = max((report.at for report in asset.recent), default=0)
        for row in sorted(rows, key=lambda one: (one.partition, one.offset)):
            asset.add(RecentReport(row.agent, row.state, row.at), _id(row))
        self._recent.put([tuple(report) for report in asset.recent])
        _change(self._rolling, rolling, asset.rolling)
        _change(self._seen, seen, asset.seen)
        scenario, name = key
        yield Row(
            key=name,
            scenario=scenario,
            recent=[tuple(report) for report in asset.recent],
            in_minute=asset.in_minute,
            repeated=asset.repeated,
            at=asset.at,
            place=f"{row.partition}/{row.offset}",
        )

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _id(row: Row) -> str:
    """Return an id of a report; if it has no time of its own, where it first lay in the log."""
    if row.reported_at is None:
        return str(row.first)
    return f"{row.agent}/{row.state}/{row.reported_at}"


def _content(state: Any) -> dict[Any, int]:
    return {key: value for (key,), (value,) in state.iterator()}


def _change(state: Any, before: Mapping[Any, int], after: Mapping[Any, int]) -> None:
    """Write only the differences, so that Spark's changelog of the store contains nothing else."""
    for key in before.keys() - after.keys():
        state.removeKey((key,))
    for key, value in after.items():
        if before.get(key) != value:
            state.updateValue((key,), (value,))


PIPELINE = Pipeline(
    name="recent-reports",
    title="The last reports of each asset, counted over a minute",
    sources={"reports": Source("*.reports", schema=REPORT, dead_letters=False)},
    sinks=(
        Sink(
            "pipelines.recent-reports",
            compacted=True,
            keep_ms=86_400_000,
            emit=AT_ONCE,
        ),
    ),
    transform=recent_reports,
    trigger=Trigger(every_ms=5_000),
    stores=(RECENT, ROLLING, SEEN),
)
