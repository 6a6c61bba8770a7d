"""Locks among the processes of a session, by file."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock among processes, once nobody else does."""
    with lock(path, fcntl.LOCK_EX):
        yield


def lock(path: Path, kind: int) -> IO[bytes]:
    """Lock a file among processes, once that can be; who closes it lets it go."""
    file = path.open("ab")
    fcntl.flock(file, kind)
    return file
