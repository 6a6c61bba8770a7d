"""How long nothing leaves the job at a commit: `python -m bench.pauses`.

A steady load on the job alone, as in `bench.live`, and each time that reports wait is listed by
itself. What reports wait in the warm-up is a figure of its own: the JVM is cold then, and its first
commits come in it (`TALLYBOARD_WARM_UP_S`). All later commits count.

- a pause: neighbouring reports that all wait longer than SLOW_MS for their state records. It is as
  long as the longest of these waits.
- timers: as in `bench.live`, votes that expire after three seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from bench.command import Measured, module_command, parser_of, run
from bench.drain import refuse_dead_letters
from bench.figures import Delays
from bench.live import IDLE_TARGET, SCENARIOS, Load, Observed, idle, start_job, under_load
from bench.results import Row
from bench.stack import Engine, cpu_seconds, product, say

SLOW_MS = 100.0

# Slow reports that were sent within this time of each other wait for the same thing.
APART_S = 1.0

RATE, SECONDS, BATCH_S, IDLE_S = 1000, 600, 300, 60


@dataclass
class Run:
    """One run. cold: the longest wait in the warm-up, ms; pauses: (s since the first report, ms);
    cores: processor time of a second, s; idle: the same with ticks alone, %, None: not measured."""

    load: str
    batch_s: int
    sink: dict[str, float] = field(default_factory=dict)
    timers: dict[str, float] = field(default_factory=dict)
    cold: float = 0.0
    pauses: list[tuple[float, float]] = field(default_factory=list)
    cores: float = 0.0
    idle: float | None = None


def main() -> None:
    """Measure as the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--rate", type=int, default=RATE, help=f"reports a second ({RATE})")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"how long ({SECONDS})")
    parser.add_argument("--warm-up", type=int, default=30, help="seconds of their own (30)")
    parser.add_argument("--batch", type=int, default=BATCH_S, help=f"s of a batch ({BATCH_S})")
    parser.add_argument("--idle", type=int, default=IDLE_S, help=f"s of ticks alone ({IDLE_S})")
    parser.add_argument("--keep", action="store_true", help="keep logs and checkpoints")
    run("pauses", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Measure one load. Raises BenchProblem."""
    load = Load(options.rate, options.seconds)
    one = Run(str(load), options.batch)
    engine = Engine("kernel")
    say(f"pauses: {load}, batches of {options.batch} s")
    with product(SCENARIOS, engine, keep=options.keep, BATCH_S=options.batch) as copy:
        start_job(copy, engine)
        before = cpu_seconds(copy.pid("job"))
        observed = under_load(copy, load, 0)
        one.cores = (cpu_seconds(copy.pid("job")) - before) / load.seconds
        observed.sink(load)  # none is missing
        waited = waits(observed)
        one.sink = Delays.of([ms for at, ms in waited if at >= options.warm_up]).plain()
        one.cold = max((ms for at, ms in waited if at < options.warm_up), default=0.0)
        since = observed.since + options.warm_up
        one.timers = replace(observed, since=since).timers().plain()
        one.pauses = list(pauses(waited))
        if options.idle:
            one.idle = idle(copy, options.idle)
        refuse_dead_letters(copy)
    for at, ms in one.pauses:
        say(f"  {at:6.1f} s  {ms:5.0f} ms")
    return rows_of(one, load), [asdict(one)]


def waits(observed: Observed) -> list[tuple[float, float]]:
    """Return when each report was sent, s since the first, and how long it waited, ms."""
    sent, seen = observed.sent.first(), observed.sink_records.reports.first()
    return in_order(sent, seen)


def in_order(sent: Mapping[int, float], seen: Mapping[int, float]) -> list[tuple[float, float]]:
    """Return (s since the first was sent, ms until it was seen) of each report, as sent."""
    begun = min(sent.values(), default=0.0)
    return sorted((at - begun, (seen[place] - at) * 1000) for place, at in sent.items())


def pauses(waited: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield when each pause began, s, and how long its longest wait was, ms."""
    begun = last = longest = 0.0
    for at, ms in waited:
        if ms <= SLOW_MS:
            continue
        if longest and at - last > APART_S:
            yield begun, longest
            longest = 0.0
        begun, last, longest = begun if longest else at, at, max(longest, ms)
    if longest:
        yield begun, longest


def rows_of(one: Run, load: Load) -> list[Row]:
    """Return a row for each figure."""
    command = module_command(
        "pauses", f"--rate={load.rate}", f"--seconds={load.seconds}", f"--batch={one.batch_s}"
    )
    figures: list[tuple[str, str, float, float | None]] = [
        ("report → state record, p50", "ms", one.sink["p50"], None),
        ("report → state record, p99", "ms", one.sink["p99"], None),
        ("report → state record, p99.9", "ms", one.sink["p999"], 100),
        ("report → state record, most", "ms", one.sink["most"], 250),
        ("a timer's lateness, p50", "ms", one.timers["p50"], None),
        ("a timer's lateness, p99", "ms", one.timers["p99"], 300),
        ("the longest wait in the warm-up", "ms", one.cold, None),
        ("the job's processor time under it, of one core", "%", 100 * one.cores, None),
    ]
    if one.idle is not None:
        ticks = "the job's processor time with ticks alone, of one core"
        figures.append((ticks, "%", one.idle, IDLE_TARGET))
    what = f"{load} in batches of {one.batch_s} s"
    return [
        Row(f"{what}: {name}", unit, {"kernel": value}, target, command=command)
        for name, unit, value, target in figures
    ]


if __name__ == "__main__":
    main()
