"""The training run that writes the class archive: `python -m streaming.job.cds_training`.

`python -m ops.class_archive` calls it once, at set-up, with a broker of its own.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bus.base import Bus, TopicSpec
from bus.kafka import KafkaBus
from config.settings import Settings, load_settings
from domain.records import Report
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from streaming.fold.assignment import EngineAssignment, Shares, slots
from streaming.job.driver import LONG_BACKLOG, Driver
from streaming.spark.gateway import class_archive, write
from streaming.spark.jvm import end_spark
from streaming.spark.run_loop import run_all
from streaming.spark.session import start_session
from streaming.state.storage import LocalPath
from wire.job import decode_progress
from wire.source import encode_report
from wire.topics import Topics

# Batches of Real-time Mode that are committed while the classes are noted: a commit loads many.
BATCHES = 2

# Archives that are kept: copies of the product may share their jars, each on a path of its own.
KEPT = 3

# How long the job may take to get there, and its JVM to write the archive.
RUN_S, WRITE_S = 180.0, 120.0


class NoClasses(Exception):
    """The archive could not be written; the message says why."""


def train(settings: Settings, scenarios: Mapping[str, Scenario], bus: Bus, target: Path) -> None:
    """Run the job on a backlog, then in Real-time Mode, and have its JVM write the archive.

    Raises NoClasses.
    """
    topics = Topics(settings.topic_prefix)
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs(scenarios.values()))
    send(bus, topics, scenarios, LONG_BACKLOG + 1)
    draft, stop = target.with_suffix(".new"), threading.Event()
    draft.unlink(missing_ok=True)
    home = LocalPath(settings.checkpoint_dir)
    shares: Shares = {"kernel": dict(scenarios)}
    divided = settings.first_state_partitions
    room = slots(shares, settings.effective_trigger, divided)
    sharing = EngineAssignment("kernel", settings.effective_trigger, home, shares, room, divided)
    spark = start_session(settings, room, write(draft))
    job = Driver(settings, sharing, bus, spark, stop, "kernel")
    running = threading.Thread(target=run_all, args=([job], stop, lambda: None))
    running.start()
    try:
        wait_for_batches(bus, topics, scenarios, running.is_alive)
    finally:
        stop.set()
        running.join()
        is_whole = end_spark(spark, patience_s=30, exit_s=WRITE_S)
    if not is_whole or not draft.exists():
        raise NoClasses("Java has not written its class archive")
    draft.rename(target)
    archives = sorted(target.parent.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime)
    for old in archives[:-KEPT]:
        old.unlink(missing_ok=True)


def send(bus: Bus, topics: Topics, scenarios: Mapping[str, Scenario], number: int) -> None:
    """Append that many reports to the log, a share to each scenario."""
    producer = bus.producer(linger_ms=20)
    share = number // len(scenarios) + 1
    for name, scenario in scenarios.items():
        values = [
            encode_report(Report("", agent, state.name))
            for agent in ("one", "two", "three")
            for state in scenario.states
        ]
        for at in range(share):
            asset = b"10.0.%d.%d" % divmod(at % 5000, 250)
            producer.send(topics.reports(name), asset, values[at % len(values)])
            if at % 1000 == 0:
                producer.poll(0)
    producer.close(60)


def wait_for_batches(
    bus: Bus, topics: Topics, scenarios: Mapping[str, Scenario], alive: Callable[[], bool]
) -> None:
    """Return when enough batches of Real-time Mode are through; reports come all the while.

    alive: whether the job still runs. Raises NoClasses.
    """
    committed: set[int] = set()
    for batch in batches(bus, topics):
        committed |= batch
        if len(committed) >= BATCHES:
            return
        if not alive():
            raise NoClasses("the job has ended before it was through")
        send(bus, topics, scenarios, 200)


def batches(bus: Bus, topics: Topics) -> Iterator[set[int]]:
    """Yield the ids of the batches that ended while the query ran as it should, poll by poll.

    Raises NoClasses.
    """
    begin = {(topics.progress, 0): bus.offsets([topics.progress])[topics.progress, 0][0]}
    reader, deadline = bus.reader(begin), time.monotonic() + RUN_S
    try:
        while time.monotonic() < deadline:
            records = [decode_progress(message.value) for message in reader.poll(0.5, 1000)]
            yield {p.batch["batchId"] for p in records if p.batch and p.status == "running"}
    finally:
        reader.close()
    raise NoClasses(f"the job was not through {BATCHES} batches within {RUN_S:g} s")


def main() -> None:
    """Write the class archive with the broker of the settings, which is filled for it."""
    settings = load_settings()
    target = class_archive(settings.jars_dir)
    scenarios = load_scenarios(settings.scenarios, demo=settings.demo)
    try:
        train(settings, scenarios, KafkaBus(settings.kafka_options()), target)
    except NoClasses as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
