"""How many state records a second the materialiser writes: `python -m bench.materialise`.

A sink topic in memory stands for Kafka, so that the figure is the materialiser's own. The database
is an SQLite file in a temporary directory, or what TALLYBOARD_DATABASE_URL names (an empty one).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.command import Measured, module_command, parser_of, run
from bench.results import Row
from bench.stack import ROOT, say
from bus.base import TopicSpec
from bus.memory import MemoryBus
from domain.records import Cause, StateRecord, Vote
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from domain.version import Version
from wire.sink import encode_headers, encode_state
from wire.topics import Topics

if TYPE_CHECKING:
    from dashboard.serve.materialiser.worker import Materialiser

START = 1_790_000_000_000
STATES = ("clear", "suspicious", "under-attack")
# State records a second.
TARGET = 25_000.0


def main() -> None:
    """Materialise what the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--assets", type=int, default=50_000)
    parser.add_argument("--votes", type=int, default=5, help="votes in each record (5)")
    run("materialise", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Fill a sink topic and materialise it."""
    say(f"materialise: {options.records:,} records of {options.assets:,} assets")
    scenarios = load_scenarios(ROOT / "scenarios.toml")
    bus = MemoryBus(lambda: START)
    fill(bus, scenarios, states(options.records, options.assets, options.votes))
    say("  written; materialising")
    with tempfile.TemporaryDirectory(prefix="tallyboard-bench-") as folder:
        seconds, cpu = drain(prepare(Path(folder), bus, scenarios))
    sizes = {name: getattr(options, name) for name in ("records", "assets", "votes")}
    return rows_of(sizes, seconds, cpu), [{**sizes, "seconds": seconds, "cpu_seconds": cpu}]


def rows_of(sizes: dict[str, int], seconds: float, cpu: float) -> list[Row]:
    """Return the rate, and what one core would give."""
    what = "{records:,} state records, {assets:,} assets, {votes} votes in each".format(**sizes)
    command = module_command("materialise", *(f"--{k}={v}" for k, v in sizes.items()))
    by_clock, by_cpu = sizes["records"] / seconds, sizes["records"] / cpu
    return [
        Row(what, "/s", {"": by_clock}, TARGET, more=True, command=command),
        Row(f"{what}: for a second of one core", "/s", {"": by_cpu}, more=True, command=command),
    ]


def states(records: int, assets: int, votes: int) -> Iterator[StateRecord]:
    """Yield state records as a job would emit them; every third changes the asset's state."""
    for offset in range(records):
        asset, turn = offset % assets, offset // assets
        state = STATES[turn // 3 % 3]
        yield StateRecord(
            asset=f"site-{asset}.example",
            state=state,
            previous=STATES[(turn // 3 - 1) % 3] if turn > 2 else None,
            since=START + turn // 3,
            unconfirmed=False,
            version=Version(1, offset, 0),
            cause=Cause("report", asset % 4, offset, START + turn, agent="waf-1"),
            votes=tuple(vote(n, state, offset) for n in range(votes)),
        )


def vote(n: int, state: str, offset: int) -> Vote:
    """Return one agent's vote."""
    expires = START + 600_000
    detail = f'{{"rps":{offset}}}'
    return Vote(f"waf-{n}", state, START, START, max(0, offset - n), expires, 1, detail)


def fill(bus: MemoryBus, scenarios: dict[str, Scenario], records: Iterator[StateRecord]) -> None:
    """Append the records to the states topic."""
    topics = Topics()
    bus.ensure_topics([TopicSpec(*spec) for spec in topics.specs(scenarios.values())])
    producer = bus.producer()
    for record in records:
        producer.send(
            topics.states("attack"),
            record.asset.encode(),
            encode_state(record),
            headers=encode_headers(record),
        )
        producer.poll()


def prepare(folder: Path, bus: MemoryBus, scenarios: dict[str, Scenario]) -> Materialiser:
    """Create a fresh database in `folder`, and return a materialiser over it."""
    os.environ |= {
        "TALLYBOARD_DATA_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
    }
    import django

    django.setup()
    from django.core.management import call_command

    from dashboard.core.common.sql import register_adapters
    from dashboard.serve.materialiser.worker import Materialiser, enlarge_memory, relax_collector

    enlarge_memory()
    call_command("migrate", verbosity=0)
    register_adapters()
    relax_collector()
    return Materialiser(bus, Topics(), scenarios, lambda: START)


def drain(worker: Materialiser) -> tuple[float, float]:
    """Materialise until nothing more arrives. Returns seconds by the clock and of the CPU."""
    begun = ended = (time.perf_counter(), time.process_time())
    while worker.step():
        ended = (time.perf_counter(), time.process_time())
    return ended[0] - begun[0], ended[1] - begun[1]


if __name__ == "__main__":
    main()
