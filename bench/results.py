"""Results of a bench as a file: figures with their targets, and where and when they were taken."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from bench.busyness import Busy, Watch
from bench.stack import JARS, ROOT
from config.java import find_java, java_major, java_version

FOLDER = ROOT / "bench" / "results"


class Row(msgspec.Struct, frozen=True):
    """One row. `figures`: by engine; `target`: at least that where `more` is better, else at most.

    command: gives this row alone.
    """

    what: str
    unit: str
    figures: dict[str, float]
    target: float | None = None
    more: bool = False
    command: str = ""


class Machine(msgspec.Struct, frozen=True):
    """Where figures were taken. Loads: of the last minute, before and after.

    others: the part of the processors' time that processes beside the bench took, per cent;
    others_most: the same in the busiest five seconds. None: from before that was measured.
    """

    processor: str
    cores: int
    memory_gb: float
    system: str
    load_before: float
    load_after: float
    others: float | None = None
    others_most: float | None = None


class Result(msgspec.Struct, frozen=True):
    """One run of a bench; `runs`: everything that was measured, for who wants more than rows."""

    bench: str
    command: str
    begun: str
    seconds: float
    commit: str
    machine: Machine
    versions: dict[str, str]
    rows: list[Row]
    runs: list[dict[str, Any]] = []


class Clock:
    """Notes down when a run began, and watches how busy the machine is with others meanwhile."""

    def __init__(self) -> None:
        self._at, self._load = datetime.now(UTC), os.getloadavg()[0]
        self._begun, self._watch = time.monotonic(), Watch()

    def result(
        self, bench: str, command: str, rows: list[Row], runs: list[dict[str, Any]]
    ) -> Result:
        """Return the run's result; it ends now."""
        return Result(
            bench=bench,
            command=command,
            begun=self._at.strftime("%Y-%m-%d %H:%M UTC"),
            seconds=round(time.monotonic() - self._begun, 1),
            commit=commit(),
            machine=machine(self._load, self._watch.end()),
            versions=versions(),
            rows=rows,
            runs=runs,
        )


def write(result: Result, folder: Path = FOLDER) -> Path:
    """Keep a result as `<folder>/<bench>.json`, in place of an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.bench}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path


def read(bench: str, folder: Path = FOLDER) -> Result | None:
    """Return the kept result of a bench, or None. Raises msgspec.MsgspecError for anything else."""
    path = folder / f"{bench}.json"
    return msgspec.json.decode(path.read_bytes(), type=Result) if path.exists() else None


def machine(load_before: float, busy: Busy) -> Machine:
    """Return this machine, as it is now. busy: with others, while the bench ran."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        processor=processor(_text(Path("/proc/cpuinfo"))),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(pages / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        load_before=round(load_before, 2),
        load_after=round(os.getloadavg()[0], 2),
        others=busy.mean,
        others_most=busy.most,
    )


def processor(cpuinfo: str) -> str:
    """Return the processor's name in /proc/cpuinfo, else the architecture's."""
    named = (line for line in cpuinfo.splitlines() if line.startswith("model name"))
    return next(named, "").partition(":")[2].strip() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of what the figures rest on."""
    brokers = [jar.stem.rpartition("-")[2] for jar in (JARS / "broker").glob("kafka_2.13-*.jar")]
    return {
        "Python": platform.python_version(),
        "PySpark": version("pyspark"),
        "Java": str(java_major(java_version(find_java()))),
        "Kafka": brokers[0] if brokers else "?",
    }


def commit() -> str:
    """Return the checkout's commit, with `+` where the tree differs from it; `?` outside git."""
    head = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--", ":!bench/results", ":!docs")
    return head + ("+" if changed else "") if head else "?"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
