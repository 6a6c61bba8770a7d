"""A client library for whoever reports what it sees.

    with Reporter(KafkaBus(options), "attack.reports", Path("spool")) as reporter:
        reporter.report("shop.example", "waf-7", "under-attack")

A report is accepted once `report` has returned. From then on it survives a kill of the process, an
outage of Kafka, and both together: it is written to a spool directory first, and leaves it only
when Kafka has confirmed it. While Kafka is away, `report` also waits until the disk has it.

An agent whose name does not come back withdraws its votes as it ends: `close(leave=True)`. One that
is started again under the same name does not: until its next report its last word counts on.
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
from bus.base import Bus
from domain.records import Leave, Report
from wire.source import decode_source, detail_text, encode_leave, encode_report

log = logging.getLogger("agents.reporter")

# Of how many (asset, agent) pairs, those of the newest reports, the last time is kept.
REMEMBERED = 100_000


class ReportRefused(ValueError):
    """A report that the tally could not read; the message says why."""


class ReporterClosed(ReportRefused):
    """The reporter takes nothing any more."""

    def __init__(self) -> None:
        super().__init__("the reporter is closed")


def wall_clock() -> int:
    """Return the Unix time, ms."""
    return time.time_ns() // 1_000_000


class Reporter:
    """Sends one agent's or many agents' reports to one scenario. Safe to share among threads.

    An agent's reports on an asset arrive in the order in which they were accepted; what Kafka may
    already have is sent again after an outage, which the tally ignores. Times without a
    `reported_at` come from `clock` (Unix ms) and are later than any before them, per asset and
    agent.

    `accepted` counts reports and leaves, `refused` the calls that raised SpoolFull.
    """

    def __init__(
        self,
        bus: Bus,
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
        """Open the spool and start to send what an earlier process left in it.

        window: how many reports are under way at once. Raises SpoolInUse and OSError.
        """
        self.accepted = self.refused = 0
        self.topic = topic
        self._clock = clock
        self._last: OrderedDict[tuple[str, str], int] = OrderedDict()
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
        """Return how many reports wait for Kafka's confirmation."""
        return self._spool.pending

    @property
    def confirmed(self) -> int:
        """Return how many reports Kafka has confirmed to this process."""
        return self._courier.confirmed

    @property
    def rejected(self) -> int:
        """Return how many reports were dropped because the topic takes none of their size."""
        return self._courier.rejected

    @property
    def offsets(self) -> dict[int, int]:
        """The highest confirmed offset, by partition."""
        return dict(self._courier.offsets)

    @property
    def away(self) -> bool:
        """Return whether Kafka has not answered for a second or more."""
        return self._courier.away

    @property
    def torn(self) -> int:
        """Return how many lines of the spool an earlier crash had cut short or damaged."""
        return self._spool.torn + self._spool.damaged

    def report(
        self,
        asset: str,
        agent: str,
        state: str,
        reported_at: int | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        """Accept one agent's claim about one asset's state.

        reported_at: the agent's own time, Unix ms (default: now). detail: what else there is to
        say, a small JSON object. Raises ReportRefused for a report that the tally could not read,
        SpoolFull when Kafka has been away for too long.
        """
        try:
            text = detail_text(detail)
        except (TypeError, ValueError) as error:
            raise ReportRefused(f"{asset!r}: {error}") from error
        self.accept(Report(asset, agent, state, reported_at, text))

    def accept(self, report: Report) -> None:
        """Accept a report as `report` does, with its detail already JSON text in one line."""
        with self._lock:
            if self._closed:
                raise ReporterClosed
            if report.reported_at is None:
                report = replace(report, reported_at=self._stamp(report.asset, report.agent))
            value = self._value(report)
            self._put(report.asset, value)
            self._remember(report)
        self._courier.wake()

    def leave(self, asset: str, agent: str) -> None:
        """Withdraw an agent's vote on an asset, as it reports no more under this name.

        Raises ReportRefused for names that the tally could not read, SpoolFull as `report` does.
        """
        with self._lock:
            if self._closed:
                raise ReporterClosed
            self._leave(asset, agent)
        self._courier.wake()

    def leave_all(self) -> int:
        """Withdraw every vote that was reported here, as far as the spool takes it.

        Of more than REMEMBERED pairs, those of the newest reports. Returns how many.
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
            except (SpoolFull, ReportRefused) as error:  # refused where the clock was set back
                log.warning("%d votes are not withdrawn: %s", len(pairs) - done, error)
                return done
        return len(pairs)

    def _leave(self, asset: str, agent: str) -> None:
        leave = Leave(asset, agent, self._stamp(asset, agent))
        try:
            value = encode_leave(leave)
            read = decode_source(asset.encode(), value, self._clock())
        except (TypeError, ValueError) as error:
            raise ReportRefused(f"{asset!r}: {error}") from error
        if read != leave:
            raise ReportRefused(f"{asset!r}: {getattr(read, 'reason', 'not a leave')}")
        self._put(asset, value)
        self._last.pop((asset, agent), None)

    def _put(self, asset: str, value: bytes) -> None:
        """Put a report into the spool. Raises SpoolFull."""
        try:
            self._spool.append(asset, value, sync=self.away)
        except SpoolFull:
            self.refused += 1
            raise
        self.accepted += 1

    def _stamp(self, asset: str, agent: str) -> int:
        """Return the time, Unix ms, later than this agent's last report on this asset.

        This holds even if the clock goes back.
        """
        return max(self._clock(), self._last.get((asset, agent), -1) + 1)

    def _remember(self, report: Report) -> None:
        """Keep the highest time of an agent's reports on an asset."""
        pair = (report.asset, report.agent)
        self._last[pair] = max(report.reported_at or 0, self._last.pop(pair, -1))
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    def _value(self, report: Report) -> bytes:
        """Return the report as bytes that the tally can read. Raises ReportRefused."""
        try:
            value = encode_report(report)
            read = decode_source(report.asset.encode(), value, self._clock())
        except (TypeError, ValueError) as error:
            raise ReportRefused(f"{report.asset!r}: {error}") from error
        if not isinstance(read, Report):
            raise ReportRefused(f"{report.asset!r}: {getattr(read, 'reason', 'not a report')}")
        if read != report or b"\n" in value:  # a line of the spool holds one report
            raise ReportRefused(f"{report.asset!r}: detail: expected an object in one line")
        return value

    def flush(self, timeout_s: float) -> int:
        """Wait until all that was accepted is confirmed; the number of reports that are not."""
        return self._courier.wait_until_settled(timeout_s)

    def close(self, timeout_s: float = 5, *, leave: bool = False) -> None:
        """Flush, and keep what could not be confirmed for the next start.

        leave: withdraw every vote first, for agents whose names do not come back.
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
        self._producer.close(0)  # what is under way is also in the spool
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
