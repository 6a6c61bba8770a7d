"""The keys that sign commands: a ring of them, kept in a file that its owner alone may read.

Times in Unix ms. A key that no longer signs stays in the ring: old records are verified by it.
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import msgspec

# A new key is made so long before it counts, and counts so long before it signs: by then every
# process has read it, whatever its clock.
LEAD_MS = 60_000
# What a key has signed still counts so long after the next one signs.
LATE_MS = 300_000
# Shortest secret, characters.
MIN_SECRET = 32


class KeysProblem(Exception):
    """The keys cannot be read; the message names the file and what was expected."""


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key: it counts for records appended at `since` or later, and before `until`.

    secret: its bytes in UTF-8 are the key of the HMAC.
    """

    id: str
    secret: str
    since: int = msgspec.field(default=0, name="from")
    until: int | None = None

    def counts(self, time: int) -> bool:
        """Return whether what it signed counts in a record appended at `time`."""
        return self.since <= time and (self.until is None or time < self.until)


class Ring(msgspec.Struct, frozen=True):
    """All keys that there are, the oldest first."""

    keys: tuple[Key, ...] = ()

    def key(self, name: str) -> Key | None:
        """Return the key of this id, or None."""
        return next((key for key in self.keys if key.id == name), None)

    def signing(self, now: int) -> Key:
        """Return the key that signs at `now`: the newest that has counted for long enough.

        Raises KeysProblem where none counts.
        """
        alive = [key for key in self.keys if key.counts(now)]
        if not alive:
            raise KeysProblem("no key signs: expected one that counts now")
        settled = [key for key in alive if key.since + LEAD_MS <= now]
        return max(settled or alive, key=lambda key: key.since)

    def rotated(self, now: int) -> Ring:
        """Return the ring with a new key, which signs in two minutes; the others end later."""
        fresh = new_key(now, now + LEAD_MS)
        end = fresh.since + LEAD_MS + LATE_MS
        return Ring((*(_ending(key, end) for key in self.keys), fresh))

    def retired(self, name: str, until: int, now: int) -> Ring:
        """Return the ring in which a key counts until `until` at most.

        It has a new one, where none would sign. Raises KeysProblem for a key that there is not.
        """
        if self.key(name) is None:
            known = ", ".join(key.id for key in self.keys)
            raise KeysProblem(f"{name!r}: expected one of {known}")
        keys = tuple(_ending(key, until) if key.id == name else key for key in self.keys)
        if any(key.counts(now) for key in keys):
            return Ring(keys)
        return Ring((*keys, new_key(now, now - LATE_MS)))


def new_key(now: int, since: int) -> Key:
    """Return a key made at `now` that counts from `since` on."""
    day = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d")
    return Key(f"{day}-{secrets.token_hex(3)}", secrets.token_urlsafe(32), since)


def _ending(key: Key, until: int) -> Key:
    """Return the key, ending at `until` if it does not end before."""
    end = until if key.until is None else min(until, key.until)
    return msgspec.structs.replace(key, until=end)


class KeyFile:
    """The ring in a file, read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._stamp: tuple[int, ...] = ()
        self._ring = Ring()

    def ring(self) -> Ring:
        """Return the ring as the file has it now. Raises KeysProblem."""
        try:
            stat = self.path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            with self._lock:
                if stamp != self._stamp:
                    self._ring, self._stamp = read_ring(self.path.read_bytes()), stamp
                return self._ring
        except OSError as error:
            raise KeysProblem(f"{self.path}: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise KeysProblem(f"{self.path}: {error}") from None

    def made(self) -> KeyFile:
        """Return itself, with a file: the first call writes one with a new key, if there is none.

        Raises KeysProblem.
        """
        try:
            if not self.path.exists():
                self._begin()
        except OSError as error:
            raise KeysProblem(f"{self.path}: cannot be written: {error.strerror}") from None
        self.ring()
        return self

    def _begin(self) -> None:
        """Write the first ring; the faster of two processes wins."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._draft(Ring((new_key(int(datetime.now(UTC).timestamp() * 1000), 0),)))
        try:
            os.link(draft, self.path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()

    def write(self, ring: Ring) -> None:
        """Put this ring in the place of what is there, whole or not at all. Raises KeysProblem."""
        try:
            self._draft(ring).replace(self.path)
        except OSError as error:
            raise KeysProblem(f"{self.path}: cannot be written: {error.strerror}") from None

    def _draft(self, ring: Ring) -> Path:
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(ring), indent=2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return draft


def read_ring(data: bytes) -> Ring:
    """Read what `KeyFile.write` wrote. Raises ValueError: what was expected, and no secret."""
    try:
        ring = msgspec.json.decode(data, type=Ring)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"expected keys as JSON: {error}") from None
    names = [key.id for key in ring.keys]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"keys: expected at least one, each id once, got {names}")
    short = [key.id for key in ring.keys if len(key.secret) < MIN_SECRET]
    if short:
        raise ValueError(f"keys: expected secrets of {MIN_SECRET} characters or more in {short}")
    return ring
