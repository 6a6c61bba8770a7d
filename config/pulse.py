"""A heartbeat: a file in the data directory that a process touches as it works."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

# Shortest time between two writes, s.
EVERY_S = 1.0


class Pulse:
    """The heartbeat of one process."""

    def __init__(self, data_dir: Path, name: str) -> None:
        self._path = path_of(data_dir, name)
        self._next = 0.0

    def beat(self) -> None:
        """Touch the file. A failure to write is ignored, as it is no reason to stop."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_S
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()


def path_of(data_dir: Path, name: str) -> Path:
    """Return the path of a process's heartbeat file."""
    return data_dir / "pulse" / name


def age_s(data_dir: Path, name: str) -> float | None:
    """Return the age of a process's last heartbeat, s, or None if there was none."""
    try:
        return max(0.0, time.time() - path_of(data_dir, name).stat().st_mtime)
    except FileNotFoundError:
        return None
