"""What a report costs as the work grows: `python -m bench.growth`.

- assets: more assets in the state, each with one vote.
- agents: more agents, each with a vote on every asset; a state record holds all of them.
- partitions: more partitions of the source, and as many buckets.
- scenarios: more scenarios, which share the assets; and what each costs while nothing comes.

Each time the state is filled first, and the job stopped. It is started with nothing to do, and
stopped; then reports on assets at random are written, and it is started again and has them all.
Counted is the processor time of the job's processes from the query's start on, without the JVM's
compilers: they cost the same in each trial. A report costs what the second start took more than the
first, which is what it costs to load the state.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import log
from typing import Any

import msgspec

from bench.command import Measured, module_command, parser_of, run
from bench.drain import refuse_dead_letters
from bench.live import idle, pass_time
from bench.load import Markers, backlog, everyone, fill
from bench.results import Result, Row
from bench.stack import (
    Beats,
    Engine,
    Product,
    cpu_seconds,
    disk_bytes,
    memory_mb,
    product,
    say,
    thread_seconds,
)

COMPILERS = "CompilerThre"
PATIENCE_S = 1800
REPORTS = 2_000_000
IDLE_S = 30
SCENARIO = """\
[{name}]
partitions = {partitions}
commands = "signed"
vote_lifetime = "1d"
states = [{{ name = "attack" }}, {{ name = "clear" }}]
[{name}.rule]
kind = "quorum"
ladder = [{{ state = "attack", more_than = "1/2" }}, {{ state = "clear", more_than = "1/2" }}]
"""


@dataclass(frozen=True)
class Shape:
    """How large the work is. assets: of all scenarios together; agents: each reports on all."""

    assets: int = 10_000
    agents: int = 1
    partitions: int = 4
    scenarios: int = 1

    def names(self) -> list[str]:
        """Return the scenarios' names."""
        return [f"sites-{number}" for number in range(self.scenarios)]

    def toml(self) -> str:
        """Return the scenarios as a file has them."""
        return "\n".join(
            SCENARIO.format(name=name, partitions=self.partitions) for name in self.names()
        )

    def voters(self) -> list[str]:
        """Return the agents' names."""
        return [f"waf-{number}" for number in range(self.agents)]


@dataclass(frozen=True)
class Cost:
    """What it took from the query's start to the end of what there was to do.

    s: by the clock; cpu_s: of the job's processes, the compilers' part too; compiling_s: that part.
    """

    s: float
    cpu_s: float
    compiling_s: float

    @property
    def working_s(self) -> float:
        """Processor time without the compilers, s."""
        return self.cpu_s - self.compiling_s


@dataclass(frozen=True)
class Trial:
    """What the reports cost. empty: a start with nothing to do; idle_share: of a core."""

    shape: Shape
    reports: int
    empty: Cost
    full: Cost
    records: int
    disk_mb: float
    memory_mb: float
    idle_share: float

    @property
    def each_us(self) -> float:
        """Processor time of a report without compilers and the start, µs."""
        return (self.full.working_s - self.empty.working_s) / self.reports * 1e6


# By part: what grows, and the sizes that are tried.
PARTS: dict[str, tuple[int, ...]] = {
    "assets": (10_000, 100_000, 1_000_000, 5_000_000),
    "agents": (3, 10, 30, 100),
    "partitions": (2, 4, 8, 16),
    "scenarios": (1, 10, 50),
}
QUICK: dict[str, tuple[int, ...]] = {
    "assets": (2_000, 20_000),
    "agents": (3, 10),
    "partitions": (2, 4),
    "scenarios": (1, 3),
}


def main() -> None:
    """Try the sizes that the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--parts", type=parts_of, default=tuple(PARTS), help=f"of {words(PARTS)}")
    parser.add_argument("--reports", type=int, default=REPORTS, help=f"in each trial ({REPORTS:,})")
    parser.add_argument("--idle", type=int, default=IDLE_S, help=f"seconds at rest ({IDLE_S})")
    parser.add_argument("--most", type=int, help="leave larger sizes out")
    parser.add_argument("--quick", action="store_true", help="two small sizes of each part")
    run("growth", parser, measure, tables_of)


def tables_of(result: Result) -> Iterator[Result]:
    """Yield what was measured of each part as a result of its own: growth_assets, for one."""
    for part in dict.fromkeys(one["part"] for one in result.runs):
        yield msgspec.structs.replace(
            result,
            bench=f"{result.bench}_{part}",
            rows=[row for row in result.rows if f"--parts={part}" in row.command],
            runs=[one for one in result.runs if one["part"] == part],
        )


def words(parts: Iterable[str]) -> str:
    """Return names with commas."""
    return ",".join(parts)


def parts_of(text: str) -> tuple[str, ...]:
    """Read names of parts. Raises argparse.ArgumentTypeError for others."""
    parts = tuple(text.split(","))
    if not set(parts) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"expected some of {words(PARTS)}")
    return parts


def measure(options: argparse.Namespace) -> Measured:
    """Try each size of each part. Raises BenchProblem."""
    sizes = QUICK if options.quick else PARTS
    rows: list[Row] = []
    trials: list[dict[str, Any]] = []
    for part in options.parts:
        numbers = [n for n in sizes[part] if options.most is None or n <= options.most]
        shapes = [replace(Shape(), **{part: number}) for number in numbers]
        ran = [trial(part, shape, options.reports, options.idle) for shape in shapes]
        rows += rows_of(part, ran)
        trials += [asdict(one) | {"part": part, "each_us": one.each_us} for one in ran]
    return rows, trials


def trial(part: str, shape: Shape, reports: int, idle_s: int) -> Trial:
    """Fill the state of a copy of its own, and time reports on it. Raises BenchProblem."""
    say(f"growth, {part}: {shape}")
    with product(shape.toml(), Engine("kernel")) as copy:
        prepare(copy, shape)
        empty = timed(copy, shape, seed=2)
        copy.stop("job")
        write(copy, shape, reports)
        before = sent(copy, shape)
        full = timed(copy, shape, seed=3)
        done = Trial(
            shape=shape,
            reports=reports,
            empty=empty,
            full=full,
            records=sent(copy, shape) - before,
            disk_mb=disk_bytes(copy.folder / "checkpoint") / 1e6,
            memory_mb=memory_mb(copy.pid("job")),
            idle_share=at_rest(copy, idle_s),
        )
        refuse_dead_letters(copy)
    say(f"  {done.each_us:.1f} µs of processor time for a report, {reports / done.full.s:,.0f}/s")
    return done


def prepare(copy: Product, shape: Shape) -> None:
    """Have every agent's report on every asset in the state, and stop the job."""
    for name in shape.names():
        records = everyone(shape.assets // shape.scenarios, shape.voters())
        count = shape.assets // shape.scenarios * shape.agents
        fill(copy.bus, copy.topics.reports(name), records, count)
    ends = marked(copy, shape, seed=1)
    beats = Beats(copy)
    copy.start_job()
    copy.wait(lambda: all(end.answered() for end in ends), PATIENCE_S, "the state", beats.progress)
    beats.close()
    copy.stop("job")


def write(copy: Product, shape: Shape, reports: int) -> None:
    """Append the reports, a share to each scenario."""
    share = reports // shape.scenarios
    for name in shape.names():
        records = at_random(share, shape.assets // shape.scenarios, shape.voters())
        fill(copy.bus, copy.topics.reports(name), records, share)


def at_random(reports: int, assets: int, agents: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
    """Yield reports on assets at random."""
    records = backlog(assets + reports, assets, agents=agents)
    for _ in range(assets):
        next(records)
    return records


def marked(copy: Product, shape: Shape, seed: int) -> list[Markers]:
    """Put a command at the end of each partition of each scenario."""
    signer = copy.signer()
    return [
        Markers(copy.bus, copy.topics.reports(name), copy.topics.states(name), seed + at, signer)
        for at, name in enumerate(shape.names(), seed * 1000)
    ]


def timed(copy: Product, shape: Shape, seed: int) -> Cost:
    """Start the job and wait until it has taken everything."""
    ends, beats = marked(copy, shape, seed), Beats(copy)
    begun = copy.start_job()
    cpu, compiling = spent(copy)
    copy.wait(lambda: all(end.answered() for end in ends), PATIENCE_S, "the end", beats.progress)
    cpu_after, compiling_after = spent(copy)
    beats.close()
    took_s = max(end.answered_at for end in ends) - begun
    return Cost(took_s, cpu_after - cpu, compiling_after - compiling)


def sent(copy: Product, shape: Shape) -> int:
    """Return how many state records there are."""
    edges = copy.bus.offsets([copy.topics.states(name) for name in shape.names()])
    return sum(end - begin for begin, end in edges.values())


def spent(copy: Product) -> tuple[float, float]:
    """Return the job's processor time so far, s, and its compilers' part."""
    pid = copy.pid("job")
    return cpu_seconds(pid), thread_seconds(pid, COMPILERS)


def at_rest(copy: Product, seconds: int) -> float:
    """Return the job's part of a core while only ticks come, after as long for it to settle."""
    pass_time(copy, time.monotonic() + seconds)
    return idle(copy, seconds) / 100


# ---- what is told -------------------------------------------------------------------------------


def rows_of(part: str, trials: Sequence[Trial]) -> list[Row]:
    """Return each size's cost, and how it grew from the smallest to the largest."""
    command = module_command("growth", f"--parts={part}")
    rows = [row for one in trials for row in figures(part, one, command)]
    return [*rows, *growths(part, trials, command)]


def figures(part: str, one: Trial, command: str) -> Iterator[Row]:
    """Yield what a size cost."""
    size = getattr(one.shape, part)
    what = f"{size:,} {part if size > 1 else part.removesuffix('s')}"
    costs = (
        ("processor time for a report", "µs", one.each_us),
        ("processor time of a start with nothing to do", "s", one.empty.working_s),
        ("checkpoint", "MB", one.disk_mb),
        ("memory of the job", "MB", one.memory_mb),
        ("the job at rest, of one core", "%", 100 * one.idle_share),
    )
    for name, unit, value in costs:
        yield Row(f"{what}: {name}", unit, {"kernel": value}, command=command)


def growths(part: str, trials: Sequence[Trial], command: str) -> Iterator[Row]:
    """Yield how the time for a report grows from size to size; of assets at most as the logarithm.

    Of scenarios, what one more costs at rest too.
    """
    sizes = [getattr(one.shape, part) for one in trials]
    for at, (small, large) in enumerate(pairwise(sizes)):
        ratio = trials[at + 1].each_us / trials[at].each_us
        target = log(large) / log(small) if part == "assets" else None
        what = f"{part} from {small:,} to {large:,}: times the time for a report"
        yield Row(what, "×", {"kernel": ratio}, target, command=command)
    if part == "scenarios" and len(trials) > 1:
        first, last = trials[0], trials[-1]
        more = sizes[-1] - sizes[0]
        share = 100 * (last.idle_share - first.idle_share) / more
        memory = (last.memory_mb - first.memory_mb) / more
        yield Row("one more scenario at rest, of one core", "%", {"kernel": share}, command=command)
        yield Row("one more scenario: memory", "MB", {"kernel": memory}, command=command)


if __name__ == "__main__":
    main()
