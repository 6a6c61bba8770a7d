"""Java archives that only tests of storages need: `.jars/tests`, held to a lock of their own."""

from __future__ import annotations

import hashlib
import sys
import tempfile
import tomllib
from pathlib import Path

from config.archives import compare, file_name, read_lock
from config.java import JavaProblem
from ops.jars import JarGroup, JarPins, JarsProblem, retrieve
from ops.jars_lock import as_toml, registry_digests

HERE = Path(__file__).resolve().parent
PINS, LOCK = HERE / "jars.toml", HERE / "jars.lock"
HEAD = "# Made by support.spark.storages.archives: the SHA-256 of every archive of these tests.\n"


def _pins() -> JarPins:
    raw = PINS.read_bytes()
    groups = tuple(
        JarGroup(name, tuple(entry["modules"]), tuple(entry["exclude"]))
        for name, entry in tomllib.loads(raw.decode()).items()
    )
    return JarPins("", groups, hashlib.sha256(raw).hexdigest())


def archives(group: str, jars_dir: Path) -> list[Path]:
    """A group's archives, fetched where they are not there (70 MB), and held to the lock."""
    pins = _pins()
    home = jars_dir / "tests" / pins.digest[:16]
    if not home.is_dir():
        home.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetch-") as name:
            retrieve(pins, Path(name), print)
            Path(name, "jars").rename(home)
    locked = read_lock(LOCK).get(group, {})
    compare(home / group, {file_name(key): digest for key, digest in locked.items()})
    return sorted((home / group).glob("*.jar"))


def main() -> None:
    """Write `jars.lock` anew."""
    try:
        lock = registry_digests(_pins(), print)
    except (JarsProblem, JavaProblem) as problem:
        sys.exit(f"archives of tests: {problem}")
    LOCK.write_text(as_toml(lock, HEAD))


if __name__ == "__main__":
    main()
