"""How soon a standby takes over: `python -m bench.standby`.

Two processes of the job share a copy: one leads, one stands by, and both have waited until the
standby says that it is ready. Then the leader's processes (driver, JVM, Python workers) are killed
with `kill -9`, and it is started again at once, as the supervisor would, to stand by in its turn;
from that moment on a report on an asset never seen before is sent every 100 ms. Measured is the
time from the kill to the first state record that answers one of those. For the next kill the roles
are exchanged. At the end all of it is killed, and a job without a standby is started, as in
bench.recovery, to compare with.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.command import Measured, module_command, parser_of, run
from bench.drain import refuse_dead_letters, run_before
from bench.load import MAJORITY, SCENARIO
from bench.recovery import LIFETIME, Recovered, Size, killed, settle, until_answered
from bench.results import Row
from bench.stack import (
    BenchProblem,
    Engine,
    JobStatus,
    Product,
    cpu_seconds,
    kill_tree,
    memory_mb,
    product,
    say,
)
from config import leadership

ASSETS, TARGET_S = 100_000, 2.5
BACK_S = 300
# How long it is watched what a standby takes while it waits.
IDLE_S = 10.0


@dataclass(frozen=True)
class TakenOver:
    """One take-over by a standby. Seconds from the kill.

    cpu_share, memory_mb: what the standby took before, while it waited, % of a core and MB.
    """

    engine: str
    assets: int
    leads_s: float
    running_s: float
    state_s: float
    cpu_share: float
    memory_mb: float


def main() -> None:
    """Take over as the options say."""
    parser = parser_of(__doc__)
    parser.add_argument("--assets", type=int, default=ASSETS, help=f"how many ({ASSETS})")
    parser.add_argument("--kills", type=int, default=3, help="how often to kill the leader (3)")
    run("standby", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Measure take-overs on each engine. Raises BenchProblem."""
    size = Size(options.assets, TARGET_S)
    runs: list[TakenOver] = []
    alone: list[Recovered] = []
    for engine in options.engines:
        taken, recovered = take_overs(engine, size, options)
        runs, alone = [*runs, *taken], [*alone, recovered]
    return rows_of(runs, alone, size), [*map(asdict, runs), *map(asdict, alone)]


def rows_of(runs: Sequence[TakenOver], alone: Sequence[Recovered], size: Size) -> list[Row]:
    """Return the slowest take-over, what it is made of, and what a standby costs meanwhile.

    alone: recoveries without a standby, one for each engine.
    """
    command = module_command("standby", f"--assets={size.assets}")
    slow = {run.engine: run for run in sorted(runs, key=lambda run: run.state_s)}
    kill = "`kill -9` of the leader"
    measures = (
        (f"first new state after {kill}, the slowest of the kills", "s", "state_s", size.target),
        ("of that, until the standby leads", "s", "leads_s", None),
        ("of that, until the query runs", "s", "running_s", None),
        ("a standby that waits: of one core", "%", "cpu_share", None),
        ("a standby that waits: memory", "MB", "memory_mb", None),
    )
    rows = [
        Row(
            f"{size}, {what}",
            unit,
            {name: getattr(run, field) for name, run in slow.items()},
            target,
            command=command,
        )
        for what, unit, field, target in measures
    ]
    cold = {run.engine: run.state_s for run in alone}
    what = f"{size}, without a standby: first new state after `kill -9` and a start at once"
    return [*rows, Row(what, "s", cold, command=command)]


def take_overs(
    engine: Engine, size: Size, options: argparse.Namespace
) -> tuple[list[TakenOver], Recovered]:
    """Fill one copy with two processes of the job, and kill the one that leads, again and again;
    then recover without a standby."""
    say(f"take-over, {engine}: {size}")
    with product(MAJORITY.format(lifetime=LIFETIME), engine, keep=options.keep, STANDBY=1) as copy:
        run_before(copy)
        settle(copy, engine, size)
        roles, runs = ["job", "standby"], []
        launch_role(copy, roles[1])
        for number in range(options.kills):
            await_standby(copy)
            runs.append(taken_over(copy, engine, size, number, roles))
            say(f"  leads {runs[-1].leads_s:.2f} s, runs {runs[-1].running_s:.2f} s, "
                f"state {runs[-1].state_s:.2f} s")  # fmt: skip
            roles.reverse()
        alone = without_standby(copy, engine, size)
        refuse_dead_letters(copy)
    return runs, alone


def without_standby(copy: Product, engine: Engine, size: Size) -> Recovered:
    """Kill both processes, and start a job that has no standby. Raises BenchProblem."""
    kill_tree(copy.pid("standby"))
    copy.forget("standby")
    copy.change(STANDBY=0)
    recovered = killed(copy, engine, size, number=-1, partitions=None)
    say(f"  without a standby {recovered.state_s:.2f} s")
    return recovered


def launch_role(copy: Product, role: str) -> None:
    """Start one of the job's two processes."""
    copy.start(role, "-m", "streaming", *(["--standby"] if role == "standby" else []))


def await_standby(copy: Product) -> None:
    """Return once the leader says that a standby is ready. Raises BenchProblem."""
    path = leadership.file_of(copy.folder / "checkpoint")
    copy.wait(lambda: leadership.read(path).standby > 0, BACK_S, "a standby")


def taken_over(
    copy: Product, engine: Engine, size: Size, number: int, roles: Sequence[str]
) -> TakenOver:
    """Kill the leader, and wait for the first new state. Raises BenchProblem."""
    path, (leads, stands) = leadership.file_of(copy.folder / "checkpoint"), roles
    if leadership.read(path).role != leads:
        raise BenchProblem(f"{leadership.read(path)} leads, expected {leads}")
    cost = waiting_cost(copy.pid(stands))
    topic = copy.topics.states(SCENARIO)
    reader = copy.bus.reader({p: end for p, (_, end) in copy.bus.offsets([topic]).items()})
    producer, status = copy.bus.producer(linger_ms=0), JobStatus(copy)
    dead, begun = copy.pid(leads), time.time()
    kill_tree(dead)
    copy.forget(leads)
    launch_role(copy, leads)
    try:
        answered = until_answered(copy, producer, reader, f"probe-{number}-")
        copy.wait(status.running, BACK_S, "the job's word that it runs")
    finally:
        status.close()
        reader.close()
        producer.close()
    since = leadership.read(path).since / 1000
    figures = (since - begun, status.since - begun, answered - begun)
    return TakenOver(str(engine), size.assets, *figures, *cost)


def waiting_cost(pid: int) -> tuple[float, float]:
    """Return what a process and all below it take while they wait: % of a core, and MB."""
    before, begun = cpu_seconds(pid), time.monotonic()
    time.sleep(IDLE_S)
    share = (cpu_seconds(pid) - before) / (time.monotonic() - begun)
    return 100 * share, memory_mb(pid)


if __name__ == "__main__":
    main()
