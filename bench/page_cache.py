"""Linux's cache of files, between two turns that are to be compared."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def release(files: Iterable[Path]) -> int:
    """Have the system forget its copies of files that nobody will read; return their size, bytes.

    Else each turn finds less free memory than the one before. They are brought to the disk first:
    what is not there is not forgotten (posix_fadvise(2)).
    """
    return sum(map(_release, files))


def _release(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # deleted meanwhile
        return 0
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.fstat(file).st_size
    finally:
        os.close(file)
