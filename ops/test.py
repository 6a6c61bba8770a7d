"""`make test`: run one pytest process per stage, and print a summary.

A plain run is the gate for each change: it covers every promise, every feature and every kind of
fault once, in some 13 minutes on two quiet cores. It leaves out tests marked `extensive`; each of
these names the test that guards its promise in the gate. It takes a sample of many similar cases,
and tries fewer generated examples. `make test-all` runs all of them, and adds a stage of trials:
the tests marked `long`, wherever they are. `make test-changed` runs the tests of what has changed.

What the stages need beyond Python is installed at a low priority while the first ones run. In
continuous integration (`CI` is set) a stage far above its budget fails the run, on a quiet machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ops.changed_tests import affected_tests
from ops.machine_load import QUIET_CORES, busy_cores

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "test-results"
NO_TESTS = 5


@dataclass(frozen=True)
class TestStage:
    """Tests of one directory, run in their own pytest process.

    folder: below tests/. holds: a description for people. plain_s, whole_s: seconds that a plain
    and a whole run take on two quiet cores, as measured. needs: what `ops.prerequisites` is to
    ensure. long: whether the stage instead runs the tests marked `long` from all directories.
    """

    folder: str
    holds: str
    plain_s: int
    whole_s: int
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    long: bool = False

    @property
    def name(self) -> str:
        """The name of the stage: the last part of its folder."""
        return self.folder.rpartition("/")[2]

    def tests(self, *, whole: bool) -> tuple[str, ...]:
        """Return the arguments that select its tests. whole: every case and every example."""
        if self.long:
            return ("tests", "-m", "long")
        return (f"tests/{self.folder}", *(WHOLE if whole else ()))

    def seconds(self, *, whole: bool) -> int:
        """Return the number of seconds that the stage may take."""
        return self.whole_s if whole else self.plain_s


WHOLE = ("-m", "not long", "--hypothesis-profile=full")
"""Every case except the trials, and every example; see `tests/support/run/selection.py`."""


THREE = ("-n", "3", "--dist", "worksteal")
"""Workers with separate processes: while one waits for a start or an end, others work."""

FOUR_FILES = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
"""Workers that are given a whole file at a time: its tests share processes that take long to start.
"""

ONE_BY_ONE = ("-n", "3", "--dist", "load", "--maxschedchunk", "1")
"""Also three workers, each of which is given one test at a time: they share what they look at."""

NO_BROWSER = ("-p", "no:playwright")
"""This plugin takes seconds to load in every worker, and empties a directory for its pictures."""

UNLOADED = ("-p", "no:schemathesis", *NO_BROWSER)
"""Plugins that take seconds to load."""

PICTURES = ("--output", str(RESULTS / "pictures"))
"""The directory for pictures: by default it would be that of the reports."""

SLOWEST = ("--durations=10", "--durations-min=1")
"""Report the slowest tests at the end of each stage."""

STAGES = (
    TestStage("unit", "functions and classes, without a process", 80, 200, (*THREE, *UNLOADED)),
    TestStage("web", "pages, calls and socket messages", 165, 700, (*THREE, *NO_BROWSER)),
    TestStage(
        "integration",
        "a broker, job and kernel against the fold",
        285,
        3000,
        (*FOUR_FILES, *UNLOADED),
        needs=("java", "redis"),
    ),
    TestStage(
        "e2e",
        "the product is killed and started, and looked at in Chromium",
        240,
        2500,
        (*ONE_BY_ONE, *PICTURES),
        needs=("java", "browser"),
    ),
)
TRIALS = TestStage(
    "trials",
    "what takes minutes",
    1800,
    1800,
    ("-v", *PICTURES),
    needs=("java", "redis", "browser"),
    long=True,
)
"""Tests that take minutes.

They run one after the other, so that each has the machine to itself, and each is named when it
starts.
"""


@dataclass(frozen=True)
class Count:
    """The results of a stage's tests. An error counts as a failure."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    why_skipped: tuple[str, ...] = ()

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            tuple(sorted({*self.why_skipped, *other.why_skipped})),
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


SLOW = 1.5
"""A stage that takes more than this multiple of its seconds is slow; machines are noisy."""


@dataclass(frozen=True)
class Outcome:
    """The result of a stage. took, expected: in seconds. load: busy cores beside it."""

    name: str
    count: Count
    took: float
    expected: int
    load: float = 0.0

    @property
    def slow(self) -> bool:
        """Whether it took far more than its budget, though the machine was quiet."""
        return self.took > SLOW * self.expected and self.load <= QUIET_CORES

    @property
    def timing(self) -> str:
        """The time taken and the time allowed, marked if it is far above."""
        share = self.took / self.expected
        mark = f"  <== SLOW: {share:.0%} of its budget" if share > SLOW else ""
        busy = f", {self.load:.1f} cores busy beside it" if self.load > QUIET_CORES else ""
        return f"{self.took:.0f} s, of {self.expected} s expected{mark}{busy}"


class Prerequisites:
    """What the chosen stages need, installed by a process of low priority beside the first ones."""

    def __init__(self, stages: Iterable[TestStage], log: Path) -> None:
        names = {name for stage in stages for name in stage.needs}
        command = [sys.executable, "-m", "ops.prerequisites", *sorted(names)]
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["nice", "-n", "3", *command] if names else ["true"],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def problem(self, stage: TestStage) -> str | None:
        """Wait for what a stage needs; return what is missing, or None."""
        if not stage.needs:
            return None
        if self._process.poll() is None:
            print(f"== {stage.name}: waiting for what it needs ({self._log})", flush=True)
        if self._process.wait() == 0:
            return None
        return self._log.read_text(errors="replace").strip().rpartition("\n")[2]


def read_count(report: Path, returncode: int) -> Count:
    """Return the counts in pytest's JUnit report.

    A stage that failed without a failed test counts as one failure.
    """
    count = Count()
    if report.exists():
        for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314
            numbers = {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors")}
            failed, skipped = numbers["failures"] + numbers["errors"], int(suite.get("skipped", 0))
            why = {each.get("message", "") for each in suite.iter("skipped")}
            passed = max(0, numbers["tests"] - failed - skipped)
            count += Count(passed, failed, skipped, tuple(sorted(why)))
    broken = returncode not in (0, NO_TESTS) and not count.failed
    return count + Count(failed=1) if broken else count


def run_stage(stage: TestStage, arguments: Sequence[str], *, whole: bool) -> Outcome:
    """Run one stage with these arguments of pytest, and return its result."""
    load = busy_cores()
    begun = time.monotonic()
    count = run_pytest(stage, (*arguments, *stage.options, *SLOWEST))
    took = time.monotonic() - begun
    outcome = Outcome(stage.name, count, took, stage.seconds(whole=whole), max(load, busy_cores()))
    print(f"== {stage.name}: {count} in {outcome.timing}", flush=True)
    return outcome


def run_pytest(stage: TestStage, arguments: Sequence[str]) -> Count:
    """Run pytest with output to this terminal; return the counts."""
    report = RESULTS / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *arguments, f"--junitxml={report}"]
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile all code again
    print(f"== {stage.name}: {' '.join(command[1:])}", flush=True)
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return read_count(report, done.returncode)


def choose(names: Sequence[str]) -> list[TestStage]:
    """Return the stages with these names, in order; see `main`.

    Raises SystemExit for an unknown name.
    """
    every = [*STAGES, TRIALS]
    unknown = {*names} - {stage.name for stage in every} - {"all", "changed"}
    if unknown:
        known = ", ".join(stage.name for stage in every)
        sys.exit(
            f"test: no stage {', '.join(sorted(unknown))}; there are {known}, and all, changed"
        )
    named = [stage for stage in every if stage.name in names]
    return named or (every if "all" in names else list(STAGES))


def main(arguments: list[str]) -> int:
    """Run the named stages: by default all except the trials; with `all`, these too and all cases.

    With `all` and names, run only these stages with all cases; with `changed`, only the tests of
    what has changed. Return 1 if anything failed.
    """
    names = [argument for argument in arguments if not argument.startswith("-")]
    extra = [argument for argument in arguments if argument.startswith("-")]
    whole, chosen = "all" in names, choose(names)
    selected = {stage.name: stage.tests(whole=whole) for stage in chosen}
    if "changed" in names:
        selected = changed(chosen)
        chosen = [stage for stage in chosen if stage.name in selected]
    RESULTS.mkdir(exist_ok=True)
    print(announce(chosen, whole=whole), flush=True)
    prerequisites = Prerequisites(chosen, RESULTS / "prerequisites.log")
    outcomes = []
    for at, stage in enumerate(chosen, 1):
        print(f"\n== stage {at} of {len(chosen)}: {stage.name}, {stage.holds}", flush=True)
        problem = prerequisites.problem(stage)
        if problem:
            print(f"== {stage.name}: {problem}", flush=True)
            outcomes.append(Outcome(stage.name, Count(failed=1), 0, stage.seconds(whole=whole)))
        else:
            outcomes.append(run_stage(stage, (*selected[stage.name], *extra), whole=whole))
    return sum_up(outcomes, strict="CI" in os.environ)


def changed(stages: Iterable[TestStage]) -> dict[str, tuple[str, ...]]:
    """Return the tests of what has changed, by the stages that have some."""
    files = affected_tests(ROOT)
    by_stage = {
        stage.name: tuple(file for file in files if file.startswith(f"tests/{stage.folder}/"))
        for stage in stages
    }
    return {name: tests for name, tests in by_stage.items() if tests}


def sum_up(outcomes: Sequence[Outcome], *, strict: bool = False) -> int:
    """Print the time of each stage, why tests were skipped, and how many passed.

    Return 1 if anything failed; strict: also if a stage was slow on a quiet machine.
    """
    count = sum((each.count for each in outcomes), Count())
    both = sum(each.took for each in outcomes), sum(each.expected for each in outcomes)
    print()
    for each in (*outcomes, Outcome("all stages", count, *both)):
        print(f"== {each.name}: {each.timing}")
    for why in count.why_skipped:
        print(f"== skipped: {why}")
    slow = [each.name for each in outcomes if each.slow] if strict else []
    for name in slow:
        print(f"== FAILED: {name} took more than {SLOW:g} times its budget on a quiet machine")
    print(count)
    return 1 if count.failed or slow else 0


def announce(chosen: Sequence[TestStage], *, whole: bool) -> str:
    """Return one line that says what will be run, and how long that should take."""
    if not chosen:
        return "== nothing has changed that a test reads"
    expected = sum(stage.seconds(whole=whole) for stage in chosen)
    names = ", ".join(stage.name for stage in chosen)
    about = f"{expected} s" if expected < 100 else f"{expected / 60:.0f} minutes"
    return f"== {'all cases' if whole else 'a spread of cases'} of {names}, budgeted at {about}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
