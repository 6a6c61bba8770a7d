"""A client library for whoever reports what it sees.

    with Reporter(KafkaClient(options), "attack.reports", Path("spool")) as reporter:
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
from bus.base import Producers
from domain.records import Leave, Record, Report
from wire.source import MAX_TIME, decode_source, detail_text, encode_leave, encode_report

log = logging.getLogger("agents.reporter")

# Of how many (asset, agent) pairs, those of the newest reports, the last time is kept.
REMEMBERED = 100_000
# So far behind an agent's last report the clock may be, ms, and the next one still comes after it.
# Less than the tally grants a clock that is ahead: what is stamped so is no cause for doubt.
MAX_BACK_MS = 240_000
# Most agents of which it is logged, once each, that a detail was left out.
MAX_LOGGED = 100
# The tally's word for what has too many bytes or brackets.
TOO_LARGE = "too-large"


class ReportRefused(ValueError):
    """A report that the tally could not read; the message says why, and `cause` without names."""

    def __init__(self, message: str, cause: str = "unreadable") -> None:
        super().__init__(message)
        self.cause = cause


class ReporterClosed(ReportRefused):
    """The reporter takes nothing any more."""

    def __init__(self) -> None:
        super().__init__("the reporter is closed", "closed")


def wall_clock() -> int:
    """Return the Unix time, ms."""
    return time.time_ns() // 1_000_000


class Reporter:
    """Sends one agent's or many agents' reports to one scenario. Safe to share among threads.

    An agent's reports on an asset arrive in the order in which they were accepted; what Kafka may
    already have is sent again after an outage, which the tally ignores. Times without a
    `reported_at` come from `clock` (Unix ms), which may be set at any time, forwards and backwards.
    They are later than any before them, per asset and agent, unless the clock was set back by more
    than MAX_BACK_MS: then they follow it.

    `accepted` counts reports and leaves, `refused` the calls that raised SpoolFull, `stripped` the
    reports whose detail was left out, as it was too large.
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
        """Open the spool and start to send what an earlier process left in it.

        window: how many reports are under way at once. Raises SpoolInUse and OSError.
        """
        self.accepted = self.refused = self.stripped = 0
        self.topic = topic
        self._clock = clock
        self._last: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._told: set[str] = set()
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
        say, a small JSON object; one that is too large for the tally is left out and counted in
        `stripped`, and the claim stands. Raises ReportRefused for a report that the tally could not
        read, SpoolFull when Kafka has been away for too long.
        """
        try:
            text = detail_text(detail)
        except (TypeError, ValueError) as error:
            raise _refusal(asset, error) from error
        self.accept(Report(asset, agent, state, reported_at, text))

    def accept(self, report: Report) -> None:
        """Accept a report as `report` does, with its detail already JSON text in one line."""
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
        """Put a report into the spool. Raises SpoolFull."""
        try:
            self._spool.append(asset, value, sync=self.away)
        except SpoolFull:
            self.refused += 1
            raise
        self.accepted += 1

    def _stamp(self, asset: str, agent: str, now: int) -> int:
        """Return the time, Unix ms, of what an agent says of an asset now, by the clock.

        It is later than its last one also where the clock was set back by up to MAX_BACK_MS: a
        small step must not make the newest report the older one. A clock that was set back further
        is taken to have been wrong and to be right now, and is followed: what goes on from the
        wrong time would be doubted until that time has come.
        """
        return max(now, self._newest((asset, agent), now) + 1)

    def _newest(self, pair: tuple[str, str], now: int) -> int:
        """Return the time, Unix ms, that an agent's next report on an asset must follow, or -1."""
        last = self._last.get(pair, -1)
        return last if last - now <= MAX_BACK_MS else -1

    def _remember(self, report: Report, now: int) -> None:
        """Keep the highest time of an agent's reports on an asset, as far as it still counts."""
        pair = (report.asset, report.agent)
        newest = max(report.reported_at or 0, self._newest(pair, now))
        self._last.pop(pair, None)
        self._last[pair] = newest
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    def _readable(self, report: Report) -> tuple[Report, bytes]:
        """Return a report as the tally takes it, and as bytes: without a detail that is too large.

        The claim matters more than what else there is to say. Raises ReportRefused.
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
        """Count a detail that is left out, and log the first of each agent."""
        self.stripped += 1
        if agent not in self._told and len(self._told) < MAX_LOGGED:
            self._told.add(agent)
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


def _read_back(asset: str, encode: Callable[[], bytes]) -> tuple[Record, bytes]:
    """Return what the tally will read of a record, and the record. Raises ReportRefused.

    It is read as if appended at the end of time, so that this host's clock has no say in it:
    whether a time is ahead shows when the broker appends the record.
    """
    try:
        value = encode()
        return decode_source(asset.encode(), value, MAX_TIME), value
    except (TypeError, ValueError) as error:
        raise _refusal(asset, error) from error


def _refusal(asset: str, why: str | Exception) -> ReportRefused:
    """Return the refusal of a report; of an error, its kind alone is the cause."""
    cause = why if isinstance(why, str) else type(why).__name__
    return ReportRefused(f"{asset!r}: {why}", cause)
