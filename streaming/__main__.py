"""`python -m streaming`: run the job until SIGTERM or SIGINT."""

from __future__ import annotations

import sys
import threading

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
from streaming.signals import stop_on_signals


def main() -> None:
    """Run the job. Ends with one message when it cannot start, or when its JVM is lost."""
    settings = enter()
    configure_logs(settings.log_level, "job")
    stop = threading.Event()
    stop_on_signals(stop)
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


if __name__ == "__main__":
    main()
