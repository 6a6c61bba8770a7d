"""Spark's settings of an admin: a file in the form of spark-defaults.conf, read strictly."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

SETTING = "TALLYBOARD_SPARK_CONF"

# Settings of ours that say what a name of Spark's says; every other name that the product sets is
# to be left out.
INSTEAD: Mapping[str, str] = {
    "spark.master": "TALLYBOARD_SPARK_MASTER",
    "spark.driver.memory": "TALLYBOARD_SPARK_MEMORY",
    "spark.ui.port": "TALLYBOARD_SPARK_UI_PORT",
    "spark.ui.enabled": "TALLYBOARD_SPARK_UI_PORT",
    "spark.pyspark.python": "TALLYBOARD_SPARK_PYTHON",
    "spark.authenticate.secret": "TALLYBOARD_SPARK_SECRET_FILE",
    "spark.authenticate.secret.file": "TALLYBOARD_SPARK_SECRET_FILE",
}
# Names that the product sets by other ways than its session's configuration, and whole families.
OURS = (
    *("spark.pyspark.python", "spark.pyspark.driver.python", "spark.submit.deployMode"),
    *("spark.authenticate", "spark.network.crypto", "spark.io.encryption", "spark.plugins"),
    *("spark.tallyboard", "spark.task.cpus", "spark.jars"),
)
# What an admin may add to, though the product sets it too: options of Java.
SHARED = "spark.executor.extraJavaOptions"

_LINE = re.compile(r"(spark\.[A-Za-z0-9_.-]+)(?:\s*=\s*|\s+)(\S.*)")
# Spark's own idea of what is secret.
_SECRET = re.compile(r"(?i)secret|password|passwd|token|access[._-]?key|jaas")
# Names like that whose value is none: where a secret lies.
_REFERENCE = re.compile(r"(?i)secretKeyRef\.|\.secrets\.|file$|path$|provider$")
_SECRET_VALUE = re.compile(r"(?i)-D\S*(secret|password|passwd|token)\S*=")


class SparkConfProblem(Exception):
    """The file of TALLYBOARD_SPARK_CONF cannot be used; the message has file, line and advice."""


def read_conf(path: Path, ours: Collection[str]) -> dict[str, str]:
    """Return the settings of the file. Raises SparkConfProblem.

    ours: the names that the product sets itself.
    """
    settings: dict[str, str] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line or line.startswith("#"):
            continue
        try:
            name, value = _parse(line)
            _check(name, value, ours, settings)
        except SparkConfProblem as problem:
            raise SparkConfProblem(f"{SETTING}: {path}, line {number}: {problem}") from None
        settings[name] = value
    return settings


def with_file(path: Path | None, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the product's settings with those of an admin's file, if any. Raises
    SparkConfProblem."""
    theirs = read_conf(path, ours.keys()) if path else {}
    options = " ".join(conf[SHARED] for conf in (ours, theirs) if SHARED in conf)
    return {**theirs, **ours, **({SHARED: options} if options else {})}


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text("utf-8").splitlines()]
    except OSError as error:
        why = error.strerror or str(error)
        raise SparkConfProblem(f"{SETTING}: {path}: cannot be read: {why}") from None
    except UnicodeDecodeError:
        raise SparkConfProblem(f"{SETTING}: {path}: expected text in UTF-8") from None


def _parse(line: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        name = re.split(r"[\s=:]", line, maxsplit=1)[0]
        raise SparkConfProblem(
            f"{name!r}: expected `spark.name value` or `spark.name=value` in one line"
        )
    if match[2].endswith("\\"):
        raise SparkConfProblem(f"{match[1]}: expected its value in one line, no \\ at its end")
    return match[1], match[2]


def _check(name: str, value: str, ours: Collection[str], before: Collection[str]) -> None:
    """Raise SparkConfProblem for a name that the product sets, for a secret, and for a name that
    came before."""
    if name in before:
        raise SparkConfProblem(f"{name} is there twice: leave one out")
    if name == SHARED:
        if _SECRET_VALUE.search(value):
            raise SparkConfProblem(f"{name} holds a secret, which `ps` would show: {_ELSEWHERE}")
        return
    if setting := INSTEAD.get(name):
        raise SparkConfProblem(f"{name} is set by {setting}: leave it out here")
    if name in ours or any(name == own or name.startswith(f"{own}.") for own in OURS):
        raise SparkConfProblem(f"{name} is set by the product: leave it out")
    if _SECRET.search(name) and not _REFERENCE.search(name):
        raise SparkConfProblem(f"{name} is a secret, and this file holds none: {_ELSEWHERE}")


_ELSEWHERE = (
    "put it in the environment of the job and of the workers, or in a file of credentials "
    "(such as spark.hadoop.hadoop.security.credential.provider.path names)"
)
