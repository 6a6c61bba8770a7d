"""A client library for reporting agents.

    with Reporter(KafkaClient(options), "attack.reports", Path("spool")) as reporter:
        reporter.report("shop.example", "waf-7", "under-attack")

A report is accepted once `report` has returned. From then on it survives a kill of the process, an
outage of Kafka, and both together: it is first written to a spool directory, and removed only when
Kafka has confirmed it. While Kafka is away, `report` also waits until the data is on disk.

An agent whose name will not be used again withdraws its votes when it ends: `close(leave=True)`. An
agent that restarts under the same name does not: its last report counts until the next one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agents.courier import Courier, OnConfirmed
from agents.spool import Spool, SpoolFull
from bus.base import Producers
from domain.records import Leave, Record, Report
from wire.source import MAX_TIME, decode_source, detail_text, encode_leave, encode_report

log = logging.getLogger("agents.reporter")

# Number of (asset, agent) pairs, the most recently used, whose last time is kept.
REMEMBERED = 100_000
# How far behind an agent's last report, ms, the clock may be for the next report still to be
# stamped after it. This is less than the tally allows for a clock that is ahead, so such stamps
# cause no doubt.
MAX_BACK_MS = 240_000
# Largest number of agents for which a stripped detail is logged, once each.
MAX_LOGGED = 100
# The tally's reason for too many bytes or brackets.
TOO_LARGE = "too-large"


class ReportRefused(ValueError):
    """A report that the tally could not read; the message says why, and `cause` the same without
    names."""

    def __init__(self, message: str, cause: str = "unreadable") -> None:
        super().__init__(message)
        self.cause = cause


class ReporterClosed(ReportRefused):
    """The reporter is closed and accepts nothing."""

    def __init__(self) -> None:
        super().__init__("the reporter is closed", "closed")


def wall_clock() -> int:
    """Return the Unix time, ms."""
    return time.time_ns() // 1_000_000


class Reporter:
    """Sends reports of one or more agents to one scenario. Can be shared among threads.

    An agent's reports on an asset arrive in the order in which they were accepted. After an outage,
    reports that Kafka may already have are sent again; the tally ignores the duplicates. Reports
    without `reported_at` get their time from `clock` (Unix ms), which may be set forwards or
    backwards at any time. Per asset and agent, each such time is later than all before it, unless
    the clock was set back by more than MAX_BACK_MS; then the times follow the clock.

    `accepted` counts reports and leaves, `refused` the calls that raised SpoolFull, `stripped` the
    reports whose detail was left out because it was too large.
    """

    def __init__(
        self,
        bus: Producers,
        topic: str,
        spool_dir: Path,
        clock: Callable[[], int] = wall_clock,
        *,
        on_confirmed: OnConfirmed | None = None,
        max_spool_bytes: int = 64 << 20,
        window: int = 1000,
        linger_ms: float = 20,
        message_timeout_s: float = 30,
    ) -> None:
        """Open the spool and start sending what an earlier process left in it.

        window: largest number of reports in flight. Raises SpoolInUse and OSError.
        """
        self.accepted = self.refused = self.stripped = 0
        self.topic = topic
        self._clock = clock
        self._last: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._logged: set[str] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._spool = Spool(spool_dir, max_spool_bytes)
        self._producer = bus.producer(linger_ms=linger_ms, message_timeout_s=message_timeout_s)
        self._courier = Courier(
            self._producer, topic, self._spool, on_confirmed, window, message_timeout_s + 5
        )
        self._courier.start()

    @property
    def unconfirmed(self) -> int:
        """Number of reports waiting for Kafka's confirmation."""
        return self._spool.pending

    @property
    def confirmed(self) -> int:
        """Number of reports that Kafka has confirmed to this process."""
        return self._courier.confirmed

    @property
    def rejected(self) -> int:
        """Number of reports dropped because they are too large for the topic."""
        return self._courier.rejected

    @property
    def offsets(self) -> dict[int, int]:
        """The highest confirmed offset, by partition."""
        return dict(self._courier.offsets)

    @property
    def away(self) -> bool:
        """Whether Kafka has not answered for a second or more."""
        return self._courier.away

    @property
    def torn(self) -> int:
        """Number of lines in the spool that an earlier crash cut short or damaged."""
        return self._spool.torn + self._spool.damaged

    def report(
        self,
        asset: str,
        agent: str,
        state: str,
        reported_at: int | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        """Accept an agent's claim about an asset's state.

        reported_at: the agent's own time, Unix ms (default: now). detail: additional data, a small
        JSON object. A detail that is too large for the tally is left out and counted in `stripped`;
        the claim still counts. Raises ReportRefused for a report that the tally could not read, and
        SpoolFull if Kafka has been away too long.
        """
        try:
            text = detail_text(detail)
        except (TypeError, ValueError) as error:
            raise _refusal(asset, error) from error
        self.accept(Report(asset, agent, state, reported_at, text))

    def accept(self, report: Report) -> None:
        """Accept a report like `report` does, with its detail already as JSON text on one line."""
        with self._lock:
            if self._closed:
                raise ReporterClosed
            now = self._clock()
            if report.reported_at is None:
                report = replace(report, reported_at=self._stamp(report.asset, report.agent, now))
            report, value = self._readable(report)
            self._put(report.asset, value)
            self._remember(report, now)
        self._courier.wake()

    def leave(self, asset: str, agent: str) -> None:
        """Withdraw an agent's vote on an asset, because it no longer reports under this name.

        Raises ReportRefused for names that the tally could not read, and SpoolFull like `report`.
        """
        with self._lock:
            if self._closed:
                raise ReporterClosed
            self._leave(asset, agent)
        self._courier.wake()

    def leave_all(self) -> int:
        """Withdraw every vote reported here, as far as the spool has room, and return how many.

        With more than REMEMBERED pairs, this covers those with the newest reports.
        """
        with self._lock:
            left = 0 if self._closed else self._leave_all()
        self._courier.wake()
        return left

    def _leave_all(self) -> int:
        pairs = list(self._last)
        for done, (asset, agent) in enumerate(pairs):
            try:
                self._leave(asset, agent)
            except (SpoolFull, ReportRefused) as error:
                log.warning("%d votes are not withdrawn: %s", len(pairs) - done, error)
                return done
        return len(pairs)

    def _leave(self, asset: str, agent: str) -> None:
        leave = Leave(asset, agent, self._stamp(asset, agent, self._clock()))
        read, value = _read_back(asset, lambda: encode_leave(leave))
        if read != leave:
            raise _refusal(asset, getattr(read, "reason", "not a leave"))
        self._put(asset, value)
        self._last.pop((asset, agent), None)

    def _put(self, asset: str, value: bytes) -> None:
        """Add a report to the spool. Raises SpoolFull."""
        try:
            self._spool.append(asset, value, sync=self.away)
        except SpoolFull:
            self.refused += 1
            raise
        self.accepted += 1

    def _stamp(self, asset: str, agent: str, now: int) -> int:
        """Return the time, Unix ms, of a report by an agent on an asset now, according to the
        clock.

        It is later than the agent's last one even if the clock was set back by up to MAX_BACK_MS: a
        small step must not make the newest report the older one. A clock that was set back further
        is assumed to have been wrong before and right now, so it is followed. Continuing from the
        wrong time would cause doubt until that time is reached.
        """
        return max(now, self._newest((asset, agent), now) + 1)

    def _newest(self, pair: tuple[str, str], now: int) -> int:
        """Return the time, Unix ms, after which an agent's next report on an asset must be, or
        -1."""
        last = self._last.get(pair, -1)
        return last if last - now <= MAX_BACK_MS else -1

    def _remember(self, report: Report, now: int) -> None:
        """Remember the highest time of an agent's reports on an asset, if it still counts."""
        pair = (report.asset, report.agent)
        newest = max(report.reported_at or 0, self._newest(pair, now))
        self._last.pop(pair, None)
        self._last[pair] = newest
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    def _readable(self, report: Report) -> tuple[Report, bytes]:
        """Return a report as the tally accepts it, and its bytes, without a detail that is too
        large.

        The claim matters more than its detail. Raises ReportRefused.
        """
        try:
            return report, self._value(report)
        except ReportRefused as refusal:
            if report.detail is None or refusal.cause != TOO_LARGE:
                raise
        bare = replace(report, detail=None)
        value = self._value(bare)
        self._strip(report.agent)
        return bare, value

    def _strip(self, agent: str) -> None:
        """Count a stripped detail, and log the first one of each agent."""
        self.stripped += 1
        if agent not in self._logged and len(self._logged) < MAX_LOGGED:
            self._logged.add(agent)
            log.warning("%s: too large a detail by %r is left out (logged once)", self.topic, agent)

    def _value(self, report: Report) -> bytes:
        """Return the report as bytes that the tally can read. Raises ReportRefused."""
        read, value = _read_back(report.asset, lambda: encode_report(report))
        fault = getattr(read, "reason", None) or getattr(read, "detail_fault", None)
        if fault is not None:
            raise _refusal(report.asset, fault)
        if read != report or b"\n" in value:  # a line of the spool holds one report
            raise _refusal(report.asset, "detail: expected an object in one line")
        return value

    def flush(self, timeout_s: float) -> int:
        """Wait until all accepted reports are confirmed; return how many are not."""
        return self._courier.wait_until_settled(timeout_s)

    def close(self, timeout_s: float = 5, *, leave: bool = False) -> None:
        """Flush, and keep unconfirmed reports for the next start.

        leave: withdraw every vote first, for agents whose names will not be used again.
        """
        with self._lock:
            if self._closed:
                return
            if leave:
                self._leave_all()
            self._closed = True
        self._courier.wake()
        self.flush(timeout_s)
        self._courier.stop()
        self._producer.close(0)  # reports in flight are also in the spool
        self._spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()


def _read_back(asset: str, encode: Callable[[], bytes]) -> tuple[Record, bytes]:
    """Return a record as the tally will read it, and its bytes. Raises ReportRefused.

    It is decoded as if appended at the end of time, so that this host's clock does not matter:
    whether a time is ahead is decided when the broker appends the record.
    """
    try:
        value = encode()
        return decode_source(asset.encode(), value, MAX_TIME), value
    except (TypeError, ValueError) as error:
        raise _refusal(asset, error) from error


def _refusal(asset: str, why: str | Exception) -> ReportRefused:
    """Return the refusal of a report. For an exception, the cause is just its type."""
    cause = why if isinstance(why, str) else type(why).__name__
    return ReportRefused(f"{asset!r}: {why}", cause)
