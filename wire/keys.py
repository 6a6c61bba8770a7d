"""The keys that sign commands: a ring of keys in a file that only its owner may read.

Times are in Unix ms. A key that no longer signs stays in the ring to verify old records.
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import msgspec

# A new key is created this long before it counts, and counts this long before it signs. By then
# every process has read it, whatever its clock.
LEAD_MS = 60_000
# A key's signatures still count this long after the next key has begun to sign.
LATE_MS = 300_000
# Shortest secret, characters.
MIN_SECRET = 32


class KeysProblem(Exception):
    """The keys cannot be read or written; the message names the file or the key, and the
    problem."""


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key, valid for records appended at `since` or later and before `until`.

    secret: its UTF-8 bytes are the HMAC key.
    """

    id: str
    secret: str
    since: int = msgspec.field(default=0, name="from")
    until: int | None = None

    def counts(self, time: int) -> bool:
        """Return whether the key's signatures count in a record appended at `time`."""
        return self.since <= time and (self.until is None or time < self.until)


class Ring(msgspec.Struct, frozen=True):
    """All existing keys, oldest first."""

    keys: tuple[Key, ...] = ()

    def key(self, name: str) -> Key | None:
        """Return the key with this id, or None."""
        return next((key for key in self.keys if key.id == name), None)

    def signing(self, now: int) -> Key:
        """Return the key that signs at `now`: the newest that has been valid for long enough.

        Raises KeysProblem if none is valid.
        """
        alive = [key for key in self.keys if key.counts(now)]
        if not alive:
            raise KeysProblem("no key signs: expected one that counts now")
        settled = [key for key in alive if key.since + LEAD_MS <= now]
        return max(settled or alive, key=lambda key: key.since)

    def rotated(self, now: int) -> Ring:
        """Return the ring with a new key, which signs in two minutes. The other keys end later."""
        fresh = new_key(now, now + LEAD_MS)
        end = fresh.since + LEAD_MS + LATE_MS
        return Ring((*(_ending(key, end) for key in self.keys), fresh))

    def retired(self, name: str, until: int, now: int) -> Ring:
        """Return the ring with a key that ends at `until` or earlier.

        Adds a new key if none would sign. Raises KeysProblem for an unknown key.
        """
        if self.key(name) is None:
            known = ", ".join(key.id for key in self.keys)
            raise KeysProblem(f"{name!r}: expected one of {known}")
        keys = tuple(_ending(key, until) if key.id == name else key for key in self.keys)
        if any(key.counts(now) for key in keys):
            return Ring(keys)
        return Ring((*keys, new_key(now, now - LATE_MS)))


def new_key(now: int, since: int) -> Key:
    """Return a key created at `now` and valid from `since`."""
    day = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d")
    return Key(f"{day}-{secrets.token_hex(3)}", secrets.token_urlsafe(32), since)


def _ending(key: Key, until: int) -> Key:
    """Return the key with an end at `until`, unless it ends earlier."""
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
        """Return the current ring of the file. Raises KeysProblem."""
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
        """Create the file with a new key if it does not exist, and return this object.

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
        """Replace the ring in the file atomically. Raises KeysProblem."""
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
    """Return the ring written by `KeyFile.write`.

    Raises ValueError, which says what was expected and contains no secret.
    """
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
