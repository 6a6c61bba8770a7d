"""`make test`: run one pytest process per stage, and print a summary.

A plain run is the gate for each change: it covers every promise, every feature and every kind of
fault once, within twelve minutes. It leaves out tests marked `extensive`; each of these names the
test that guards its promise in the gate. It takes a sample of many similar cases, and tries fewer
generated examples. `make test-all` runs all of them, and adds a stage of trials: the tests marked
`long`, wherever they are.

Where a stage with real processes fails in at most three tests, these run once more, one after the
other: on a shared machine a deadline may pass for want of a processor. A test that fails twice
fails the run; one that passes alone is named in the last lines, so that it is mended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from config.java import JavaProblem
from ops import class_archive
from ops.jars import JarsProblem, fetch
from ops.kernel_build import KernelBuildProblem, build

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "test-results"
NO_TESTS = 5
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class TestStage:
    """Tests of one directory, run in their own pytest process.

    folder: below tests/. holds: a description for people. plain_s, whole_s: seconds that a plain
    and a whole run may take on two quiet cores. long: whether the stage instead runs the tests
    marked `long` from all directories.
    """

    folder: str
    holds: str
    plain_s: int
    whole_s: int
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
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


TWO = ("-n", "2", "--dist", "worksteal")
THREE = ("-n", "3", "--dist", "worksteal")
FOUR = ("-n", "4", "--dist", "worksteal")
"""Workers with separate processes: while one waits for a start or an end, others work."""

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

BROWSING = {"DJANGO_ALLOW_ASYNC_UNSAFE": "1"}

STAGES = (
    TestStage("unit", "functions and classes, without a process", 45, 110, (*TWO, *UNLOADED)),
    TestStage("web", "pages, calls and socket messages", 150, 300, (*TWO, *NO_BROWSER)),
    TestStage(
        "integration/kafka", "a broker, and what lives with it", 130, 430, (*FOUR, *UNLOADED)
    ),
    TestStage("integration/spark", "job and kernel against the fold", 210, 900, (*TWO, *UNLOADED)),
    TestStage(
        "e2e/browser", "the product in Chromium", 130, 900, (*ONE_BY_ONE, *PICTURES), BROWSING
    ),
    TestStage("e2e/faults", "the product is killed and started", 45, 280, (*TWO, *UNLOADED)),
)
TRIALS = TestStage(
    "trials", "what takes minutes", 1800, 1800, ("-v", *PICTURES), BROWSING, long=True
)
"""Tests that take minutes.

They run one after the other, so that each has the machine to itself, and each is named when it
starts.
"""


BROWSE = ("browser", "trials")
CACHES = ("kafka", "trials")
"""Stages with tests of the cache in Redis."""
WITHOUT_JAVA = ("unit", "web")
"""Stages without real processes: units first, then every page, call and socket message."""


ALONE_AT_MOST = 3
"""Failed tests that are run once more; more of them are no accident."""


@dataclass(frozen=True)
class Count:
    """The results of a stage's tests. An error counts as a failure.

    unsteady: tests that failed among others and passed alone; they count as passed.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    why_skipped: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            tuple(sorted({*self.why_skipped, *other.why_skipped})),
            (*self.unsteady, *other.unsteady),
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


SLOW = 1.2
"""A stage that takes more than this multiple of its seconds is reported; machines are noisy."""


@dataclass(frozen=True)
class Outcome:
    """The result of a stage. took, expected: in seconds."""

    name: str
    count: Count
    took: float
    expected: int

    @property
    def timing(self) -> str:
        """The time taken and the time allowed, marked if it is far above."""
        share = self.took / self.expected
        mark = f"  <== SLOW: {share:.0%} of its budget" if share > SLOW else ""
        return f"{self.took:.0f} s, of {self.expected} s expected{mark}"


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


def run_stage(stage: TestStage, extra: Sequence[str], *, whole: bool) -> Outcome:
    """Run one stage, with output to this terminal, and return its result."""
    begun = time.monotonic()
    count = run_pytest(stage, (*stage.tests(whole=whole), *stage.options, *SLOWEST, *extra))
    if 0 < count.failed <= ALONE_AT_MOST and stage.name not in WITHOUT_JAVA:
        count = run_alone(stage, count, extra, whole=whole)
    took = time.monotonic() - begun
    outcome = Outcome(stage.name, count, took, stage.seconds(whole=whole))
    print(f"== {stage.name}: {count} in {outcome.timing}", flush=True)
    return outcome


def run_pytest(stage: TestStage, arguments: Sequence[str], report_name: str = "") -> Count:
    """Run pytest with a stage's environment, and return the counts."""
    report = RESULTS / f"{report_name or stage.name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *arguments, f"--junitxml={report}"]
    environment = {**os.environ, **stage.environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile all code again
    print(f"== {stage.name}: {' '.join(command[1:])}", flush=True)
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return read_count(report, done.returncode)


LAST_FAILED = ("--last-failed", "--last-failed-no-failures=none", "-n", "0")


def run_alone(stage: TestStage, first: Count, extra: Sequence[str], *, whole: bool) -> Count:
    """Run a stage's failed tests once more, one after the other; return the counts of both runs.

    The first run stands where the second did not run just as many tests.
    """
    failed = failed_in(RESULTS / f"{stage.name}.xml")
    print(f"== {stage.name}: alone once more: {', '.join(failed)}", flush=True)
    options = (*stage.options, *LAST_FAILED, *extra)
    name = f"{stage.name}-alone"
    again = run_pytest(stage, (*stage.tests(whole=whole), *options), name)
    if again.skipped or again.passed + again.failed != first.failed:
        return first
    still = failed_in(RESULTS / f"{name}.xml")
    return replace(
        first,
        passed=first.passed + again.passed,
        failed=again.failed,
        unsteady=tuple(each for each in failed if each not in still),
    )


def failed_in(report: Path) -> list[str]:
    """Return the names of the tests that failed, from pytest's JUnit report, sorted."""
    if not report.exists():
        return []
    cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314
    return sorted(
        {
            f"{case.get('classname')}::{case.get('name')}"
            for case in cases
            if case.find("failure") is not None or case.find("error") is not None
        }
    )


def find_browser() -> str | None:
    """Return the Chromium to test with, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def ensure_package(package: str, programs: Sequence[str]) -> bool:
    """Install Debian's package if none of its programs exists and this user may.

    Return whether one exists now.
    """
    if any(map(shutil.which, programs)):
        return True
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"== installing Debian's package {package}", flush=True)
        for command in (["apt-get", "-q", "update"], ["apt-get", "-qy", *INSTALL, package]):
            subprocess.run(command, env={**os.environ, **QUIET_APT}, check=False)
    return any(map(shutil.which, programs))


INSTALL = ("install", "--no-install-recommends")
QUIET_APT = {"DEBIAN_FRONTEND": "noninteractive"}


def ensure_needs(stage: TestStage) -> str | None:
    """Install what a stage needs beyond Python. Return a message on failure."""
    if stage.name in CACHES:  # without it, its tests are skipped, and the summary says so
        ensure_package("redis-server", ["redis-server"])
    if stage.name in BROWSE and not ensure_package("chromium", BROWSERS):
        return "no Chromium: install the package chromium, then run make test again"
    if stage.name not in WITHOUT_JAVA:
        try:
            fetch(ROOT / ".jars", print)
            build(ROOT / ".jars")
            class_archive.build(ROOT / ".jars", lambda text: print(f"classes: {text}", flush=True))
        except class_archive.ClassesProblem as problem:
            print(f"classes: {problem}; jobs will start more slowly", flush=True)
        except (JarsProblem, JavaProblem, KernelBuildProblem) as problem:
            return str(problem)
    return None


def choose(names: Sequence[str]) -> list[TestStage]:
    """Return the stages with these names, in order; see `main`.

    Raises SystemExit for an unknown name.
    """
    every = [*STAGES, TRIALS]
    unknown = {*names} - {stage.name for stage in every} - {"all"}
    if unknown:
        known = ", ".join(stage.name for stage in every)
        sys.exit(f"test: no stage {', '.join(sorted(unknown))}; there are {known}, and all")
    if set(names) == {"all"}:
        return every
    return [stage for stage in every if stage.name in names] if names else list(STAGES)


def main(arguments: list[str]) -> int:
    """Run the named stages: by default all except the trials; with `all`, these too and all cases.

    With `all` and names, run only these stages with all cases. Return 1 if anything failed.
    """
    names = [argument for argument in arguments if not argument.startswith("-")]
    extra = [argument for argument in arguments if argument.startswith("-")]
    whole, chosen = "all" in names, choose(names)
    RESULTS.mkdir(exist_ok=True)
    print(announce(chosen, whole=whole), flush=True)
    outcomes = []
    for at, stage in enumerate(chosen, 1):
        print(f"\n== stage {at} of {len(chosen)}: {stage.name}, {stage.holds}", flush=True)
        problem = ensure_needs(stage)
        if problem:
            print(f"== {stage.name}: {problem}", flush=True)
            outcomes.append(Outcome(stage.name, Count(failed=1), 0, stage.seconds(whole=whole)))
        else:
            outcomes.append(run_stage(stage, extra, whole=whole))
    return sum_up(outcomes)


def sum_up(outcomes: Sequence[Outcome]) -> int:
    """Print the time of each stage, why tests were skipped, which passed alone only, and how many.

    Return 1 if anything failed.
    """
    count = sum((each.count for each in outcomes), Count())
    both = sum(each.took for each in outcomes), sum(each.expected for each in outcomes)
    print()
    for each in (*outcomes, Outcome("all stages", count, *both)):
        print(f"== {each.name}: {each.timing}")
    for why in count.why_skipped:
        print(f"== skipped: {why}")
    for test in count.unsteady:
        print(f"== UNSTEADY, passed alone only: {test}")
    print(count)
    return 1 if count.failed else 0


def announce(chosen: Sequence[TestStage], *, whole: bool) -> str:
    """Return one line that says what will be run, and how long that should take."""
    expected = sum(stage.seconds(whole=whole) for stage in chosen)
    names = ", ".join(stage.name for stage in chosen)
    about = f"{expected} s" if expected < 100 else f"{expected / 60:.0f} minutes"
    return f"== {'all cases' if whole else 'a spread of cases'} of {names}, budgeted at {about}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
