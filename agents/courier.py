"""Carries reports from the spool to Kafka in order, going back to the first that failed."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from agents.spool import Spool, SpooledReport
from bus.base import BusError, Delivered, Producer, QueueFull, TooLarge

log = logging.getLogger("agents.courier")

# Kafka counts as away once a record has waited this long for its confirmation.
AWAY_AFTER_S = 1.0
# How often the cursor is stored; a crash may send this much twice.
STORE_EVERY_S = 1.0
# How long to wait after a failure: initially and at most.
PAUSE_S, MAX_PAUSE_S = 0.2, 5.0

# Called with the asset and the place in the log, once per report, in the order of acceptance.
OnConfirmed = Callable[[str, Delivered], None]


class _Flight:
    """A report on its way to Kafka."""

    __slots__ = ("delivered", "entry", "rejected", "sent")

    def __init__(self, entry: SpooledReport) -> None:
        self.entry = entry
        self.sent = time.monotonic()
        self.delivered: Delivered | None = None
        self.rejected = False

    @property
    def landed(self) -> bool:
        return self.rejected or self.delivered is not None


class Courier:
    """A thread between a spool and a producer that nobody else polls.

    Reports settle in the order of the spool. After a failure, everything from the first unsettled
    report on is sent again, so that an agent's reports never end up in a different order.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        spool: Spool,
        on_confirmed: OnConfirmed | None,
        window: int,
        patience_s: float,
    ) -> None:
        """window: largest number of reports in flight; patience_s: how long one may take."""
        self.confirmed = self.rejected = 0
        self.offsets: dict[int, int] = {}
        self.away = False
        self._producer, self._topic, self._spool = producer, topic, spool
        self._on_confirmed, self._window, self._patience_s = on_confirmed, window, patience_s
        self._changed = threading.Condition()
        self._stopping = False
        self._flights: deque[_Flight] = deque()
        self._position = spool.cursor
        self._failure: BusError | None = None
        self._pause_s = PAUSE_S
        self._store_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"reports {topic}", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def wake(self) -> None:
        """Signal that the spool has a new report."""
        with self._changed:
            self._changed.notify_all()

    def wait_until_settled(self, timeout_s: float) -> int:
        """Wait until everything is confirmed; return how many reports are not when time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self._spool.pending, timeout_s)
            return self._spool.pending

    def stop(self) -> None:
        """End the thread; reports in flight stay in the spool."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception:
                # The thread must survive a full disk or a callback that raises: the reports wait.
                log.exception("sending reports to %s", self._topic)
                self._failure = self._failure or BusError("interrupted")
                self._rest(lambda: False, PAUSE_S)

    def _turn(self) -> None:
        if self._failure is not None:
            self._go_back()
        self._launch()
        if self._flights:
            self._producer.poll(0.05)
            self._land()
        else:
            self._store_cursor()
            self._rest(lambda: self._spool.end > self._position, STORE_EVERY_S)

    def _rest(self, until: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or until(), timeout_s)

    def _launch(self) -> None:
        """Send as many reports as fit into the window."""
        room, end = self._window - len(self._flights), self._spool.end
        if room <= 0 or end <= self._position:
            return
        entries = self._spool.read(self._position, room)
        if not entries:
            self._position = end  # only damaged lines
        for entry in entries:
            if not self._send(_Flight(entry)):
                return

    def _send(self, flight: _Flight) -> bool:
        """Pass a report to the producer; return False if it accepts none now."""

        def outcome(result: Delivered | BusError) -> None:
            if isinstance(result, Delivered):
                flight.delivered = result
            elif isinstance(result, TooLarge):
                flight.rejected = True
            else:
                self._failure = result

        entry = flight.entry
        try:
            self._producer.send(self._topic, entry.asset.encode(), entry.value, on_delivery=outcome)
        except QueueFull:
            return False
        except TooLarge:
            flight.rejected = True
        self._flights.append(flight)
        self._position = entry.position
        return True

    def _land(self) -> None:
        """Settle the leading reports that are done, and notice when none are."""
        landed: list[_Flight] = []
        while self._flights and self._flights[0].landed:
            landed.append(self._flights.popleft())
        if landed:
            self._settle(landed)
            self._set_away(False)
            self._pause_s = PAUSE_S
            self._store_cursor()
        elif time.monotonic() - self._flights[0].sent > AWAY_AFTER_S:
            self._set_away(True)

    def _settle(self, landed: list[_Flight]) -> None:
        """Remove these reports, the next in order, from the spool."""
        for flight in landed:
            if flight.delivered is not None:
                _, partition, offset, _ = flight.delivered
                self.offsets[partition] = max(offset, self.offsets.get(partition, -1))
                if self._on_confirmed is not None:
                    self._on_confirmed(flight.entry.asset, flight.delivered)
        with self._changed:
            rejected = sum(flight.rejected for flight in landed)
            self.rejected += rejected
            self.confirmed += len(landed) - rejected
            self._spool.advance(landed[-1].entry.position, len(landed))
            self._changed.notify_all()

    def _set_away(self, away: bool) -> None:
        changed, self.away = away != self.away, away
        if away:
            self._spool.sync()
        if changed and away:
            log.warning("no confirmation from Kafka: reports for %s wait on disk", self._topic)
        elif changed:
            log.info("Kafka confirms reports for %s again", self._topic)

    def _store_cursor(self) -> None:
        if time.monotonic() >= self._store_at:
            self._spool.store_cursor()
            self._store_at = time.monotonic() + STORE_EVERY_S

    def _go_back(self) -> None:
        """Let reports in flight finish, then start again at the first unconfirmed one."""
        self._set_away(True)
        end = time.monotonic() + self._patience_s
        while self._producer.flush(0.2) and time.monotonic() < end and not self._stopping:
            pass
        log.warning("reports for %s again from the spool: %s", self._topic, self._failure)
        self._flights.clear()
        self._failure = None
        self._position = self._spool.cursor
        self._rest(lambda: False, self._pause_s)
        self._pause_s = min(self._pause_s * 2, MAX_PAUSE_S)
