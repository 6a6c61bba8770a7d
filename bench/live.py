"""How soon what an agent says is seen: `python -m bench.live`.

A steady load, each report of which changes something visible. Twice: the job alone with broker and
load, then the whole product with boards open, each of which shows another part of the assets.

- report -> state record: from just before the report is given to its producer to the moment a
  reader in another process has the record that it caused. None may be missing.
- report -> browser: to the moment a board's socket has the row. A board is told at most eight times
  a second and then has the newest row of each asset; what was passed over is not counted.
- timers: votes of a second scenario that expire after three seconds, 20 a second. From the time at
  which a vote was due to expire to the moment a reader has the record that says so.
- idle: processor time of the job's processes with ticks alone, after the load has ended.

With --misrouted each report lies on another partition than its asset's, and is forwarded first.

Producer, readers and boards run in three more processes on the same machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from bench.boards import log_in, watch_boards
from bench.command import Measured, module_command, parser_of, run
from bench.drain import refuse_dead_letters
from bench.figures import Delays
from bench.load import MAJORITY, SCENARIO, turns
from bench.results import Row
from bench.roles import (
    Role,
    Samples,
    SinkRecords,
    delays_ms,
    send,
    watch_forwarded,
    watch_sink,
)
from bench.stack import (
    ROOM,
    ROOT,
    Beats,
    BenchProblem,
    Engine,
    Product,
    cpu_of,
    product,
    say,
)
from ops.readiness import answers

T = TypeVar("T")

EXPIRING = "expiring"
SCENARIOS = f"""\
{MAJORITY.format(lifetime="6h")}
[{EXPIRING}]
partitions = 2
vote_lifetime = "3s"
states = [{{ name = "attack" }}, {{ name = "clear" }}]
rule = {{ kind = "latest" }}
"""
EXPIRING_RATE = 20

# Into so many parts the names fall; a board shows one of them.
PARTS = 50
ASSETS_EACH = 100
TELL_S = 5.0

# The part of the rate that must have been sent for a figure to count.
LEAST_RATE = 0.95

# What the job may take of one core while nothing but ticks arrives, per cent.
IDLE_TARGET = 2.0


@dataclass(frozen=True)
class Load:
    """Reports a second, for how long; with targets or without."""

    rate: int
    seconds: int
    judged: bool = False

    def __str__(self) -> str:
        return f"{self.rate:,} reports/s"


# The Python engine takes the one without targets.
LARGE, SMALL = Load(1000, 300, judged=True), Load(200, 60)


@dataclass
class Run:
    """The figures of one engine under one load. idle: per cent of a core."""

    engine: str
    rate: int
    seconds: int
    sink: dict[str, float] = field(default_factory=dict)
    timers: dict[str, float] = field(default_factory=dict)
    idle: float = 0.0
    sink_beside_boards: dict[str, float] = field(default_factory=dict)
    browser: dict[str, float] = field(default_factory=dict)


def main() -> None:
    """Measure as the options say."""
    parser = parser_of(__doc__)
    parser.add_argument("--rate", type=int, help="one load alone, reports a second")
    parser.add_argument("--seconds", type=int, help=f"for how long ({SMALL.seconds})")
    parser.add_argument("--warm-up", type=int, default=30, help="seconds left out (30)")
    parser.add_argument("--boards", type=int, default=50, help="open websockets (50)")
    parser.add_argument(
        "--misrouted", action="store_true", help="each report on another partition than its asset's"
    )
    parser.add_argument("--idle", type=int, default=120, help="seconds of ticks alone (120)")
    run("live", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Measure every load on the engines that take it. Raises BenchProblem."""
    loads = loads_of(options)
    runs = [
        measure_one(engine, load, options)
        for load in loads
        for engine in options.engines
        if engine.name == "kernel" or not load.judged
    ]
    return rows_of(runs, loads, options), [asdict(run) for run in runs]


def loads_of(options: argparse.Namespace) -> Sequence[Load]:
    """Return the load that was asked for, else all."""
    if options.rate is None and options.seconds is None:
        return (LARGE, SMALL)
    return (Load(options.rate or SMALL.rate, options.seconds or SMALL.seconds),)


# ---- the table ----------------------------------------------------------------------------

_ALONE, _BESIDE = "{load}", "{load}, {boards} boards open"
_RECORD, _BROWSER = "report → state record", "report → browser"
_FIGURES = (
    (f"{_ALONE}: {_RECORD}, p50", "sink", "p50", "ms", 50),
    (f"{_ALONE}: {_RECORD}, p90", "sink", "p90", "ms", None),
    (f"{_ALONE}: {_RECORD}, p99", "sink", "p99", "ms", 200),
    (f"{_ALONE}: {_RECORD}, p99.9", "sink", "p999", "ms", None),
    (f"{_ALONE}: {_RECORD}, most", "sink", "most", "ms", None),
    (f"{_ALONE}: {_RECORD}, part above 200 ms", "sink", "slow", "%", None),
    (f"{_ALONE}: a timer's lateness, p50", "timers", "p50", "ms", None),
    (f"{_ALONE}: a timer's lateness, p99", "timers", "p99", "ms", 300),
    (f"{_BESIDE}: {_RECORD}, p50", "sink_beside_boards", "p50", "ms", None),
    (f"{_BESIDE}: {_RECORD}, p99", "sink_beside_boards", "p99", "ms", None),
    (f"{_BESIDE}: {_BROWSER}, p50", "browser", "p50", "ms", 120),
    (f"{_BESIDE}: {_BROWSER}, p90", "browser", "p90", "ms", None),
    (f"{_BESIDE}: {_BROWSER}, p99", "browser", "p99", "ms", 400),
    (f"{_BESIDE}: {_BROWSER}, p99.9", "browser", "p999", "ms", None),
    (f"{_BESIDE}: {_BROWSER}, most", "browser", "most", "ms", None),
)


def rows_of(runs: Sequence[Run], loads: Sequence[Load], options: argparse.Namespace) -> list[Row]:
    """Return a row for each figure of each load; idle once, of the last."""
    rows = []
    for load in loads:
        same_rate = [run for run in runs if run.rate == load.rate]
        arguments = [f"--rate={load.rate}", f"--seconds={load.seconds}"]
        arguments += ["--misrouted"] if options.misrouted else []
        command = module_command("live", *arguments)
        for title, kind, name, unit, target in _FIGURES:
            what = title.format(load=load, boards=options.boards)
            figures = {run.engine: getattr(run, kind)[name] for run in same_rate}
            judged = target if load.judged else None
            rows.append(Row(what, unit, figures, judged, command=command))
    what, idle = "idle: processor time of the job, of one core", {r.engine: r.idle for r in runs}
    aim = IDLE_TARGET if any(load.judged for load in loads) else None
    rows.append(Row(what, "%", idle, aim, command=command))
    return [row for row in rows if row.figures]


# ---- the measurement ----------------------------------------------------------------------


def measure_one(engine: Engine, load: Load, options: argparse.Namespace) -> Run:
    """Measure the job alone, then the whole product. Raises BenchProblem."""
    run = Run(str(engine), load.rate, load.seconds)
    under = partial(under_load, load=load, warm_up=options.warm_up, misrouted=options.misrouted)
    say(f"live, {engine}: {load}, the job alone")
    with product(SCENARIOS, engine, keep=options.keep) as copy:
        start_job(copy, engine)
        observed = under(copy)
        run.sink, run.timers = observed.sink(load).plain(), observed.timers().plain()
        run.idle = idle(copy, options.idle)
        refuse_dead_letters(copy)
    say(f"live, {engine}: {load}, {options.boards} boards open")
    with product(SCENARIOS, engine, keep=options.keep, DEMO=1, **ROOM) as copy:
        start_web(copy)
        start_job(copy, engine)
        observed = under(copy, boards=options.boards)
        run.sink_beside_boards = observed.sink(load).plain()
        run.browser = observed.browser().plain()
        refuse_dead_letters(copy)
    say(f"  record p50 {run.sink['p50']:.0f} ms, browser p50 {run.browser['p50']:.0f} ms")
    return run


def start_job(copy: Product, engine: Engine) -> None:
    """Start the job, and wait until every bucket has sent a heartbeat. Raises BenchProblem."""
    beats = Beats(copy)
    copy.start_job()
    beats.wait()
    beats.check(engine)
    beats.close()


def start_web(copy: Product) -> None:
    """Start materialiser and web, and wait until the web answers. Raises BenchProblem."""
    manage = str(ROOT / "manage.py")
    prepared = subprocess.run(
        [sys.executable, manage, "prepare"],
        cwd=copy.folder,
        env=copy.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if prepared.returncode:
        raise BenchProblem(f"manage.py prepare failed: {prepared.stderr}")
    copy.start("materialiser", manage, "materialise")
    copy.start("web", manage, "serve")
    copy.wait(lambda: answers(f"{copy.url}/healthz"), 120, "the web server")


@dataclass(frozen=True)
class Observed:
    """Records sent after the warm-up, which ended at `since`, and what readers received of all."""

    since: float
    sent: Samples
    sink_records: SinkRecords
    shown: Samples

    def sink(self, load: Load) -> Delays:
        """Return the delays until the state record.

        Raises BenchProblem for a missing one, or too few sent.
        """
        if len(self.sent) < LEAST_RATE * load.rate * load.seconds:
            raise BenchProblem(f"sent {len(self.sent):,} reports in {load.seconds} s: not {load}")
        delays = delays_ms(self.sent, self.sink_records.reports)
        if len(delays) < len(self.sent):
            missing = len(self.sent) - len(delays)
            raise BenchProblem(f"{missing:,} of {len(self.sent):,} reports became no state record")
        return Delays.of(delays)

    def browser(self) -> Delays:
        """Return the delays until a browser has the row."""
        return Delays.of(delays_ms(self.sent, self.shown))

    def timers(self) -> Delays:
        """Return how late timers fired."""
        return Delays.of([ms for moment, ms in self.sink_records.late if moment >= self.since])


def under_load(
    copy: Product, load: Load, warm_up: int, boards: int = 0, *, misrouted: bool = False
) -> Observed:
    """Load the product for the warm-up and the measured time. Raises BenchProblem.

    misrouted: reports that are forwarded; what they cause is told under their first places.
    """
    with ExitStack() as stack:

        def begin(name: str, work: Callable[..., T], *arguments: Any) -> Role[T]:
            role = stack.enter_context(Role(name, work, *arguments))
            role.wait_ready()
            return role

        states = [copy.topics.states(name) for name in (SCENARIO, EXPIRING)]
        sink = begin("reader", watch_sink, copy.bootstrap, *states)
        watching = begin("boards", watch_boards, *board_arguments(copy, boards)) if boards else None
        source = (copy.bootstrap, copy.topics.reports(SCENARIO))
        forwarded = begin("forwarded", watch_forwarded, *source) if misrouted else None
        expiring = begin("expiring", send, *sending(copy, EXPIRING, EXPIRING_RATE))
        to_send = partial(send, misrouted=misrouted)
        sender = begin("producer", to_send, *sending(copy, SCENARIO, load.rate))
        since = time.monotonic() + warm_up
        pass_time(copy, since + load.seconds, [role for role in (sender, sink, watching) if role])
        sent = sender.finish().since(since)
        expiring.finish()
        sink_records = sink.finish()
        shown = watching.finish() if watching else Samples()
        places = forwarded.finish() if forwarded else {}
    sink_records.reports = sink_records.reports.moved(places)
    return Observed(since, sent, sink_records, shown.moved(places))


def sending(copy: Product, scenario: str, rate: int) -> tuple[Any, ...]:
    """Return the arguments of `send` for a scenario."""
    return copy.bootstrap, copy.topics.reports(scenario), partial(turns, names()), rate


def names() -> list[bytes]:
    """Return the assets' names; neighbours in time are on different boards."""
    return [b"site-%02d-%d.example" % (n % PARTS, n // PARTS) for n in range(PARTS * ASSETS_EACH)]


def board_arguments(copy: Product, boards: int) -> tuple[Any, ...]:
    """Return the arguments of `watch_boards`: each board shows one part of the names."""
    filters = [f"site-{number % PARTS:02d}-" for number in range(boards)]
    partitions = copy.scenarios[SCENARIO].partitions
    return copy.url, log_in(copy.url, copy.folder), SCENARIO, filters, partitions


def pass_time(copy: Product, until: float, roles: Sequence[Role[Any]] = ()) -> None:
    """Wait until `until`, telling how much is left. Raises BenchProblem when a part has ended."""
    said = time.monotonic()
    while (now := time.monotonic()) < until:
        copy.check("the load's end")
        for role in roles:
            role.check()
        if now - said > TELL_S:
            said = now
            say(f"  {until - now:5.0f} s left, load average {os.getloadavg()[0]:.1f}")
        time.sleep(min(0.5, until - now))


def idle(copy: Product, seconds: int, names: Sequence[str] = ("job",)) -> float:
    """Return the processor time of these processes over `seconds` s, per cent of one core."""
    say(f"  idle for {seconds} s")
    before, begun = cpu_of(copy, names), time.monotonic()
    pass_time(copy, begun + seconds)
    return 100 * (cpu_of(copy, names) - before) / (time.monotonic() - begun)


if __name__ == "__main__":
    main()
