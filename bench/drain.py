"""How fast the job drains a backlog: `python -m bench.drain --reports 300000 --assets 20000`.

Uses the broker of the settings, topics under a prefix of its own, and a data directory of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from config.settings import Settings, load_settings
from domain.records import Report
from domain.scenario import Scenario, load_scenarios
from streaming.checkpoint import current_epoch, positions
from streaming.query import NAME
from wire.source import encode_report
from wire.topics import Topics

SCENARIO = "attack"
AGENTS = 5
STATES = ("clear", "clear", "clear", "clear", "under-attack")
"""What agents report: mostly the same, so that most reports change one vote at most."""


def main() -> None:
    """Fill a log, let the job drain it, print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=300_000)
    parser.add_argument("--assets", type=int, default=20_000)
    arguments = parser.parse_args()
    settings = own_settings("drain")
    bus, topics = KafkaBus(settings.kafka_options()), Topics(settings.topic_prefix)
    ensure(bus, topics, settings)
    fill(bus, topics.reports(SCENARIO), arguments.reports, arguments.assets)
    ends = {place: end for place, (_, end) in bus.offsets([topics.reports(SCENARIO)]).items()}
    with running_job(settings):
        measure(settings, ends)


def own_settings(name: str) -> Settings:
    """The settings, with topics and a data directory for this run alone."""
    data = Path(tempfile.mkdtemp(prefix=f"tallyboard-{name}-"))
    prefix = f"bench-{name}-{os.getpid()}."
    return load_settings().model_copy(update={"data_dir": data, "topic_prefix": prefix})


def scenarios_of(settings: Settings) -> dict[str, Scenario]:
    """The configured scenarios."""
    return load_scenarios(settings.scenarios, demo=settings.demo)


def ensure(bus: KafkaBus, topics: Topics, settings: Settings) -> None:
    """Make the topics."""
    specs = topics.specs(scenarios_of(settings).values())
    bus.ensure_topics(TopicSpec(*spec) for spec in specs)


def fill(bus: KafkaBus, topic: str, reports: int, assets: int) -> None:
    """Append that many reports of five agents on that many assets."""
    chance, producer = random.Random(1), bus.producer(linger_ms=50)
    for number in range(reports):
        asset = f"site-{chance.randrange(assets)}.example"
        report = Report(asset, f"waf-{chance.randrange(AGENTS)}", chance.choice(STATES))
        producer.send(topic, asset.encode(), encode_report(report))
        if number % 1000 == 0:
            producer.poll(0)
        if number % 50_000 == 0:
            producer.flush(60)
    if producer.flush(60):
        sys.exit("the backlog could not be written")


@contextmanager
def running_job(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """The job as a process of its own; its log lies in the data directory."""
    env = os.environ | {
        "TALLYBOARD_DATA_DIR": str(settings.data_dir),
        "TALLYBOARD_TOPIC_PREFIX": settings.topic_prefix,
    }
    with (settings.data_dir / "job.log").open("wb") as log:
        command = [sys.executable, "-m", "streaming"]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def measure(settings: Settings, ends: dict[tuple[str, int], int]) -> None:
    """Print a line per committed batch until the job has passed `ends`."""
    home = settings.data_dir / "checkpoint" / NAME
    begun, first, last, read = time.monotonic(), None, (0.0, 0), 0
    total = sum(ends.values())
    while read < total:
        time.sleep(0.1)
        reached = positions(current_epoch(home).path)
        read = sum(min(reached.get(place, 0), end) for place, end in ends.items())
        now = time.monotonic() - begun
        if read > last[1]:
            print(f"{now:7.1f} s  {read:>9,} of {total:,}", flush=True)
            first, last = first or (now, read), (now, read)
    if first and last[0] > first[0]:
        rate = (last[1] - first[1]) / (last[0] - first[0])
        print(f"{rate:,.0f} reports/s after the first batch; {total / last[0]:,.0f} with start-up")


if __name__ == "__main__":
    main()
