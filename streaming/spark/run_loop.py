"""The loop that keeps one query running: started, started again after an error, and ended.

The job's queries and the pipelines run in it. What each does in its own way is its SupervisedQuery.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Protocol

from bus.base import BusError
from streaming.spark.jvm import EXIT_S, JvmLost, jvm_process
from streaming.spark.restart_policy import Verdict, first_line
from wire.job import Outcome, Status, Stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("streaming.spark.run_loop")

# Pause before the first restart after an error that passes; it is doubled each time.
FIRST_PAUSE_S = 1.0

# Pause after an error that stays.
PAUSE_STAYING_S = 30.0

# Characters of an error that stays: it may hold a command that corrects it.
LONGEST_WHY = 600

# A query that ran this long starts over with the first pause.
HEALTHY_S = 30.0

# How often a loop that waits looks for requests.
LOOK_S = 0.2

# How often the process shows that it is alive.
BEAT_S = 1.0

# How long a query that is asked to stop may take to end, before its process is given up.
END_S = 30.0


class Clock(Protocol):
    """Passes the time of a loop."""

    def monotonic(self) -> float:
        """Return the time since some moment, s."""

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Wait until the event is set, at most `seconds`."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Return the machine's monotonic time, s."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Wait until the event is set, at most `seconds`."""
        event.wait(seconds)


class StatusReport(Protocol):
    """Publishes the status of one query."""

    restarts: int

    def status(self, status: Status, message: str = "", error: str = "") -> None:
        """Report a status. error: the whole text of what ended the query."""


class PendingRequests(Protocol):
    """The requests to one query whose end is still to be answered."""

    @property
    def stopped(self) -> Stopped | None:
        """Return who stopped the query, None while it is to run."""

    def settle(self, outcome: Outcome, why: str = "") -> None:
        """Answer all that is under way."""


class SupervisedQuery(Protocol):
    """What a query does in its own way."""

    @property
    def new_process(self) -> str:
        """Return why only a new process can go on; empty while none is needed."""

    def prepare(self) -> None:
        """Carry out requests that precede a start."""

    def run_once(self) -> None:
        """Start the query and return once it is due to end. Raises what ended it."""

    def hold(self, stopped: Stopped) -> None:
        """Report that the query stands still, and settle what asked for that."""

    def carry_out(self) -> bool:
        """Carry out new requests. Return whether what runs or waits now is to end for one."""

    def judge(self, error: Exception, text: str) -> Verdict:
        """Return whether an error passes by itself. Raises JvmLost if another process is needed."""

    def close(self) -> None:
        """Release everything, and report the end after a signal."""


class RunLoop:
    """Runs one query until a signal. `interrupted`: whether a request ends what runs now."""

    def __init__(
        self,
        query: SupervisedQuery,
        requests: PendingRequests,
        report: StatusReport,
        spark: SparkSession,
        stop: threading.Event,
        *,
        name: str,
        longest_pause_s: float,
        clock: Clock | None = None,
        elsewhere: tuple[type[Exception], ...] = (BusError,),
    ) -> None:
        """name: the subject of the message that the query does not end; elsewhere: errors that
        do not come of the JVM."""
        self._query, self._requests, self._report = query, requests, report
        self._spark, self._stop, self._name = spark, stop, name
        self._longest_pause_s, self._elsewhere = longest_pause_s, elsewhere
        self._clock = clock or SystemClock()
        self._pause = FIRST_PAUSE_S
        self.interrupted = False

    def run(self) -> None:
        """Run until `stop` is set. Raises JvmLost, and nothing else."""
        try:
            while not self._stop.is_set():
                self._attempt()
        except JvmLost as lost:
            self._report.status("failed", str(lost), lost.error)
            self._query.close()
            raise
        self._query.close()

    def _attempt(self) -> None:
        """Run the query until it ends, or stand still; wait after an error. Raises JvmLost."""
        begun, self.interrupted = self._clock.monotonic(), False
        try:
            self._query.prepare()
            stopped = self._requests.stopped
            self._query.run_once() if stopped is None else self._stand_still(stopped)
        except JvmLost:
            raise
        except Exception as error:  # noqa: BLE001, nothing but a signal ends a loop
            if self._stop.is_set():
                return
            self._recover(error, self._clock.monotonic() - begun)
        if why := self._query.new_process:
            raise JvmLost(why)

    def _stand_still(self, stopped: Stopped) -> None:
        """Do nothing until a request ends that."""
        self._query.hold(stopped)
        while not self.due_to_end():
            self._clock.wait(self._stop, LOOK_S)

    def due_to_end(self) -> bool:
        """Return whether a signal or a request ends what runs now."""
        if not self._stop.is_set() and not self.interrupted:
            self.interrupted = self._query.carry_out()
        return self._stop.is_set() or self.interrupted

    def end(self, query: StreamingQuery) -> None:
        """Stop the query, and wait until it has ended: it must not overlap its next.

        A batch that is broken off is read again at the next start, and gives the same versions.
        Raises JvmLost where it does not end.
        """
        if self._stop.is_set():
            self._spark.sparkContext.setLogLevel("OFF")  # of every task that is broken off
        give_up = self._clock.monotonic() + END_S
        while query.isActive:
            try:
                query.stop()
            except Exception as error:
                if self._stop.is_set():
                    raise
                if self._clock.monotonic() > give_up:
                    raise JvmLost(f"{self._name} does not end: {error}") from error
                log.debug("%s does not end yet: %s", self._name, error)
                self._clock.wait(self._stop, LOOK_S)

    # ---- after an error -------------------------------------------------------------------------

    def _recover(self, error: Exception, ran_s: float) -> None:
        """Report an error, and wait as long as it calls for. Raises JvmLost."""
        self._check_jvm(error)
        text = f"{type(error).__name__}: {error}"
        verdict = self._query.judge(error, text)
        log.debug("%s: its run ended", self._name, exc_info=error)
        self._report.restarts += 1
        if not verdict.passes:
            why = f"{verdict.advice} ({first_line(text, LONGEST_WHY)})"
            self._report.status("waiting", why, text)
            self._requests.settle("failed", why)
            self._wait(PAUSE_STAYING_S)
            return
        self._pause = FIRST_PAUSE_S if ran_s > HEALTHY_S else self._pause
        self._report.status("restarting", f"in {self._pause:g} s: {first_line(text)}", text)
        self._wait(self._pause)
        self._pause = min(2 * self._pause, self._longest_pause_s)

    def _wait(self, seconds: float) -> None:
        """Wait, at most until a signal or a request."""
        end = self._clock.monotonic() + seconds
        while not self.due_to_end() and (left := end - self._clock.monotonic()) > 0:
            self._clock.wait(self._stop, min(left, LOOK_S))

    def _check_jvm(self, error: Exception) -> None:
        """Raise JvmLost where the error came of the JVM's end."""
        if isinstance(error, self._elsewhere):
            return
        process = jvm_process(self._spark)
        if process is not None and isinstance(error, OSError):
            with suppress(TimeoutExpired):
                process.wait(EXIT_S)  # it no longer answers: it is about to end
        if process is not None and process.poll() is not None:
            raise JvmLost(f"Spark's JVM ended with {process.returncode}", str(error))


# ---- several loops -------------------------------------------------------------------------------


class Runner(Protocol):
    """What keeps one query running."""

    def run(self) -> None:
        """Run until a signal. Raises JvmLost."""


def run_all(
    runners: Sequence[Runner], stop: threading.Event, beat: Callable[[], None] = lambda: None
) -> None:
    """Run queries in parallel until `stop` is set, or one of them raises JvmLost.

    beat: called each second while all of them run.
    """
    with ThreadPoolExecutor(len(runners), "query") as pool:
        running = [pool.submit(runner.run) for runner in runners]
        while not wait(running, BEAT_S, return_when=FIRST_COMPLETED).done:
            beat()
        wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
    for one in running:
        one.result()
