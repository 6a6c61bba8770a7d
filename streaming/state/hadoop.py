"""Checkpoints on any of Hadoop's file systems, through Spark's JVM: see streaming/state/storage.py.

Whatever a driver writes there passes through its JVM, which ends when the driver no longer leads
(streaming/job/leadership.py).
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from streaming.state.storage import LocalPath, StoragePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings

_MISSING = "java.io.FileNotFoundException"


@dataclass(frozen=True)
class HadoopPath:
    """A path on one of Hadoop's file systems, as a URL. Methods raise OSError with its message.

    files: kernel/Storage.java in a JVM; scratch: a local folder for copies.
    """

    url: str
    files: Any = field(repr=False, compare=False)
    scratch: Path = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.url

    def _at(self, url: str) -> HadoopPath:
        return HadoopPath(url, self.files, self.scratch)

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> HadoopPath:
        """Return the path of the folder."""
        return self._at(self.url.rpartition("/")[0])

    def __truediv__(self, name: str) -> HadoopPath:
        """Return the path of an entry of this folder."""
        return self._at(f"{self.url}/{name}")

    def with_name(self, name: str) -> HadoopPath:
        """Return the path of another entry of the same folder."""
        return self.parent / name

    def exists(self) -> bool:
        """Return whether there is a file or a folder."""
        with self._errors():
            return bool(self.files.exists(self.url))

    def names(self) -> list[str]:
        """Return the names of the folder's entries; none where there is no folder."""
        with self._errors():
            return str(self.files.names(self.url)).splitlines()

    def read_bytes(self) -> bytes:
        """Return the file's content. Raises FileNotFoundError."""
        with self._errors():
            return bytes(self.files.read(self.url))

    def write_whole(self, data: bytes, *, synced: bool = False) -> None:  # noqa: ARG002 - it is
        """Write the file, whole."""
        with self._errors():
            self.files.write(self.url, bytearray(data))

    def create(self, data: bytes) -> bool:
        """Write the file unless there is one. Return whether it was written."""
        with self._errors():
            return bool(self.files.create(self.url, bytearray(data)))

    def make(self) -> None:
        """Make the folder, with those above it, unless it is there."""
        with self._errors():
            self.files.makeFolder(self.url)

    def delete(self) -> None:
        """Delete the file, or the folder with all below it, if it is there."""
        with self._errors():
            self.files.delete(self.url)

    def size(self) -> int:
        """Return the bytes of the file, or of all files below the folder."""
        with self._errors():
            return int(self.files.size(self.url))

    def modified_ms(self) -> int:
        """Return when the file was written, Unix ms. Raises FileNotFoundError."""
        with self._errors():
            return int(self.files.modified(self.url))

    @contextmanager
    def filled(self) -> Iterator[Path]:
        """Give a local file to be filled, and move it here."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.scratch, prefix="filled-") as folder:
            draft = Path(folder, self.name)
            yield draft
            with self._errors():
                self.files.upload(str(draft), self.url)

    def take(self, other: HadoopPath) -> None:
        """Move a file of the same storage here."""
        with other._errors():
            self.files.move(other.url, self.url)

    def lent(self, folder: Path) -> Path:
        """Return a local copy in `folder`."""
        copy = folder / self.name
        with self._errors():
            self.files.download(self.url, str(copy))
        return copy

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise the JVM's errors as Python's own."""
        try:
            yield
        except Py4JJavaError as error:
            exception = error.java_exception
            if exception.getClass().getName() == _MISSING:
                raise FileNotFoundError(errno.ENOENT, "no such file", self.url) from None
            raise OSError(f"{self.url}: {exception}") from error


def checkpoints_of(settings: Settings, spark: SparkSession) -> StoragePath:
    """Return the folder of a job's checkpoints: below the data directory, or as
    TALLYBOARD_CHECKPOINT says. Raises OSError where a URL's file system is unknown."""
    return storage_at(settings.checkpoint_place, spark, settings.data_dir / "spark")


def storage_at(path: str, spark: SparkSession, scratch: Path) -> StoragePath:
    """Return a local path, or a URL as Spark's JVM reaches it. scratch: a folder for local copies.

    Raises OSError where a URL's file system is unknown.
    """
    if "://" not in path:
        return LocalPath(path)
    jvm: Any = spark._jvm  # noqa: SLF001
    session: Any = spark._jsparkSession  # noqa: SLF001
    try:
        files = jvm.tallyboard.kernel.Storage.of(session, path)
    except Py4JJavaError as error:
        raise OSError(f"{path}: {error.java_exception}") from error
    return HadoopPath(path, files, scratch)
