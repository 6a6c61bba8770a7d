"""The class archive: the classes that the job loads, laid out so that its next JVM maps them.

Half of a start is the parsing of some 17,000 classes. The JVM can write down what it has loaded
(class data sharing, JEP 350); `python -m ops.classes` has the job do so once, at set-up, through
`python -m streaming.classes` below. Without an archive, or with one that does not fit, everything
works, and starts more slowly.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bus.base import Bus, TopicSpec
from domain.records import Report
from domain.scenario import Scenario
from streaming.kernel import archive, java_command, library
from wire.job import decode_progress
from wire.source import encode_report
from wire.topics import Topics

if TYPE_CHECKING:
    from config.settings import Settings

BATCHES = 2
"""Batches of Real-time Mode that are committed while the classes are noted: a commit loads many."""

KEPT = 3
"""Archives that are kept: copies of the product may share their jars, each on a path of its own."""

RUN_S, WRITE_S = 180.0, 120.0
"""How long the job may take to get there, and its JVM to write the archive."""


class NoClasses(Exception):
    """The archive could not be written; the message says why."""


def class_archive(jars_dir: Path) -> Path:
    """Where the class archive lies: named after class path, Java and options that it fits."""
    from streaming.session import JVM_OPTIONS  # which imports this module

    digest = hashlib.sha256("\n".join([_java(), *JVM_OPTIONS]).encode())
    for path in [archive(jars_dir), *sorted(library(jars_dir))]:
        digest.update(bytes(path))
    return archive(jars_dir).with_name(f"classes-{digest.hexdigest()[:16]}.jsa")


def _java() -> str:
    """Which build of Java runs: what it says of its options and its mode is left out."""
    told = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=False)
    return "\n".join(line for line in told.stderr.splitlines() if "Runtime Environment" in line)


def use(path: Path) -> tuple[str, ...]:
    """The options of a JVM that maps the archive; none where there is no archive."""
    return (
        (f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off") if path.exists() else ()
    )


def write(path: Path) -> tuple[str, ...]:
    """The options of a JVM that writes the archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={path}", "-Xlog:disable", "-Xlog:all=error:stderr")


def train(settings: Settings, scenarios: Mapping[str, Scenario], bus: Bus, target: Path) -> None:
    """Run the job on a backlog, then in Real-time Mode, and have its JVM write the archive.

    Raises NoClasses.
    """
    from streaming.driver import LONG_BACKLOG, Driver, end_spark, run_all
    from streaming.engines import Shares, Sharing, slots
    from streaming.session import start_session

    topics = Topics(settings.topic_prefix)
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs(scenarios.values()))
    send(bus, topics, scenarios, LONG_BACKLOG + 1)
    draft, stop = target.with_suffix(".new"), threading.Event()
    draft.unlink(missing_ok=True)
    home = settings.data_dir / "checkpoint"
    shares: Shares = {"kernel": dict(scenarios)}
    room = slots(shares, settings.wanted_trigger)
    sharing = Sharing("kernel", settings.wanted_trigger, home, shares, room)
    spark = start_session(settings, room, write(draft))
    job = Driver(settings, sharing, bus, spark, stop, "kernel")
    running = threading.Thread(target=run_all, args=([job], stop, lambda: None))
    running.start()
    try:
        wait_for_batches(bus, topics, scenarios, running.is_alive)
    finally:
        stop.set()
        running.join()
        end_spark(spark, patience_s=30, exit_s=WRITE_S)
    if not draft.exists():
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
    seen: set[int] = set()
    for batch in batches(bus, topics):
        seen |= batch
        if len(seen) >= BATCHES:
            return
        if not alive():
            raise NoClasses("the job has ended before it was through")
        send(bus, topics, scenarios, 200)


def batches(bus: Bus, topics: Topics) -> Iterator[set[int]]:
    """The batches that ended while the query ran as it should, look by look. Raises NoClasses."""
    begin = {(topics.progress, 0): bus.offsets([topics.progress])[topics.progress, 0][0]}
    reader, deadline = bus.reader(begin), time.monotonic() + RUN_S
    try:
        while time.monotonic() < deadline:
            told = [decode_progress(message.value) for message in reader.poll(0.5, 1000)]
            yield {p.batch["batchId"] for p in told if p.batch and p.status == "running"}
    finally:
        reader.close()
    raise NoClasses(f"the job was not through {BATCHES} batches within {RUN_S:g} s")


def main() -> None:
    """Write the class archive with the broker of the settings, which is filled for it."""
    from bus.kafka import KafkaBus
    from config.settings import load_settings
    from domain.scenario import load_scenarios

    parser = argparse.ArgumentParser(prog="python -m streaming.classes", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="fail unless there is one; write none")
    settings = load_settings()
    target = class_archive(settings.jars_dir)
    if parser.parse_args().check:
        sys.exit(not target.exists())
    scenarios = load_scenarios(settings.scenarios, demo=settings.demo)
    try:
        train(settings, scenarios, KafkaBus(settings.kafka_options()), target)
    except NoClasses as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
