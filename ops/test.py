"""`make test`: one pytest process per stage, and last lines that sum them up.

A plain run is the gate of each change: it holds every promise, every feature and every kind of
fault once; its budget is twelve minutes. It leaves out what is marked `extensive`; such a test
names the one that guards its promise in the gate. Of many like cases it takes a spread, and it
tries fewer generated examples. `make test-all` takes all of them, and adds a stage of trials, the
tests that are marked `long`, wherever they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """Tests of one directory, run in a pytest process of their own.

    folder: below tests/. holds: what these tests are, for people. plain_s, whole_s: seconds that
    a plain run and a whole one may take on two quiet cores. long: it has the tests of all
    directories that are marked so, in place of the others.
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
        """Return what the stage is called: the last part of its folder."""
        return self.folder.rpartition("/")[2]

    def tests(self, *, whole: bool) -> tuple[str, ...]:
        """Return what pytest is to collect; whole: every case and every example."""
        if self.long:
            return ("tests", "-m", "long")
        return (f"tests/{self.folder}", *(WHOLE if whole else ()))

    def seconds(self, *, whole: bool) -> int:
        """Return how many seconds it may take."""
        return self.whole_s if whole else self.plain_s


WHOLE = ("-m", "not long", "--hypothesis-profile=full")
"""Every case but the trials, and every example; see `tests/support/run/selection.py`."""


TWO = ("-n", "2", "--dist", "worksteal")
THREE = ("-n", "3", "--dist", "worksteal")
FOUR = ("-n", "4", "--dist", "worksteal")
"""Workers, each with processes of its own: while one waits for a start or an end, others work."""

GROUPS = ("-n", "3", "--dist", "loadgroup")
"""Three workers as well, each with files of its own; what they look at, they share."""

NO_BROWSER = ("-p", "no:playwright")
"""This plugin takes seconds to load, in every worker, and empties a directory for its pictures."""

UNLOADED = ("-p", "no:schemathesis", *NO_BROWSER)
"""Plugins that take seconds to load."""

PICTURES = ("--output", str(RESULTS / "pictures"))
"""That directory: by default it is that of the reports."""

SLOWEST = ("--durations=10", "--durations-min=1")
"""Tell which tests took longest, at the end of each stage."""

BROWSING = {"DJANGO_ALLOW_ASYNC_UNSAFE": "1"}

STAGES = (
    TestStage("unit", "functions and classes, without a process", 45, 110, (*THREE, *UNLOADED)),
    TestStage("web", "pages, calls and socket messages", 150, 300, (*FOUR, *NO_BROWSER)),
    TestStage(
        "integration/kafka", "a broker, and what lives with it", 130, 430, (*FOUR, *UNLOADED)
    ),
    TestStage(
        "integration/spark", "job and kernel against the fold", 210, 900, (*TWO, *UNLOADED)
    ),
    TestStage("e2e/browser", "the product in Chromium", 130, 900, (*GROUPS, *PICTURES), BROWSING),
    TestStage("e2e/faults", "the product is killed and started", 45, 280, (*THREE, *UNLOADED)),
)
TRIALS = TestStage(
    "trials", "what takes minutes", 1800, 1800, ("-v", *PICTURES), BROWSING, long=True
)
"""Tests that take minutes, one after the other, so that each has the machine to itself; each is
named when it begins."""


BROWSE = ("browser", "trials")
CACHES = ("kafka", "trials")
"""Stages with tests of the cache in Redis."""
WITHOUT_JAVA = ("unit", "web")
"""Stages without real processes: units first, then every page, call and socket message."""


@dataclass(frozen=True)
class Count:
    """How a stage's tests ended; an error counts as a failure."""

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


SLOW = 1.2
"""A stage that takes more than so many times its seconds says so; machines are noisy."""


@dataclass(frozen=True)
class Outcome:
    """How a stage ended; took, expected: in seconds."""

    name: str
    count: Count
    took: float
    expected: int

    @property
    def timing(self) -> str:
        """Return its seconds beside those it may take, marked where they are far above."""
        share = self.took / self.expected
        mark = f"  <== SLOW: {share:.0%} of its budget" if share > SLOW else ""
        return f"{self.took:.0f} s, of {self.expected} s expected{mark}"


def read_count(report: Path, returncode: int) -> Count:
    """Read pytest's JUnit report; a stage that failed without a failed test counts as one."""
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
    """Run one stage, its output to this terminal, and return how it ended."""
    report = RESULTS / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *stage.tests(whole=whole), *stage.options, *SLOWEST]
    command += [f"--junitxml={report}", *extra]
    environment = {**os.environ, **stage.environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile all code anew
    begun = time.monotonic()
    print(f"== {stage.name}: {' '.join(command[1:])}", flush=True)
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    count, took = read_count(report, done.returncode), time.monotonic() - begun
    outcome = Outcome(stage.name, count, took, stage.seconds(whole=whole))
    print(f"== {stage.name}: {count} in {outcome.timing}", flush=True)
    return outcome


def find_browser() -> str | None:
    """Return the Chromium to test with, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def ensure_package(package: str, programs: Sequence[str]) -> bool:
    """Install Debian's package where none of its programs is there and this user may.

    Returns whether there is one now.
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
    """Get what a stage needs beyond Python; returns a message when that is not to be had."""
    if stage.name in CACHES:  # without it, its tests are skipped, and the last lines say so
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
    """Return the stages of these names, in their order; see `main`.

    Raises SystemExit for an unknown one.
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
    """Run the named stages (by default all but the trials, with `all` those too, and whole).

    `all` with names: these alone, whole. Returns 1 when anything failed.
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
    """Print the seconds of each stage, why tests were skipped, and the number of tests.

    Returns 1 when anything failed.
    """
    count = sum((each.count for each in outcomes), Count())
    both = sum(each.took for each in outcomes), sum(each.expected for each in outcomes)
    print()
    for each in (*outcomes, Outcome("all stages", count, *both)):
        print(f"== {each.name}: {each.timing}")
    for why in count.why_skipped:
        print(f"== skipped: {why}")
    print(count)
    return 1 if count.failed else 0


def announce(chosen: Sequence[TestStage], *, whole: bool) -> str:
    """Return what will be run, and how long that should take, as one line."""
    expected = sum(stage.seconds(whole=whole) for stage in chosen)
    names = ", ".join(stage.name for stage in chosen)
    about = f"{expected} s" if expected < 100 else f"{expected / 60:.0f} minutes"
    return f"== {'all cases' if whole else 'a spread of cases'} of {names}, budgeted at {about}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
