"""How soon the board moves again after `kill -9` of the whole job: `python -m bench.recovery`.

The job takes one report on each asset and commits them. Then its processes (driver, JVM, Python
workers) are killed and it is started again at once; from that moment on a report on an asset never
seen before is sent every 100 ms. Measured is the time from the start of the process to the first
state record that answers one of those. Nothing is warmed up, and no state is kept in memory. With
`--state-partitions 8 2` it is killed twice, and goes on with another number each time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count, groupby

from bench.command import Measured, module_command, parser_of, run
from bench.drain import refuse_dead_letters, run_before, source
from bench.load import AGENTS, MAJORITY, SCENARIO, STATES, Markers, backlog, fill
from bench.results import Row
from bench.stack import Beats, BenchProblem, Engine, Product, product, say
from bus.base import Producer, Reader, TopicPartition
from domain.records import Report
from streaming.fold.epochs import start_of
from streaming.state.checkpoint import current_epoch, positions
from streaming.state.storage import LocalPath
from wire.source import encode_report

# Longer than any run: what votes that expire cost is another question.
LIFETIME = "6h"

PROBE_EVERY_S = 0.1
PATIENCE_S = 1800
BACK_S = 300


@dataclass(frozen=True)
class Size:
    """How many assets the job holds. `target`: most seconds until it is back."""

    assets: int
    target: float | None = None

    def __str__(self) -> str:
        return f"{self.assets:,} assets"


@dataclass(frozen=True)
class Recovered:
    """One recovery. Seconds from the start of the process: to the query's start, to a new state.

    state_partitions: that its state was carried over to; none where it kept its number.
    """

    engine: str
    assets: int
    state_partitions: int | None
    running_s: float
    state_s: float


# The Python engine takes those without a target.
SIZES = (Size(5_000_000, 10.0), Size(1_000_000, 5.0), Size(100_000))


def main() -> None:
    """Recover as the options say."""
    parser = parser_of(__doc__)
    parser.add_argument("--assets", type=int, help="one size alone")
    kills = parser.add_mutually_exclusive_group()
    kills.add_argument("--kills", type=int, default=3, help="how often to kill it (3)")
    kills.add_argument("--state-partitions", type=int, nargs="+", help="one number for each kill")
    parser.add_argument("--pause", type=float, default=10, help="seconds between kills (10)")
    run("recovery", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Measure every size on the engines that take it. Raises BenchProblem."""
    sizes = SIZES if options.assets is None else (Size(options.assets),)
    runs = [
        recovered
        for size in sizes
        for engine in options.engines
        if engine.name == "kernel" or size.target is None
        for recovered in recover(engine, size, options)
    ]
    return rows_of(runs, sizes), [asdict(run) for run in runs]


def rows_of(runs: Sequence[Recovered], sizes: Sequence[Size]) -> list[Row]:
    """Return for each size the slowest recovery, and how much of it is the start of Spark."""
    rows = []
    for size in sizes:
        command = module_command("recovery", f"--assets={size.assets}", *carried_over(runs, size))
        state, running = slowest(runs, size)
        what = f"{size}: first new state after `kill -9`, the slowest of the kills"
        if carried_over(runs, size):
            what += ", each with another number of state partitions"
        rows.append(Row(what, "s", state, size.target, command=command))
        rows.append(Row(f"{size}: of that, until the query runs", "s", running, command=command))
    return [row for row in rows if row.figures]


def carried_over(runs: Sequence[Recovered], size: Size) -> list[str]:
    """Return the options that name the state partitions of one engine's runs at that size; none
    where they kept their number."""
    for _, own in groupby((r for r in runs if r.assets == size.assets), lambda run: run.engine):
        numbers = [str(run.state_partitions) for run in own if run.state_partitions]
        return ["--state-partitions", *numbers] if numbers else []
    return []


def slowest(runs: Sequence[Recovered], size: Size) -> tuple[dict[str, float], dict[str, float]]:
    """Return by engine the slowest recovery at that size, s: to a state, to a running query."""
    these = sorted((r for r in runs if r.assets == size.assets), key=lambda r: r.state_s)
    return {r.engine: r.state_s for r in these}, {r.engine: r.running_s for r in these}


def recover(engine: Engine, size: Size, options: argparse.Namespace) -> list[Recovered]:
    """Fill one copy, then kill and start its job as often as the options say."""
    say(f"recovery, {engine}: {size}")
    with product(MAJORITY.format(lifetime=LIFETIME), engine, keep=options.keep) as copy:
        run_before(copy)
        settle(copy, engine, size)
        kills = []
        for number, partitions in enumerate(options.state_partitions or [None] * options.kills):
            if number:
                time.sleep(options.pause)
            if partitions:
                copy.change(STATE_PARTITIONS=partitions)
            kills.append(killed(copy, engine, size, number, partitions))
            say(f"  back after {kills[-1].state_s:.1f} s (query {kills[-1].running_s:.1f} s)")
        refuse_dead_letters(copy)
    return kills


def settle(copy: Product, engine: Engine, size: Size) -> None:
    """Have the job take a report on each asset, and commit them. Raises BenchProblem."""
    fill(copy.bus, source(copy), backlog(size.assets, size.assets), size.assets)
    states = copy.topics.states(SCENARIO)
    markers = Markers(copy.bus, source(copy), states, size.assets, copy.signer())
    beats = Beats(copy)
    copy.start_job()
    copy.wait(markers.answered, PATIENCE_S, "all assets", beats.progress)
    copy.wait(lambda: committed(copy, markers.ends), PATIENCE_S, "a commit")
    beats.wait()
    beats.close()
    beats.check(engine)


def committed(copy: Product, ends: dict[TopicPartition, int]) -> bool:
    """Return whether some query's checkpoint holds everything up to these ends."""
    homes = (copy.folder / "checkpoint").glob("*")
    reached = [positions(current_epoch(LocalPath(home)).path) for home in homes if home.is_dir()]
    return any(all(at.get(place, 0) >= end for place, end in ends.items()) for at in reached)


def killed(
    copy: Product, engine: Engine, size: Size, number: int, partitions: int | None
) -> Recovered:
    """Kill the job, start it, and wait for the first new state.

    partitions: the state partitions that it must have then. Raises BenchProblem.
    """
    copy.kill("job")
    topic = copy.topics.states(SCENARIO)
    reader = copy.bus.reader({p: end for p, (_, end) in copy.bus.offsets([topic]).items()})
    producer = copy.bus.producer(linger_ms=0)
    begun = time.time()
    status = copy.launch_job()
    try:
        answered = until_answered(copy, producer, reader, f"probe-{number}-")
        copy.wait(status.running, BACK_S, "the job's word that it runs")
    finally:
        status.close()
        reader.close()
        producer.close()
    has = start_of(current_epoch(LocalPath(copy.folder / "checkpoint" / engine.name)))
    if partitions not in (None, has.state_partitions):
        raise BenchProblem(f"the job goes on with {has.state_partitions} state partitions")
    running_s, state_s = status.since - begun, answered - begun
    return Recovered(str(engine), size.assets, partitions, running_s, state_s)


def until_answered(copy: Product, producer: Producer, reader: Reader, prefix: str) -> float:
    """Send probes until one has become a state; Unix seconds of when. Raises BenchProblem."""
    numbers, due, deadline = count(), time.monotonic(), time.monotonic() + BACK_S
    while time.monotonic() < deadline:
        if time.monotonic() >= due:
            due += PROBE_EVERY_S
            copy.check("a new state")
            probe = f"{prefix}{next(numbers)}".encode()
            report = encode_report(Report("", AGENTS[0], STATES[1]))
            producer.send(source(copy), probe, report)
            producer.poll(0)
        messages = reader.poll(max(0.0, due - time.monotonic()), 10_000)
        if any((message.key or b"").startswith(prefix.encode()) for message in messages):
            return time.time()
    raise BenchProblem(f"no new state within {BACK_S} s\n{copy.tail('job')}")


if __name__ == "__main__":
    main()
