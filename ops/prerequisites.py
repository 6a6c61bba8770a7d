"""What the tests need beyond Python, installed if it is missing: `python -m ops.prerequisites`.

Its arguments name what is needed: java, browser, redis. Without Redis, tests are skipped, and the
summary says so; what else cannot be had ends the program with a message.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from config.java import JavaProblem
from ops import class_archive
from ops.jars import JarsProblem, fetch
from ops.kernel_build import KernelBuildProblem, build

JARS = Path(__file__).resolve().parent.parent / ".jars"
HEADLESS = "chromium-headless-shell"
"""Debian's Chromium without windows, which takes less than half the processor time."""
BROWSERS = (HEADLESS, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = ("install", "--no-install-recommends")
QUIET_APT = {"DEBIAN_FRONTEND": "noninteractive"}


class Missing(Exception):
    """Something is missing and cannot be installed here; the message says what to do."""


def find_browser() -> str | None:
    """Return the Chromium to test with, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def ensure_browser() -> None:
    """Install Chromium if there is none. Raises Missing."""
    if not ensure_package(HEADLESS, BROWSERS):
        raise Missing(f"no Chromium: install the package {HEADLESS}, then run make test again")


def ensure_redis() -> None:
    """Install Redis if there is none and this user may."""
    ensure_package("redis-server", ["redis-server"])


def ensure_java() -> None:
    """Fetch the Java archives, compile the kernel, write the class archive. Raises Missing."""
    try:
        fetch(JARS, say)
        build(JARS)
        class_archive.build(JARS, lambda text: say(f"classes: {text}"))
    except class_archive.ClassesProblem as problem:
        say(f"classes: {problem}; jobs will start more slowly")
    except (JarsProblem, JavaProblem, KernelBuildProblem) as problem:
        raise Missing(str(problem)) from None


ENSURE: dict[str, Callable[[], None]] = {
    "java": ensure_java,
    "redis": ensure_redis,
    "browser": ensure_browser,
}


def ensure_package(package: str, programs: Sequence[str]) -> bool:
    """Install Debian's package if none of its programs exists and this user may.

    Return whether one exists now.
    """
    if any(map(shutil.which, programs)):
        return True
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing Debian's package {package}")
        for command in (["apt-get", "-q", "update"], ["apt-get", "-qy", *INSTALL, package]):
            subprocess.run(command, env={**os.environ, **QUIET_APT}, check=False)
    return any(map(shutil.which, programs))


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def main(names: Sequence[str]) -> None:
    """Ensure what is named, in the order of `ENSURE`. Exits with a message for what is missing."""
    problems = []
    for name in (each for each in ENSURE if each in names):
        try:
            ENSURE[name]()
        except Missing as missing:
            problems.append(str(missing))
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main(sys.argv[1:])
