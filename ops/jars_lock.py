"""Rewrite `ops/jars.lock` from the registry and from the PySpark that pip has verified.

Run `make jars-lock` after changing ops/jars.toml or PySpark's version.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from config.archives import LOCK, PYSPARK, ArchivesProblem, digests, pyspark_jars, read_lock
from config.java import JavaProblem
from ops.jars import JarPins, JarsProblem, read_pins, retrieve

Lock = Mapping[str, Mapping[str, str]]

HEAD = """\
# Made by make jars-lock: the SHA-256 of every Java archive that the product loads.
"""


def registry_digests(pins: JarPins, say: Callable[[str], None]) -> dict[str, dict[str, str]]:
    """Fetch every pinned archive; return SHA-256 by group and module.

    Raises JarsProblem or JavaProblem.
    """
    with tempfile.TemporaryDirectory(prefix="tallyboard-jars-") as name:
        retrieve(pins, Path(name), say, name="[organisation]@[artifact]@[revision].[ext]")
        return {
            group.name: {
                file.removesuffix(".jar").replace("@", ":"): digest
                for file, digest in digests(Path(name, "jars", group.name)).items()
            }
            for group in pins.groups
        }


def as_toml(lock: Lock, head: str = HEAD) -> str:
    """Return the text of a lock file. head: its first line, a comment."""
    return "\n".join([head.rstrip(), *_lines(lock), ""])


def _lines(lock: Lock) -> Iterator[str]:
    for group, digests_of in lock.items():
        yield f"\n[{group}]"
        yield from (f'"{key}" = "{digest}"' for key, digest in sorted(digests_of.items()))


def changes(old: Lock, new: Lock) -> Iterator[str]:
    """Yield the differences between two locks, one line each."""
    for group in sorted({*old, *new}):
        before, after = old.get(group, {}), new.get(group, {})
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                yield f"{group} {key}: {before.get(key, 'new')} -> {after.get(key, 'gone')}"


def main() -> None:
    """Write the lock, and print what has changed in it."""
    try:
        new = registry_digests(read_pins(), _say) | {PYSPARK: digests(pyspark_jars())}
    except (JarsProblem, JavaProblem) as problem:
        sys.exit(f"jars: {problem}")
    for line in changes(_old(), new):
        _say(line)
    LOCK.write_text(as_toml(new))
    _say(f"{sum(map(len, new.values()))} archives in {LOCK}")


def _old() -> Lock:
    try:
        return read_lock()
    except ArchivesProblem:
        return {}


def _say(text: str) -> None:
    print(f"jars: {text}", flush=True)


if __name__ == "__main__":
    main()
