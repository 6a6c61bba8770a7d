"""The files that driver and executors keep: on a local disk, or on any of Hadoop's file systems.

A storage is reached through its paths. What is written is there whole or not at all, under a name
of its own; nothing rests on the rename of a folder, which object stores do not have.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PosixPath
from typing import Any, Protocol, Self
from uuid import uuid4


class StoragePath(Protocol):
    """The place of a file or a folder. All methods raise OSError where the storage fails."""

    @property
    def name(self) -> str:
        """Return the last part of the path."""

    @property
    def parent(self) -> Self:
        """Return the path of the folder."""

    def __truediv__(self, name: str) -> Self:
        """Return the path of an entry of this folder."""

    def with_name(self, name: str) -> Self:
        """Return the path of another entry of the same folder."""

    def exists(self) -> bool:
        """Return whether there is a file or a folder."""

    def names(self) -> list[str]:
        """Return the names of the folder's entries, in no order; none where there is no folder."""

    def read_bytes(self) -> bytes:
        """Return the file's content. Raises FileNotFoundError."""

    def write_whole(self, data: bytes, *, synced: bool = False) -> None:
        """Write the file in place of what was there, and the folder if it is missing.

        Whoever reads meanwhile gets the old content or the new one, whole. synced: return once it
        would outlast a loss of power, where the storage does not see to that by itself.
        """

    def create(self, data: bytes) -> bool:
        """Write the file unless there is one. Return whether it was written.

        Of several who create it at once, one does.
        """

    def make(self) -> None:
        """Make the folder, with those above it, unless it is there."""

    def delete(self) -> None:
        """Delete the file, or the folder with all below it, if it is there."""

    def size(self) -> int:
        """Return the bytes of the file, or of all files below the folder, as far as they are still
        there."""

    def modified_ms(self) -> int:
        """Return when the file was written, Unix ms. Raises FileNotFoundError."""

    def filled(self) -> AbstractContextManager[Path]:
        """Return a context that gives a local file to be filled, and leaves its content here."""

    def take(self, other: Self) -> None:
        """Move a file of the same storage here."""

    def lent(self, folder: Path) -> Path:
        """Return a local file with this content: the file itself, or a copy in `folder`."""


class LocalPath(PosixPath):
    """A path on a local disk, or on one that is mounted."""

    def names(self) -> list[str]:
        """Return the names of the folder's entries; none where there is no folder."""
        try:
            return [path.name for path in self.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def write_whole(self, data: bytes, *, synced: bool = False) -> None:
        """Write the file, through a draft beside it. synced: it is on the disk then."""
        draft = self._drafted(data, synced=synced)
        draft.replace(self)
        if synced:
            sync_folder(self.parent)

    def create(self, data: bytes) -> bool:
        """Write the file unless there is one. Return whether it was written."""
        draft = self._drafted(data, synced=True, suffix=f".{uuid4()}")
        try:
            os.link(draft, self)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        sync_folder(self.parent)
        return True

    def _drafted(self, data: bytes, *, synced: bool, suffix: str = "") -> Self:
        draft = self.with_name(f"{self.name}{suffix}.new")
        self.parent.make()
        with draft.open("wb") as file:
            file.write(data)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        return draft

    def make(self) -> None:
        """Make the folder, with those above it, unless it is there."""
        self.mkdir(parents=True, exist_ok=True)

    def delete(self) -> None:
        """Delete the file, or the folder with all below it, if it is there."""
        if self.is_dir() and not self.is_symlink():
            shutil.rmtree(self, onerror=_pass_over_missing)
        else:
            self.unlink(missing_ok=True)

    def size(self) -> int:
        """Return the bytes of the file, or of all files below the folder."""
        if not self.is_dir():
            return self.stat().st_size
        total = 0
        for place, _, names in os.walk(self):
            for name in names:
                with suppress(OSError):
                    total += (Path(place) / name).stat().st_size
        return total

    def modified_ms(self) -> int:
        """Return when the file was written, Unix ms."""
        return self.stat().st_mtime_ns // 1_000_000

    @contextmanager
    def filled(self) -> Iterator[Path]:
        """Give the file itself to be filled; it is on the disk afterwards."""
        self.parent.make()
        try:
            yield self
            with self.open("rb") as file:
                os.fsync(file.fileno())
        except BaseException:
            self.unlink(missing_ok=True)
            raise

    def take(self, other: Self) -> None:
        """Move a file of the same disk here."""
        other.replace(self)

    def lent(self, folder: Path) -> Path:  # noqa: ARG002 - as the port has it
        """Return the file itself."""
        return self


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _pass_over_missing(_function: Callable[..., Any], _path: str, failure: Any) -> None:
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]
