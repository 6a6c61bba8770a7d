"""How a drain grows with executors on a Spark cluster: `python -m bench.cluster`.

A master and workers of four slots each run as plain processes beside broker and job. Each worker
stands for a machine: a control group gives it a share of a processor (`--share`), as long as all of
them fit beside broker and driver. The first batch is drained without that limit, so that executors
are warm; what comes after it counts. The shares need cgroup v1's `cpu` and root; without them
`--share 0` compares processor time alone.
"""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.command import Measured, module_command, parser_of, run
from bench.drain import LIFETIME, refuse_dead_letters, run_before, source
from bench.load import MAJORITY, Markers, backlog, fill
from bench.results import Row
from bench.stack import (
    BenchProblem,
    Engine,
    Following,
    Product,
    cpu_seconds,
    product,
    say,
)
from config.archives import pyspark_jars
from config.java import find_java
from ops.ports import free_port
from streaming.fold.query import MAX_PER_BATCH
from wire.job import QueryReport, decode_progress

PARTITIONS = 8
SLOTS = 4
KERNEL = Engine("kernel", "micro-batch")
GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000
PATIENCE_S = 1800
DAEMON = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Moment:
    """Where a drain is. at: Unix s; read: reports; the rest: processor time until now, s."""

    at: float
    read: int
    workers: float
    driver: float
    broker: float


@dataclass(frozen=True)
class Drained:
    """What a drain took behind its first batch. s: of time; the others: s of processor time."""

    executors: int
    state_partitions: int
    share: float
    reports: int
    s: float
    workers: float
    driver: float
    broker: float

    @property
    def rate(self) -> float:
        """Reports a second."""
        return self.reports / self.s


def main() -> None:
    """Drain with each number of executors that the options name."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--state-partitions", type=int, default=PARTITIONS)
    parser.add_argument("--share", type=float, default=0.4, help="of a processor, 0: no limit")
    parser.add_argument("--reports", type=int, default=8_000_000)
    parser.add_argument("--assets", type=int, default=100_000)
    run("cluster", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Measure each number of executors. Raises BenchProblem."""
    if options.reports < 2 * MAX_PER_BATCH["kernel"]:
        raise BenchProblem(f"--reports: expected at least {2 * MAX_PER_BATCH['kernel']}")
    runs = [drain(number, options) for number in options.executors]
    return [row for each in runs for row in rows_of(each)], [asdict(each) for each in runs]


def rows_of(drained: Drained) -> list[Row]:
    """Return the rate of a drain, and what a million reports have cost."""
    million = drained.reports / 1e6
    command = module_command(
        "cluster", f"--executors={drained.executors}", f"--share={drained.share}"
    )
    named = f"{drained.executors} executors of {SLOTS} slots"
    figures = {
        ("rate", "/s"): drained.rate,
        ("executors' processor time per million reports", "s"): drained.workers / million,
        ("driver's processor time per million reports", "s"): drained.driver / million,
        ("broker's processor time per million reports", "s"): drained.broker / million,
    }
    return [
        Row(f"{named}: {what}", unit, {"kernel": figure}, command=command)
        for (what, unit), figure in figures.items()
    ]


def drain(executors: int, options: argparse.Namespace) -> Drained:
    """Run one drain on a copy of its own. Raises BenchProblem."""
    say(f"cluster, {executors} executors")
    scenario = MAJORITY.format(lifetime=LIFETIME).replace("= 4", f"= {PARTITIONS}", 1)
    with product(scenario, KERNEL, STATE_PARTITIONS=options.state_partitions) as copy:
        workers = start_cluster(copy, executors)
        run_before(copy)
        records = backlog(options.reports, options.assets)
        fill(copy.bus, source(copy), records, options.reports)
        with shares(copy.folder.name, workers, options.share) as limit:
            begun, ended = followed(copy, workers, options.reports, limit)
    drained = Drained(
        executors,
        options.state_partitions,
        options.share,
        ended.read - begun.read,
        ended.at - begun.at,
        ended.workers - begun.workers,
        ended.driver - begun.driver,
        ended.broker - begun.broker,
    )
    say(f"  {drained.rate:,.0f}/s, {drained.workers:.1f} s of the executors' processor time")
    return drained


# ---- cluster -------------------------------------------------------------------------------------


def start_cluster(copy: Product, executors: int) -> list[int]:
    """Start a master and workers; returns the processes of the workers. Raises BenchProblem."""
    secret, port = secrets.token_hex(16), free_port()
    conf = copy.folder / "spark.conf"
    conf.touch(mode=0o600)
    conf.write_text(
        "spark.authenticate true\nspark.network.crypto.enabled true\n"
        f"spark.authenticate.secret {secret}\n"
    )
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    common = ("--host", "127.0.0.1", "--webui-port", "0", "--properties-file", str(conf))
    _daemon(copy, "master", f"{deploy}.master.Master", *common, "--port", str(port))
    _printed(copy, "master", "New state: ALIVE")
    names = [f"worker-{number}" for number in range(executors)]
    for name in names:
        size = ("--cores", str(SLOTS), "--memory", "1g", "--work-dir", str(copy.folder / name))
        _daemon(copy, name, f"{deploy}.worker.Worker", *common, *size, url)
        _printed(copy, name, "Successfully registered")
    copy.change(SPARK_MASTER=url, SPARK_SECRET=secret)
    return [copy.pid(name) for name in names]


def _daemon(copy: Product, name: str, *arguments: str) -> None:
    home, java = pyspark_jars().parent, find_java()
    variables = {
        "SPARK_HOME": home,
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": java.resolve().parent.parent,
    }
    named = [f"{variable}={value}" for variable, value in variables.items()]
    command = (str(java), *DAEMON, "-cp", f"{home}/jars/*", *arguments)
    copy.start_program(name, "env", *named, *command)


def _printed(copy: Product, name: str, text: str) -> None:
    log = copy.log(name)
    copy.wait(lambda: log.exists() and text in log.read_text(errors="replace"), 60, name)


@contextmanager
def shares(name: str, workers: list[int], share: float) -> Iterator[Limit]:
    """Yield what limits each worker to its share of a processor. Raises BenchProblem."""
    groups = [GROUPS / f"{name}-{number}" for number in range(len(workers))] if share else []
    try:
        for group, pid in zip(groups, workers, strict=False):
            group.mkdir()
            for each in (Path("/proc") / str(pid) / "task").iterdir():
                (group / "tasks").write_text(each.name)
        yield Limit(groups, share)
    except OSError as error:
        raise BenchProblem(f"{GROUPS}: {error}: shares need cgroup v1 and root") from None
    finally:
        for group in groups:
            _dissolve(group)


def _dissolve(group: Path) -> None:
    """Remove a group; its processes go to the one above."""
    with suppress(OSError):
        for pid in (group / "tasks").read_text().split():
            with suppress(OSError):
                (GROUPS / "tasks").write_text(pid)
        group.rmdir()


@dataclass(frozen=True)
class Limit:
    """The groups of the workers, and the share of a processor that each is to have."""

    groups: list[Path]
    share: float

    def apply(self) -> None:
        """Let the workers have no more from now on. Raises OSError."""
        for group in self.groups:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(self.share * PERIOD_US)))


# ---- drain ---------------------------------------------------------------------------------------


def followed(
    copy: Product, workers: list[int], reports: int, limit: Limit
) -> tuple[Moment, Moment]:
    """Drain the backlog; returns how it stood when its first batch was done, and at its end.

    Raises BenchProblem.
    """
    markers = Markers(copy.bus, source(copy), copy.topics.states("sites"), reports, copy.signer())
    follow = Following(copy, copy.topics.progress)
    copy.launch_job().close()

    first: list[int] = []  # the records of a batch that was full

    def look() -> bool:
        rows = [int((one.batch or {}).get("numInputRows", 0)) for one in _reports(follow)]
        first.extend(number for number in rows if number > MAX_PER_BATCH["kernel"] / 2)
        return bool(first)

    copy.wait(look, PATIENCE_S, "the first batch")
    begun = _moment(copy, workers, first[0])
    limit.apply()
    copy.wait(markers.answered, PATIENCE_S, "the backlog's end")
    ended = _moment(copy, workers, reports)
    follow.close()
    refuse_dead_letters(copy)
    return begun, ended


def _reports(follow: Following) -> list[QueryReport]:
    return [decode_progress(value) for value in follow.look()]


def _moment(copy: Product, workers: list[int], read: int) -> Moment:
    driver, broker = (cpu_seconds(copy.pid(name)) for name in ("job", "broker"))
    return Moment(time.time(), read, sum(map(cpu_seconds, workers)), driver, broker)


if __name__ == "__main__":
    main()
