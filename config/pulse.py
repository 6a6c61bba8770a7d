"""A sign of life: a file below the data directory that a process touches as its work goes round."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

# At most so often it is written.
EVERY_S = 1.0


class Pulse:
    """The sign of one process."""

    def __init__(self, data_dir: Path, name: str) -> None:
        self._path = path_of(data_dir, name)
        self._next = 0.0

    def beat(self) -> None:
        """Say that it lives. What cannot be written is not said: that is no reason to end."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_S
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()


def path_of(data_dir: Path, name: str) -> Path:
    """Return where a process says that it lives."""
    return data_dir / "pulse" / name


def age_s(data_dir: Path, name: str) -> float | None:
    """Return how long ago it last did, s; None where it never has."""
    try:
        return max(0.0, time.time() - path_of(data_dir, name).stat().st_mtime)
    except FileNotFoundError:
        return None
