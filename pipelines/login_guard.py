"""The login guard: which clients act at the login like a program, and which are verified.

`domain/login_windows.py` defines what counts. This pipeline passes it each client's records in log
order, and keeps what it remembers about the client in Spark's state. docs/login-guard.md explains
the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from domain.login_windows import Client, ClientReport
from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

AGENT = "login-guard"
LOGGER = "tallyboard.security"
VERIFIED = "verified"
COUNTED = ("login", "login-throttled", "token-refused", "form-refused")
CLIENT = "^client-[0-9a-f]{16}$"

RECORD = "time long, logger string, client string, action string"
STATE = """
clock long, state string, begins array<long>, counts array<int>, active_at long, reported_at long,
verified_until long, due long, timer long
"""
REPORT = """
client string, state string, at long,
windows array<struct<begin: long, end: long, count: int>>, verified_until long, late int
"""


def acted_at(logs: DataFrame) -> Column:
    """Return the column with the times of actions, Unix ms."""
    return logs["value.time"]


def login_guard(logs: DataFrame, guard_clock: str) -> DataFrame:
    """Return reports on clients for `clients.reports`.

    Columns: key (the client), value (JSON), id, and `late`, the number of records that came too
    late. guard_clock: `event`, or `wall` to give each record the time of its batch.
    """
    clock = sql.current_timestamp() if guard_clock == "wall" else sql.col("timestamp")
    logger, action, client = (sql.col(f"value.{name}") for name in ("logger", "action", "client"))
    events = logs.where(
        (logger == LOGGER) & action.isin(*COUNTED, VERIFIED) & client.rlike(CLIENT)
    ).select(
        client.alias("client"),
        (action == VERIFIED).alias("verified"),
        sql.unix_millis(clock).alias("time"),
        "partition",
        "offset",
    )
    reports = events.groupBy("client").transformWithState(
        LoginGuard(), outputStructType=REPORT, outputMode="Update", timeMode="ProcessingTime"
    )
    identity = sql.concat_ws("/", "client", "at", "state", "verified_until")
    return reports.select(
        sql.col("client").alias("key"),
        _value().alias("value"),
        sql.when(sql.col("state").isNotNull(), identity).alias("id"),
        "late",
    )


def _value() -> Column:
    """Return the column of reports in the format of `wire.source.encode_report`."""
    return sql.to_json(
        sql.struct(
            sql.lit("report").alias("type"),
            sql.lit(AGENT).alias("agent"),
            "state",
            sql.col("at").alias("reported_at"),
            sql.struct("windows", "verified_until").alias("detail"),
        ),
        {"ignoreNullFields": "false"},
    )


class LoginGuard(StatefulProcessor):
    """Remembers one client until it is quiet and its windows are closed.

    Effects of time alone are triggered by processing time, as long after the client's last record
    as by the client's own clock. A log that is read faster than it was written, or later, therefore
    loses no count between two batches.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._state = handle.getValueState("client", STATE)

    def handleInputRows(  # noqa: N802, Spark's own name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803, Spark's own name
    ) -> Iterator[Row]:
        """Yield the reports on a client, and how many of its records came too late."""
        # Spark warns when a state is read that was never written.
        stored = self._state.get() if self._state.exists() else None
        client, timer = (_client(stored), stored[-1]) if stored else (Client(), None)
        reports: list[ClientReport] = []
        for row in sorted(rows, key=lambda one: (one["partition"], one["offset"])):
            reports += client.verify(row["time"]) if row["verified"] else client.act(row["time"])
        due = timerValues.getCurrentProcessingTimeInMs() + client.due - client.clock
        self._state.update((*_columns(client), due, self._timed(due, timer)))
        yield from _rows(key[0], reports)
        if client.late:
            yield _row(key[0], late=client.late)

    def _timed(self, due: int, timer: int | None) -> int:
        """Return the client's timer, which is no later than `due`; a later one is moved."""
        if timer is not None and timer <= due:
            return timer
        if timer is not None:
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(due)
        return due

    def handleExpiredTimer(  # noqa: N802, Spark's own name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803, Spark's own name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803, Spark's own name
    ) -> Iterator[Row]:
        """Yield that a client is quiet again and forget it, unless it has acted since."""
        stored = self._state.get()
        if stored is None:
            return
        due = stored[-2]
        if due > timerValues.getCurrentProcessingTimeInMs():
            self._handle.registerTimer(due)
            self._state.update((*stored[:-1], due))
            return
        client = _client(stored)
        self._state.clear()
        yield from _rows(key[0], client.advance(client.due))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _client(stored: tuple[Any, ...]) -> Client:
    clock, state, begins, counts, active_at, reported_at, verified_until, *_ = stored
    windows = dict(zip(begins, counts, strict=True))
    return Client(clock, state, windows, active_at, reported_at, verified_until)


def _columns(client: Client) -> tuple[Any, ...]:
    begins, counts = list(client.counts), list(client.counts.values())
    times = client.active_at, client.reported_at, client.verified_until
    return client.clock, client.state, begins, counts, *times


def _rows(client: str, reports: list[ClientReport]) -> Iterator[Row]:
    for one in reports:
        windows = [(window.begin, window.end, window.count) for window in one.windows]
        yield _row(client, one.state, one.at, windows, one.verified_until)


def _row(
    client: str,
    state: str | None = None,
    at: int | None = None,
    windows: list[tuple[int, int, int]] | None = None,
    verified_until: int | None = None,
    late: int = 0,
) -> Row:
    """Return a row of the operator: a report or, without a state, only `late`."""
    values = {"client": client, "state": state, "at": at, "windows": windows}
    return Row(**values, verified_until=verified_until, late=late)


PIPELINE = Pipeline(
    name="login-guard",
    title="Clients that act at the login as a program would",
    sources={
        "logs": Source("app-logs", schema=RECORD, time=acted_at, dead_letters=False),
    },
    sinks=(Sink("clients.reports"),),
    transform=login_guard,
    # A tick keeps the Python worker from ending too, which would delay the next report.
    trigger=Trigger(every_ms=500, tick_ms=30_000),
    late="logs",
    parameters=("guard_clock",),
)
