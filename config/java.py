"""Find the Java for everything that runs in a JVM: the broker, Spark, and the tools around them.

Uses only the standard library: the set-up runs this before there is an environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from functools import cache
from pathlib import Path

# Major versions supported by PySpark 4.3 and Kafka 4.3.
SUPPORTED = range(17, 22)
NEEDED = f"Java {SUPPORTED[0]} to {SUPPORTED[-1]}"
ENVIRONMENT = Path(sys.prefix)


class JavaProblem(Exception):
    """No usable Java; the message says what was checked, and what to do."""


class NoJava(JavaProblem):
    """No Java is configured, and no supported one was found."""


def find_java(environ: Mapping[str, str] = os.environ, environment: Path = ENVIRONMENT) -> Path:
    """Return the `java` to run: from JAVA_HOME, else from the PATH, else the environment's own.

    An unsupported one on the PATH is skipped. Raises JavaProblem if JAVA_HOME has no supported
    Java, and NoJava if there is none at all.
    """
    if named := check_java_home(environ):
        return named
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    problems = ["JAVA_HOME is not set", *([] if on_path else ["the PATH has no java"])]
    for java in (Path(on_path) if on_path else None, own_java(environment)):
        if java and (problem := _problem(java)):
            problems.append(problem)
        elif java:
            return java
    raise NoJava(
        f"{NEEDED} is missing: {', '.join(problems)}. Run make setup, which brings one, or install "
        "one (on Debian: openjdk-17-jre-headless)."
    )


def check_java_home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the `java` in JAVA_HOME, or None if that is not set.

    Raises JavaProblem if it does not exist or is not supported.
    """
    home = environ.get("JAVA_HOME")
    if not home:
        return None
    java = Path(home, "bin", "java")
    if problem := _problem(java):
        raise JavaProblem(
            f"JAVA_HOME is {home}, and {problem}: set it to {NEEDED}, or unset it and run "
            "make setup."
        )
    return java


def own_java(environment: Path = ENVIRONMENT) -> Path:
    """Return where the set-up installs the environment's own `java` if it finds no other."""
    return environment / "java" / "bin" / "java"


def set_java_home(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set JAVA_HOME to the environment's own Java, if that is the one to run.

    This is for Spark's launcher, which checks JAVA_HOME and the PATH. Raises JavaProblem.
    """
    if find_java(environ) == own_java():
        environ["JAVA_HOME"] = str(own_java().parent.parent)


def java_version(java: Path) -> str:
    """Return the output of `java -version`. Raises OSError if it cannot be run."""
    return _version(java, java.stat().st_mtime_ns)


@cache  # a process asks repeatedly, and each answer means starting a JVM
def _version(java: Path, _changed_ns: int) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return done.stderr + done.stdout


def java_major(text: str) -> int | None:
    """Return the major version in the output of `java -version`, or None if there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _problem(java: Path) -> str | None:
    """Return why a `java` cannot be used, or None if it can."""
    try:
        major = java_major(java_version(java))
    except FileNotFoundError:
        return f"{java} is not there"
    except OSError as error:
        return f"{java} cannot be run ({error.strerror})"
    if major is None:
        return f"{java} -version does not name a version"
    return None if major in SUPPORTED else f"{java} is Java {major}"
