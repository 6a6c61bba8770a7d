"""The trusted Java archives: `ops/jars.lock` contains the SHA-256 of each.

The lock has a group for each directory of archives. Its keys are modules,
`organisation:name:version`, for archives from the registry, and file names for PySpark's archives.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "ops" / "jars.lock"
STAMPS = "verified"
PYSPARK = "pyspark"
ANEW = "To fetch all archives anew: make clean, then make setup."

# SHA-256 by file name.
Digests = Mapping[str, str]


class ArchivesProblem(Exception):
    """An archive is not the one in the lock; the message says which, and what was found."""


def pyspark_jars() -> Path:
    """Return the directory of PySpark's archives."""
    spec = find_spec("pyspark")
    return (Path(str(spec.origin)).parent if spec and spec.origin else Path()) / "jars"


def folder_of(group: str, jars_dir: Path) -> Path:
    """Return the directory of a group's archives."""
    return pyspark_jars() if group == PYSPARK else jars_dir / group


def read_lock(path: Path = LOCK) -> dict[str, dict[str, str]]:
    """Return the SHA-256 in the lock, by group and by module or file. Raises ArchivesProblem."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise ArchivesProblem(f"{path} cannot be read: {problem}") from None


def file_name(key: str) -> str:
    """Return the file name for a key of the lock: `org:name:1.0` is in name-1.0.jar."""
    return f"{'-'.join(key.split(':')[1:])}.jar" if ":" in key else key


def verify(group: str, jars_dir: Path, data_dir: Path | None = None, lock: Path = LOCK) -> None:
    """Check each archive of a group against the lock, unless no file has changed since the last
    check.

    A successful check is recorded in `jars_dir`, or in `data_dir` if that is read-only: inode, size
    and both times of each file. Raises ArchivesProblem for the first archive that is wrong,
    missing, or not in the lock.
    """
    folder, stamps = folder_of(group, jars_dir), _writable(jars_dir, data_dir)
    expected = {file_name(key): digest for key, digest in read_lock(lock).get(group, {}).items()}
    stamp = stamps / STAMPS / f"{group}-{_digest(str(folder))[:8]}" if stamps else None
    stamped = _look(folder, expected)
    if stamp and stamp.exists() and stamp.read_text() == stamped:
        return
    try:
        compare(folder, expected)
    except ArchivesProblem as problem:
        raise ArchivesProblem(f"{problem}. {ANEW}") from None
    if stamp:
        with suppress(OSError):  # otherwise the files are hashed again at the next start
            stamp.parent.mkdir(exist_ok=True)
            stamp.write_text(stamped)


def listed(path: Path) -> list[Path]:
    """Return the archives that a list names, as `sha256sum` writes it, once each was hashed.

    A relative path starts from the list's folder. Raises ArchivesProblem for a line that cannot be
    read, and for an archive that is missing or not the one in the list.
    """
    try:
        lines = [line for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise ArchivesProblem(f"{path} cannot be read: {problem}") from None
    return [_listed(path, line) for line in lines if not line.startswith("#")]


def _listed(path: Path, line: str) -> Path:
    match = re.fullmatch(r"([0-9a-f]{64}) [ *](\S.*\.jar)", line.rstrip())
    if match is None:
        raise ArchivesProblem(
            f"{path}: expected lines as of sha256sum *.jar, a SHA-256, two spaces and an archive, "
            f"got {line[:100]!r}"
        )
    archive = path.parent / match[2]
    if not archive.is_file():
        raise ArchivesProblem(f"{archive}: {path} lists it, and there is no such file")
    if (present := sha256(archive)) != match[1]:
        raise ArchivesProblem(
            f"{archive}: expected SHA-256 {match[1]} by {path}, found {present}: fetch it again "
            "or correct the list, if the archive was replaced on purpose"
        )
    return archive


def compare(folder: Path, expected: Digests) -> None:
    """Hash every archive in `folder`. Raises ArchivesProblem if one is not as expected."""
    wrong = list(_differences(folder, expected, digests(folder)))
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if wrong[1:] else ""
        raise ArchivesProblem(f"{wrong[0]}{more}")


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each archive in a directory, by name."""
    paths = sorted(folder.glob("*.jar"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip([path.name for path in paths], pool.map(sha256, paths), strict=True))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _differences(folder: Path, expected: Digests, present: Digests) -> Iterator[str]:
    for name in sorted({*expected, *present}):
        pinned, had = expected.get(name), present.get(name)
        if pinned != had:
            one = f"SHA-256 {pinned}" if pinned else "no such archive, as the lock has none"
            other = f"SHA-256 {had}" if had else "no such file"
            yield f"{folder / name}: expected {one}, found {other}"


def _look(folder: Path, expected: Digests) -> str:
    """Return a short text that changes with any file in the directory, and with the lock."""
    stats = [(path.name, path.stat()) for path in sorted(folder.glob("*.jar"))]
    files = [(n, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for n, s in stats]
    return _digest(repr((sorted(expected.items()), files)))


def _writable(*folders: Path | None) -> Path | None:
    return next((each for each in folders if each and os.access(each, os.W_OK)), None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
