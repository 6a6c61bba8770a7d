"""The bounds on append times that rebuilds were given, kept next to the checkpoints.

An epoch keeps its own, as its state rests on them. Those that come after it take them over, as long
as the log holds what they are about.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock

import msgspec

from domain.bounds import Bound

log = logging.getLogger("streaming.bounds")

FILE = "bounds.json"
# By bucket, as `attack/0`, in order of the offsets before which they hold.
Bounds = dict[str, list[Bound]]

_WRITING = Lock()  # each engine has a driver of its own


def known(folder: Path) -> Bounds:
    """Return all bounds; folder: of all checkpoints. Raises OSError, and ValueError for a
    file that cannot be read: without it states would be others."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Bounds)
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"UnreadableStart: {folder / FILE}: {error}") from None


def remember(folder: Path, more: Mapping[str, Iterable[Bound]]) -> None:
    """Keep these besides. Raises OSError and ValueError."""
    with _WRITING:
        before = known(folder)
        after = merged(before, more)
        if after == before:
            return
        draft = folder / f"{FILE}.new"
        draft.write_bytes(msgspec.json.encode(after))
        draft.replace(folder / FILE)


def merged(one: Mapping[str, Iterable[Bound]], other: Mapping[str, Iterable[Bound]]) -> Bounds:
    """Return the bounds of both, each once."""
    return {
        name: sorted({*one.get(name, ()), *other.get(name, ())}, key=lambda each: each[::-1])
        for name in sorted({*one, *other})
    }


def in_log(bounds: Mapping[str, Iterable[Bound]], edges: Mapping[str, tuple[int, int]]) -> Bounds:
    """Return the bounds about records that the logs still hold.

    edges: first and next offset, by bucket.
    """
    kept = {
        name: [each for each in bounds[name] if each[1] > edges[name][0]]
        for name in sorted(bounds.keys() & edges.keys())
    }
    return {name: held for name, held in kept.items() if held}
