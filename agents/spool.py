"""Keeps reports on disk until Kafka has confirmed them.

A spool is a directory of append-only segments, each named by the position of its first byte, and a
`cursor`: the position up to which everything is confirmed. Each line holds one report:

    crc32 in hex, a space, ["asset",{report}], a newline

A cursor that is too old costs duplicates, which the tally ignores, but never a report.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

log = logging.getLogger("agents.spool")

_SEGMENT = re.compile(r"\d{20}\.spool\Z")
_CURSOR = re.compile(r"\d{1,20}\n\Z")
_LINE = msgspec.json.Decoder(tuple[str, msgspec.Raw])


class SpoolFull(Exception):
    """The spool has reached its limit, or its disk is full: the report was not accepted."""


class SpoolInUse(Exception):
    """Another process uses this spool directory."""


class SpooledReport(NamedTuple):
    """A report in the spool. position: of the first byte after it."""

    position: int
    asset: str
    value: bytes


@dataclass(slots=True)
class _Segment:
    base: int
    size: int
    path: Path

    @property
    def end(self) -> int:
        return self.base + self.size


def encode_line(asset: str, value: bytes) -> bytes:
    """Return a report as a line of the spool."""
    payload = b"[" + msgspec.json.encode(asset) + b"," + value + b"]"
    return b"%08x %s\n" % (zlib.crc32(payload), payload)


def decode_line(line: bytes) -> tuple[str, bytes] | None:
    """Return the asset and the value in a line, or None if it is damaged or incomplete."""
    payload = line[9:-1]
    if line[-1:] != b"\n" or line[:9] != b"%08x " % zlib.crc32(payload):
        return None
    try:
        asset, value = _LINE.decode(payload)
    except msgspec.MsgspecError:
        return None
    return asset, bytes(value)


class Spool:
    """An append-only queue on disk. Can be shared among threads; one process per directory.

    `torn` counts lines cut short by a crash, `damaged` complete lines that did not match their
    checksum; both are skipped. `pending` is the number of reports after the cursor.
    """

    def __init__(
        self, directory: Path, max_bytes: int = 64 << 20, segment_bytes: int = 4 << 20
    ) -> None:
        """Open or create the spool. max_bytes: limit on waiting reports.

        Raises SpoolInUse, OSError.
        """
        self.torn = 0
        self.damaged = 0
        self.pending = 0
        self._directory = directory
        self._max_bytes, self._segment_bytes = max_bytes, min(segment_bytes, max_bytes)
        self._lock = threading.RLock()
        directory.mkdir(parents=True, exist_ok=True)
        self._guard = self._claim()
        self._segments = self._stored_segments()
        self.cursor = self._stored_cursor()
        self._stored = self.cursor
        self._recover()
        self._synced = False
        self._tail = self._open(self._segments[-1].path)

    @property
    def end(self) -> int:
        """The position after the last report."""
        return self._segments[-1].end

    def append(self, asset: str, value: bytes, sync: bool = False) -> None:
        """Add a report. sync: return only once it is on the disk itself. Raises SpoolFull."""
        line = encode_line(asset, value)
        with self._lock:
            if self.end + len(line) - self.cursor > self._max_bytes:
                raise SpoolFull(f"{self._directory} holds {self._max_bytes} bytes of reports")
            if self._segments[-1].size >= self._segment_bytes:
                self._roll()
            self._write(line)
            self.pending += 1
            if sync:
                self.sync()

    def _write(self, line: bytes) -> None:
        """Write a whole line or nothing."""
        segment = self._segments[-1]
        try:
            written = 0
            while written < len(line):
                written += os.write(self._tail, line[written:])
        except OSError as error:
            os.ftruncate(self._tail, segment.size)
            raise SpoolFull(f"{segment.path} cannot be written: {error}") from error
        segment.size += len(line)
        self._synced = False

    def _roll(self) -> None:
        base = self.end
        tail = self._open(self._path(base))
        self.sync()
        os.close(self._tail)
        self._tail = tail
        self._segments.append(_Segment(base, 0, self._path(base)))

    def read(self, position: int, most: int = 500) -> list[SpooledReport]:
        """Return at most `most` reports from `position` on, in order, skipping damaged ones."""
        entries: list[SpooledReport] = []
        with self._lock:
            segments = [segment for segment in self._segments if segment.end > position]
            for segment in segments:
                entries += self._read(segment, max(position, segment.base), most - len(entries))
                if len(entries) >= most:
                    break
        return entries

    def _read(self, segment: _Segment, position: int, most: int) -> list[SpooledReport]:
        entries: list[SpooledReport] = []
        with segment.path.open("rb") as file:
            file.seek(position - segment.base)
            while len(entries) < most and position < segment.end:
                line = file.readline()
                if not line:
                    break
                position += len(line)
                if (read := decode_line(line)) is not None:
                    entries.append(SpooledReport(position, *read))
        return entries

    def advance(self, position: int, reports: int) -> None:
        """Record that all `reports` before `position` are confirmed and need not be kept."""
        with self._lock:
            self.cursor = position
            self.pending -= reports
            if self.cursor == self.end and self._segments[-1].size >= self._segment_bytes:
                self._roll()
            if self._segments[0].end > position or len(self._segments) == 1:
                return
            self.store_cursor()
            while len(self._segments) > 1 and self._segments[0].end <= position:
                self._segments.pop(0).path.unlink()

    def store_cursor(self) -> None:
        """Store the cursor, so that a restart does not send confirmed reports again."""
        with self._lock:
            if self._stored == self.cursor:
                return
            draft = self._directory / "cursor.new"
            draft.write_text(f"{self.cursor}\n")
            draft.replace(self._directory / "cursor")
            self._stored = self.cursor

    def sync(self) -> None:
        """Wait until every report is on the disk itself."""
        with self._lock:
            if not self._synced:
                os.fsync(self._tail)
                self._synced = True

    def close(self) -> None:
        """Keep the remaining reports for the next start, and release the directory."""
        with self._lock:
            self.sync()
            self.store_cursor()
            os.close(self._tail)
            os.close(self._guard)

    def _claim(self) -> int:
        guard = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(guard)
            raise SpoolInUse(f"{self._directory} is in use by another process") from error
        return guard

    def _open(self, path: Path) -> int:
        """Open a segment for appending and return its descriptor, with its name on the disk
        itself."""
        made = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        directory = os.open(self._directory, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        return made

    def _path(self, base: int) -> Path:
        return self._directory / f"{base:020d}.spool"

    def _stored_segments(self) -> list[_Segment]:
        paths = sorted(p for p in self._directory.iterdir() if _SEGMENT.match(p.name))
        return [_Segment(int(path.stem), path.stat().st_size, path) for path in paths]

    def _stored_cursor(self) -> int:
        """Return the stored cursor, or 0 if it is missing or unreadable.

        That costs duplicates at most.
        """
        try:
            text = (self._directory / "cursor").read_text()
        except (OSError, UnicodeDecodeError):
            return 0
        return int(text) if _CURSOR.match(text) else 0

    def _recover(self) -> None:
        """Drop torn lines, count waiting reports, and make cursor and segments consistent."""
        self._drop_torn_tail()
        end = self._segments[-1].end if self._segments else 0
        if not self._segments or end < self.cursor:
            for segment in self._segments:
                segment.path.unlink()
            self._segments = [_Segment(self.cursor, 0, self._path(self.cursor))]
        self.cursor = max(self.cursor, self._segments[0].base)
        for segment in self._segments:
            if segment.end > self.cursor:
                self._count(segment)
        if self.torn or self.damaged or self.pending:
            log.info(
                "spool %s: %d reports wait, %d torn, %d damaged",
                *(self._directory, self.pending, self.torn, self.damaged),
            )

    def _drop_torn_tail(self) -> None:
        """Cut the last segment after its last newline: only its last line can be torn."""
        if not self._segments:
            return
        last = self._segments[-1]
        data = last.path.read_bytes()
        complete = data.rfind(b"\n") + 1
        if complete < len(data):
            self.torn += 1
            os.truncate(last.path, complete)
            last.size = complete

    def _count(self, segment: _Segment) -> None:
        with segment.path.open("rb") as file:
            file.seek(max(0, self.cursor - segment.base))
            for line in file:
                good = decode_line(line) is not None
                self.pending += good
                self.damaged += not good
