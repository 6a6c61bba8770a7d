"""How fast the job drains a backlog: `python -m bench.drain`.

The job has run before and was stopped; then the backlog is written; then the job is started and the
time taken until it has answered a command behind the last report of each partition. The rate counts
from the query's start (its status `running`), so the JVM's warm-up is in it; the rate with start-up
counts from the start of the process. Every report is one that a real agent could have sent; 20 % of
them say `attack`, so about half change something visible and are answered by a record.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from bench.command import Measured, module_command, parser_of, run
from bench.load import MAJORITY, SCENARIO, Markers, backlog, fill, held
from bench.results import Row
from bench.stack import (
    Beats,
    BenchProblem,
    Engine,
    Product,
    cpu_seconds,
    disk_bytes,
    memory_mb,
    product,
    say,
    thread_seconds,
)

LIFETIME = "10m"
PATIENCE_S = 1800


@dataclass(frozen=True)
class Size:
    """A backlog. `target`: reports a second that the kernel is to reach."""

    reports: int
    assets: int
    target: float | None = None

    def __str__(self) -> str:
        return f"{self.reports:,} reports, {self.assets:,} assets"


@dataclass(frozen=True)
class Drained:
    """What a drain took. start_s: from the process's start to the query's; s: from there on.

    records: state records that came of it. cpu_s: processor time of all of the job's processes, its
    start included; compiling_s: of that, of the JVM's compilers. disk: of the checkpoint, bytes;
    memory_mb: of the job's processes.
    """

    engine: str
    reports: int
    assets: int
    fill_s: float
    start_s: float
    s: float
    records: int
    cpu_s: float = 0.0
    compiling_s: float = 0.0
    disk: int = 0
    memory_mb: float = 0.0

    @property
    def rate(self) -> float:
        """Reports a second since the query's start."""
        return self.reports / self.s

    @property
    def rate_with_start(self) -> float:
        """Reports a second since the start of the process."""
        return self.reports / (self.start_s + self.s)


LARGE = (Size(2_000_000, 100_000, 110_000), Size(1_500_000, 1_000_000, 75_000))
# For both engines, so that they compare.
SMALL = Size(300_000, 20_000)


def main() -> None:
    """Drain what the options say."""
    parser = parser_of(__doc__)
    parser.add_argument("--reports", type=int, help=f"one size alone (with --assets): {SMALL}")
    parser.add_argument("--assets", type=int)
    parser.add_argument(
        "--misrouted", action="store_true", help="each report on another partition than its asset's"
    )
    run("drain", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Measure every size on the engines that take it. Raises BenchProblem."""
    runs = [
        drain(engine, size, keep=options.keep, misrouted=options.misrouted)
        for size in sizes(options)
        for engine in options.engines
        if engine.name == "kernel" or size.target is None
    ]
    return rows_of(runs, sizes(options), misrouted=options.misrouted), [asdict(run) for run in runs]


def sizes(options: argparse.Namespace) -> Sequence[Size]:
    """Return the size that was asked for, else all."""
    if options.reports is None and options.assets is None:
        return (*LARGE, SMALL)
    return (Size(options.reports or SMALL.reports, options.assets or SMALL.assets),)


def rows_of(
    runs: Sequence[Drained], chosen: Sequence[Size], *, misrouted: bool = False
) -> list[Row]:
    """Return two rows for each size: since the query's start, and with start-up."""
    rows = []
    for size in chosen:
        these = [run for run in runs if (run.reports, run.assets) == (size.reports, size.assets)]
        arguments = [f"--reports={size.reports}", f"--assets={size.assets}"]
        command = module_command("drain", *arguments, *(["--misrouted"] if misrouted else []))
        rates = {run.engine: run.rate for run in these}
        rows.append(Row(str(size), "/s", rates, size.target, more=True, command=command))
        rates = {run.engine: run.rate_with_start for run in these}
        rows.append(Row(f"{size}, with the JVM's start", "/s", rates, more=True, command=command))
        rows += costs(size, these, command)
    return [row for row in rows if row.figures]


def costs(size: Size, runs: Sequence[Drained], command: str) -> list[Row]:
    """Return what the drains of a size have cost: processor time, disk and memory."""
    million = size.reports / 1e6
    figures = {
        ("processor time per million reports, with the JVM's start", "s"): lambda run: (
            run.cpu_s / million
        ),
        ("of that, the JVM's compilers", "s"): lambda run: run.compiling_s / million,
        ("checkpoint per asset", "bytes"): lambda run: run.disk / run.assets,
        ("memory of the job per asset", "bytes"): lambda run: run.memory_mb * 1e6 / run.assets,
    }
    return [
        Row(f"{size}: {what}", unit, {run.engine: of(run) for run in runs}, command=command)
        for (what, unit), of in figures.items()
    ]


def drain(engine: Engine, size: Size, *, keep: bool = False, misrouted: bool = False) -> Drained:
    """Run one drain on a copy of its own. Raises BenchProblem.

    misrouted: of a log whose every report is forwarded; it ends when all of these are taken.
    """
    say(f"drain, {engine}: {size}")
    with product(MAJORITY.format(lifetime=LIFETIME), engine, keep=keep) as copy:
        run_before(copy)
        reports = backlog(size.reports, size.assets)
        fill_s = fill(copy.bus, source(copy), reports, size.reports, misrouted=misrouted)
        say(f"  written in {fill_s:.1f} s; starting the job")
        drained = timed(copy, engine, size, fill_s, forwarded=size.reports if misrouted else 0)
    say(f"  {drained.rate:,.0f}/s, with start-up {drained.rate_with_start:,.0f}/s")
    say(f"  {drained.cpu_s:.1f} s of processor, {drained.compiling_s:.1f} s of it compiling")
    return drained


def source(copy: Product) -> str:
    """Return the source topic."""
    return copy.topics.reports(SCENARIO)


def run_before(copy: Product) -> None:
    """Run the job until every bucket has sent a heartbeat, and thus has its rule; then stop it."""
    beats = Beats(copy)
    copy.start_job()
    beats.wait()
    beats.close()
    copy.stop("job")


def timed(copy: Product, engine: Engine, size: Size, fill_s: float, forwarded: int = 0) -> Drained:
    """Start the job and wait until it has taken everything. Raises BenchProblem.

    forwarded: how many reports it has to forward first.
    """
    states = copy.topics.states(SCENARIO)
    markers = Markers(copy.bus, source(copy), states, size.reports, copy.signer())
    beats, begun = Beats(copy), time.time()
    before = held(copy.bus, source(copy))
    running = copy.start_job()
    if forwarded:
        all_there = partial(_holds, copy, before + forwarded)
        copy.wait(all_there, PATIENCE_S, "all reports forwarded", beats.progress)
        markers = Markers(copy.bus, source(copy), states, size.reports + 1, copy.signer())
    copy.wait(markers.answered, PATIENCE_S, "the backlog's end", beats.progress)
    beats.wait()
    beats.close()
    beats.check(engine)
    refuse_dead_letters(copy)
    records = copy.bus.offsets([copy.topics.states(SCENARIO)]).values()
    return Drained(
        engine=str(engine),
        reports=size.reports,
        assets=size.assets,
        fill_s=fill_s,
        start_s=running - begun,
        s=markers.answered_at - running,
        records=sum(end - begin for begin, end in records),
        cpu_s=cpu_seconds(copy.pid("job")),
        compiling_s=thread_seconds(copy.pid("job"), "CompilerThre"),
        disk=disk_bytes(copy.folder / "checkpoint"),
        memory_mb=memory_mb(copy.pid("job")),
    )


def _holds(copy: Product, records: int) -> bool:
    """Return whether the source topic has so many records; the few ticks of a drain count too."""
    return held(copy.bus, source(copy)) >= records


def refuse_dead_letters(copy: Product) -> None:
    """Raise BenchProblem where the job refused a record: what it did not take is not drained."""
    for begin, end in copy.bus.offsets([copy.topics.dead_letters]).values():
        if end > begin:
            raise BenchProblem(f"the job refused {end - begin:,} records as dead letters")


if __name__ == "__main__":
    main()
