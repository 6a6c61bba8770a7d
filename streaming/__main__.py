"""`python -m streaming`: run the job until SIGTERM or SIGINT."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from config.pulse import Pulse
from domain.scenario import ScenarioError
from streaming.driver import Driver, run_all
from streaming.engine_assignment import EngineAssignment, assign_engines, slots
from streaming.jvm import JvmLost, end_spark
from streaming.kernel import KernelProblem
from streaming.overlays import read_book
from streaming.session import VersionProblem, start_session

PATIENCE_S = 7.0
"""From the signal to the end, at most."""


def main() -> None:
    """Run the job. Ends with one message when it cannot start, or when its JVM is lost."""
    settings = enter()
    configure_logs(settings.log_level, "job")
    stop = threading.Event()
    _on_signals(stop)
    try:
        book = read_book(settings)
        home = settings.data_dir / "checkpoint"
        shares = assign_engines(settings.engine, book.rules, home)
        room = slots(shares, settings.wanted_trigger)
        spark = start_session(settings, room)
    except (ScenarioError, VersionProblem, KernelProblem) as problem:
        sys.exit(f"job: {problem}")
    bus = KafkaBus(settings.kafka_options())
    own = None if settings.spark_master else room  # another master may have room for more
    sharing = EngineAssignment(settings.engine, settings.wanted_trigger, home, shares, own)
    drivers = [Driver(settings, sharing, bus, spark, stop, engine, book) for engine in shares]
    try:
        run_all(drivers, stop, Pulse(settings.data_dir, "job").beat)
    except JvmLost as lost:
        sys.exit(f"job: {lost}")
    finally:
        end_spark(spark)


def _on_signals(stop: threading.Event) -> None:
    """Let SIGTERM and SIGINT set `stop`, and end the process when that takes too long."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            last = threading.Timer(PATIENCE_S, os._exit, args=(1,))
            last.daemon = True
            last.start()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


if __name__ == "__main__":
    main()
