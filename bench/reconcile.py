"""How long reconcile takes, and how much memory: `python -m bench.reconcile --assets 10000000`.

A log of so many reports, one on each asset first, goes through the kernel in Spark and is compared
with a database of SQLite, by the command that admins use. The database is written by the job and
the materialiser; with `--rows` from the kernel's own records, without indexes that only pages need,
as the materialiser would take longer than what is measured. Memory is that of the command and its
Spark, at its highest; what they share counts once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from bench.command import Measured, module_command, parser_of, run
from bench.drain import refuse_dead_letters, run_before
from bench.load import MAJORITY, SCENARIO, backlog, fill
from bench.results import Row
from bench.scale import wait_for_database
from bench.stack import (
    ROOT,
    Beats,
    BenchProblem,
    Engine,
    Product,
    cpu_seconds,
    disk_bytes,
    memory_mb,
    product,
    say,
)

LIFETIME = "30d"
LOOK_S = 1.0
KERNEL = Engine("kernel")


@dataclass(frozen=True)
class Reconciled:
    """What a reconcile took. s: by the clock; cpu_s: of its processes; memory_mb, disk: at most,
    MB and bytes of the files that it deletes; records, compared: as it says itself."""

    assets: int
    reports: int
    fold: str
    rows: bool
    s: float
    cpu_s: float
    memory_mb: float
    disk: int
    records: int
    compared: int


def main() -> None:
    """Reconcile what the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--assets", type=int, default=1_000_000, help="(1,000,000)")
    parser.add_argument("--reports", type=int, help="(as many as assets)")
    parser.add_argument("--fold", choices=("kernel", "plain"), default="kernel", help="(kernel)")
    parser.add_argument("--rows", action="store_true", help="write the database without the job")
    parser.add_argument("--memory", default="768m", help="the heap of Spark (768m)")
    run("reconcile", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Measure one size. Raises BenchProblem."""
    reports = options.reports or options.assets
    say(f"reconcile: {reports:,} reports, {options.assets:,} assets, {options.fold} fold")
    scenarios = MAJORITY.format(lifetime=LIFETIME)
    changes = {"BATCH_QUERY_MEMORY": options.memory, "DEMO": 1}
    with product(scenarios, KERNEL, **changes) as copy:
        manage(copy, "prepare")
        if options.rows:
            run_before(copy)  # the log's rule comes first
            seconds = fill_log(copy, reports, options.assets)
            say(f"  log written in {seconds:.0f} s; database from the kernel's records")
            write_rows(copy)
        else:
            write_by_job(copy, reports, options.assets)
        measured = reconcile(copy, options, reports)
    return rows_of(measured, options), [asdict(measured)]


def fill_log(copy: Product, reports: int, assets: int) -> float:
    """Append the reports; returns the seconds that it took."""
    topic = copy.topics.reports(SCENARIO)
    return fill(copy.bus, topic, backlog(reports, assets), reports)


def write_by_job(copy: Product, reports: int, assets: int) -> None:
    """Have job and materialiser write the database. Raises BenchProblem."""
    fill_log(copy, reports, assets)
    begun = time.monotonic()
    beats = Beats(copy)
    copy.start("materialiser", str(ROOT / "manage.py"), "materialise")
    copy.start_job()
    copy.wait(lambda: beats.look() and beats.assets() >= assets, 3600, "the job", beats.progress)
    beats.check(KERNEL)
    beats.close()
    refuse_dead_letters(copy)
    wait_for_database(copy, 7200)
    say(f"  job and materialiser were done after {time.monotonic() - begun:.0f} s")


def write_rows(copy: Product) -> None:
    """Write the database from the kernel's records. Raises BenchProblem."""
    begun = time.monotonic()
    process = copy.start("rows", "-m", "bench.kernel_rows")
    if process.wait():
        raise BenchProblem(f"no rows were written\n{copy.tail('rows')}")
    copy.forget("rows")
    say(f"  database written in {time.monotonic() - begun:.0f} s")


def manage(copy: Product, *arguments: str) -> None:
    """Run a command of `manage.py` to its end. Raises BenchProblem."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=copy.folder,
        env=copy.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchProblem(f"manage.py {' '.join(arguments)} failed: {done.stderr[-2000:]}")


def reconcile(copy: Product, options: argparse.Namespace, reports: int) -> Reconciled:
    """Run the command, and watch its processes. Raises BenchProblem where it finds a difference."""
    begun = time.monotonic()
    command = [sys.executable, str(ROOT / "manage.py"), "reconcile", "--json", f"--{options.fold}"]
    answer = copy.folder / "reconciled.json"
    with answer.open("wb") as out, copy.log("reconcile").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=copy.folder, env=copy.environment(), stdout=out, stderr=log
        )
    memory, cpu, disk = 0.0, 0.0, 0
    while process.poll() is None:
        memory = max(memory, memory_mb(process.pid))
        cpu = max(cpu, cpu_seconds(process.pid))
        disk = max(disk, disk_bytes(copy.folder / "reconcile"))
        time.sleep(LOOK_S)
    seconds = time.monotonic() - begun
    if process.returncode:
        raise BenchProblem(f"reconcile: exit {process.returncode}\n{copy.tail('reconcile')}")
    result: dict[str, Any] = msgspec.json.decode(answer.read_bytes())
    say(copy.tail("reconcile"))
    if result["compared"] < options.assets:
        raise BenchProblem(f"reconcile compared {result['compared']:,} assets, no more")
    return Reconciled(
        options.assets, reports, options.fold, options.rows, seconds, cpu, memory, disk,
        result["records"], result["compared"],
    )  # fmt: skip


def rows_of(measured: Reconciled, options: argparse.Namespace) -> list[Row]:
    """Return the table's rows."""
    sizes = [f"--assets={measured.assets}", f"--reports={measured.reports}"]
    more = [f"--fold={measured.fold}", *(["--rows"] if measured.rows else [])]
    command = module_command("reconcile", *sizes, *more, f"--memory={options.memory}")
    what = f"{measured.assets:,} assets, {measured.reports:,} reports, {measured.fold} fold"
    figures = {
        ("", "min"): measured.s / 60,
        (": processor time", "min"): measured.cpu_s / 60,
        (": memory at most", "MB"): measured.memory_mb,
        (": files at most", "GB"): measured.disk / 1e9,
    }
    return [
        Row(what + name, unit, {"": figure}, command=command)
        for (name, unit), figure in figures.items()
    ]


if __name__ == "__main__":
    main()
