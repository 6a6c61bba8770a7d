"""The loop that keeps a query running, in time that passes by itself: pauses, requests, ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bus.base import Unavailable
from streaming.spark import run_loop
from streaming.spark.jvm import JvmLost
from streaming.spark.restart_policy import Verdict, judge
from streaming.spark.run_loop import END_S, HEALTHY_S, PAUSE_STAYING_S, RunLoop
from wire.job import Stopped

BY = Stopped("ada", "a drill", 1)


class PlayedClock:
    """Time that passes while somebody waits, and in which things happen at their time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.plans: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> None:
        del event
        self.now += seconds
        due = [plan for plan in self.plans if plan[0] <= self.now]
        self.plans = [plan for plan in self.plans if plan[0] > self.now]
        for _, action in due:
            action()


class Played:
    """A query that ends as its script says, with its requests and its report; and their loop."""

    def __init__(self, *script: Callable[[], None]) -> None:
        self.clock, self.stop = PlayedClock(), threading.Event()
        self.script, self.begun = list(script), list[float]()
        self.asked, self.closed, self.new_process = False, 0, ""
        self.stopped: Stopped | None = None
        self.restarts = 0
        self.statuses: list[tuple[str, str, str]] = []
        self.settled: list[tuple[str, str]] = []
        self.process: Any = None
        self.levels: list[str] = []
        context = SimpleNamespace(
            setLogLevel=self.levels.append, _gateway=SimpleNamespace(proc=self.process)
        )
        spark: Any = SimpleNamespace(sparkContext=context)
        self.context = context
        self.loop = RunLoop(
            self, self, self, spark, self.stop, name="it", longest_pause_s=3, clock=self.clock
        )

    # what is reported and answered

    def status(self, status: Any, message: str = "", error: str = "") -> None:
        self.statuses.append((status, message, error))

    def settle(self, outcome: Any, why: str = "") -> None:
        self.settled.append((outcome, why))

    # what a query does

    def prepare(self) -> None:
        pass

    def run_once(self) -> None:
        self.begun.append(self.clock.now)
        if not self.script:
            self.stop.set()
            return
        self.script.pop(0)()

    def hold(self, stopped: Stopped) -> None:
        self.status("stopped", stopped.user)

    def carry_out(self) -> bool:
        asked, self.asked = self.asked, False
        return asked

    def judge(self, error: Exception, text: str) -> Verdict:
        del error
        return judge(text)

    def close(self) -> None:
        self.closed += 1

    def ask(self) -> None:
        self.asked = True


def fails(error: Exception) -> Callable[[], None]:
    def end() -> None:
        raise error

    return end


PASSES = fails(RuntimeError("Connection refused"))


def test_pauses_double_up_to_the_longest() -> None:
    played = Played(*[PASSES] * 4)
    played.loop.run()
    assert played.begun == pytest.approx([0, 1, 3, 6, 9])
    assert [message.split(":")[0] for _, message, _ in played.statuses] == [
        "in 1 s", "in 2 s", "in 3 s", "in 3 s",
    ]  # fmt: skip
    assert (played.restarts, played.closed) == (4, 1)


def test_a_query_that_ran_long_begins_with_the_first_pause_again() -> None:
    played = Played(PASSES, PASSES)

    def runs_long() -> None:
        played.clock.now += HEALTHY_S + 1
        raise RuntimeError("Connection refused")

    played.script.append(runs_long)
    played.loop.run()
    *_, before, after = played.begun
    assert after - before == pytest.approx(HEALTHY_S + 1 + 1)


def test_an_error_that_stays_is_waited_for_and_answers_what_was_asked() -> None:
    played = Played(fails(RuntimeError("No space left on device")))
    played.loop.run()
    assert played.begun == pytest.approx([0, PAUSE_STAYING_S])
    ((status, why, error),) = played.statuses
    assert (status, error) == ("waiting", "RuntimeError: No space left on device")
    assert played.settled == [("failed", why)]


def test_a_request_ends_a_pause() -> None:
    played = Played(fails(RuntimeError("No space left on device")))
    played.clock.plans.append((5, played.ask))
    played.loop.run()
    assert played.begun == [0, pytest.approx(5, abs=0.3)]


def test_a_signal_ends_a_pause_and_the_loop() -> None:
    played = Played(PASSES, PASSES)
    played.clock.plans.append((0.5, played.stop.set))
    played.loop.run()
    assert (played.begun, played.closed) == ([0], 1)


def test_an_error_after_the_signal_is_not_reported() -> None:
    played = Played()

    def breaks_off() -> None:
        played.stop.set()
        raise RuntimeError("broken off")

    played.script.append(breaks_off)
    played.loop.run()
    assert (played.statuses, played.restarts, played.closed) == ([], 0, 1)


def test_a_stopped_query_stands_still_until_a_request_ends_that() -> None:
    played = Played()
    played.stopped = BY

    def start() -> None:
        played.stopped = None
        played.ask()

    played.clock.plans.append((3600, start))
    played.loop.run()
    assert played.statuses == [("stopped", "ada", "")]
    assert played.begun == [pytest.approx(3600, abs=0.3)]


def test_what_needs_a_new_process_ends_the_loop() -> None:
    played = Played()

    def reload() -> None:
        played.new_process = "a scenario is new"

    played.script.append(reload)
    with pytest.raises(JvmLost, match="a scenario is new"):
        played.loop.run()
    assert played.statuses == [("failed", "a scenario is new", "")]
    assert played.closed == 1


def test_a_lost_jvm_ends_the_loop_and_the_broker_s_errors_do_not_ask_for_it() -> None:
    played = Played(fails(Unavailable("no leader")), fails(RuntimeError("Py4J")))
    played.context._gateway.proc = SimpleNamespace(poll=lambda: 137, returncode=137)
    with pytest.raises(JvmLost):
        played.loop.run()
    assert [status for status, _, _ in played.statuses] == ["restarting", "failed"]
    assert played.statuses[-1] == ("failed", "Spark's JVM ended with 137", "Py4J")


class Stubborn:
    """Spark's query, which ends when it has been asked so often."""

    def __init__(self, times: int) -> None:
        self.times = times

    @property
    def isActive(self) -> bool:  # noqa: N802, Spark's own name
        return self.times > 0

    def stop(self) -> None:
        self.times -= 1
        if self.times:
            raise TimeoutError("it still runs")


def test_a_query_is_asked_to_stop_until_it_has_ended() -> None:
    played, query = Played(), Stubborn(5)
    played.loop.end(query)  # type: ignore[arg-type]
    assert not query.isActive
    assert played.levels == []


def test_a_query_that_does_not_end_needs_a_new_process() -> None:
    played = Played()
    with pytest.raises(JvmLost, match="it does not end: it still runs"):
        played.loop.end(Stubborn(10**6))  # type: ignore[arg-type]
    assert played.clock.now == pytest.approx(END_S, abs=0.5)


def test_after_a_signal_nobody_waits_for_a_query() -> None:
    played = Played()
    played.stop.set()
    with pytest.raises(TimeoutError):
        played.loop.end(Stubborn(10))  # type: ignore[arg-type]
    assert played.levels == ["OFF"]


def test_the_first_loop_that_is_lost_ends_the_others() -> None:
    stop, beats = threading.Event(), list[int]()

    class Waits:
        def run(self) -> None:
            assert stop.wait(10)

    class Loses:
        def run(self) -> None:
            raise JvmLost("gone")

    with pytest.raises(JvmLost, match="gone"):
        run_loop.run_all([Waits(), Loses()], stop, lambda: beats.append(1))
    assert stop.is_set()
