"""The newest mails as files of a folder: the mail catcher writes them, the console shows them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

MOST_MAILS = 500
"""Most mails kept; beyond that, the oldest are deleted."""
SUFFIX = ".eml"


class Mailbox:
    """The mails of one folder.

    Numbers come from the arrival time, so later mails have greater ones.
    """

    def __init__(self, folder: Path, at_most: int = MOST_MAILS) -> None:
        self._folder, self._at_most = folder, at_most

    def keep(self, mail: bytes) -> int:
        """Write a mail atomically, delete the oldest beyond the limit, and return the mail's
        number.

        Raises OSError.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        number = max(time.time_ns() // 1_000, *(known + 1 for known in self.numbers()[:1]), 0)
        draft = self._folder / f"{number}.{os.getpid()}"
        draft.write_bytes(mail)
        draft.replace(self._path(number))
        for old in self.numbers()[self._at_most :]:
            self._path(old).unlink(missing_ok=True)
        return number

    def numbers(self) -> list[int]:
        """Return the numbers of all mails, newest first."""
        stems = (path.stem for path in self._folder.glob(f"*{SUFFIX}"))
        return sorted((int(stem) for stem in stems if stem.isdecimal()), reverse=True)

    def read(self, number: int, at_most: int = -1) -> bytes | None:
        """Return a mail as received, or None if there is none with this number (any more).

        at_most: number of bytes to read from its beginning.
        """
        with suppress(FileNotFoundError), self._path(number).open("rb") as file:
            return file.read(at_most)
        return None

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}{SUFFIX}"


def arrived_at(number: int) -> int:
    """Return when the mail with a number arrived, Unix ms."""
    return number // 1_000
