"""The Java that runs Spark and the embedded broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

OLDEST = 17


class JavaProblem(Exception):
    """No usable Java; the message says what to install."""


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the `java` to run: of JAVA_HOME, else of the PATH.

    Raises JavaProblem when there is none, or one older than Java 17.
    """
    home = environ.get("JAVA_HOME")
    named = Path(home, "bin", "java") if home else None
    if named and not named.exists():
        raise JavaProblem(f"JAVA_HOME is {home}, and {named} is not there: correct or unset it.")
    found = named or shutil.which("java", path=environ.get("PATH"))
    if not found:
        raise JavaProblem(
            f"Java is missing: install Java {OLDEST} or newer (on Debian: openjdk-17-jre-headless)."
        )
    _check_version(Path(found))
    return Path(found)


def _check_version(java: Path) -> None:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = java_major(answer.stderr + answer.stdout)
    if version is None:
        raise JavaProblem(f"{java} -version does not name a version: install Java {OLDEST}.")
    if version < OLDEST:
        raise JavaProblem(f"{java} is Java {version}: Java {OLDEST} or newer is needed.")


def java_major(text: str) -> int | None:
    """Read the major version out of what `java -version` prints; None when there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None
