"""The Java of all that runs in a JVM: the broker, Spark, and what prepares them.

Standard library alone: the set-up asks for it before there is an environment.
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

# Major versions on which PySpark 4.3 and Kafka 4.3 run.
SUPPORTED = range(17, 22)
WANTED = f"Java {SUPPORTED[0]} to {SUPPORTED[-1]}"
ENVIRONMENT = Path(sys.prefix)


class JavaProblem(Exception):
    """No usable Java; the message says what was looked at, and what to do."""


class NoJava(JavaProblem):
    """Nothing names a Java, and none that is supported was found."""


def find_java(environ: Mapping[str, str] = os.environ, environment: Path = ENVIRONMENT) -> Path:
    """Return the `java` to run: of JAVA_HOME, else of the PATH, else the environment's own.

    One of the PATH that is not supported is passed over. Raises JavaProblem for a JAVA_HOME that
    has no supported Java, NoJava when there is none at all.
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
        f"{WANTED} is missing: {', '.join(problems)}. Run make setup, which brings one, or install "
        "one (on Debian: openjdk-17-jre-headless)."
    )


def check_java_home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the `java` of JAVA_HOME; None where it is not set.

    Raises JavaProblem where it is not there, or not supported.
    """
    home = environ.get("JAVA_HOME")
    if not home:
        return None
    java = Path(home, "bin", "java")
    if problem := _problem(java):
        raise JavaProblem(
            f"JAVA_HOME is {home}, and {problem}: set it to {WANTED}, or unset it and run "
            "make setup."
        )
    return java


def own_java(environment: Path = ENVIRONMENT) -> Path:
    """Return where the set-up puts the environment's own `java` when it finds no other."""
    return environment / "java" / "bin" / "java"


def set_java_home(environ: MutableMapping[str, str] = os.environ) -> None:
    """Have JAVA_HOME name the environment's own Java, if that is the one to run.

    For Spark's launcher, which looks at JAVA_HOME and the PATH. Raises JavaProblem.
    """
    if find_java(environ) == own_java():
        environ["JAVA_HOME"] = str(own_java().parent.parent)


def java_version(java: Path) -> str:
    """Return what `java -version` prints. Raises OSError when it cannot be run."""
    return _version(java, java.stat().st_mtime_ns)


@cache  # a process asks more than once, and each answer is the start of a JVM
def _version(java: Path, _changed_ns: int) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return done.stderr + done.stdout


def java_major(text: str) -> int | None:
    """Read the major version out of what `java -version` prints; None when there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _problem(java: Path) -> str | None:
    """Say why a `java` cannot be used; None when it can."""
    try:
        major = java_major(java_version(java))
    except FileNotFoundError:
        return f"{java} is not there"
    except OSError as error:
        return f"{java} cannot be run ({error.strerror})"
    if major is None:
        return f"{java} -version does not name a version"
    return None if major in SUPPORTED else f"{java} is Java {major}"
