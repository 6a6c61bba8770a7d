"""Linux's cache of files, between two turns that are to be compared."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def release(files: Iterable[Path]) -> None:
    """Have the system forget its copies of files that nobody will read again.

    Else each turn finds less free memory than the one before. They are brought to the disk first:
    what is not there is not forgotten (posix_fadvise(2)).
    """
    for path in files:
        _release(path)


def _release(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # deleted meanwhile
        return
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
