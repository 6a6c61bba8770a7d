"""Where an epoch of a query begins: places in the log, and states to begin with there.

Beside the folder of an epoch that an admin requested is `start-N`: a file that says where each
bucket begins, and for some buckets a file with their state. It is whole before the epoch's own
folder is made, which is what makes the epoch the current one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from domain.bounds import Bound
from streaming.checkpoint import Epoch, next_epoch, start_folder

# The beginning of a log, wherever that is: Spark's own number for it.
EARLIEST = -2

START = "start.json"


class EpochStart(msgspec.Struct):
    """How an epoch begins; all by bucket, as `attack/0`.

    ask: the id of the request; at: when it began, ms; offsets: of the first record that is
    read, or EARLIEST; firsts: what that was then; ends: the log's next offset then, at which it
    has caught up; seeds: files with the state to begin with; rules: in force there, as JSON, where
    that is not the log's first; quiet: the last offset whose outcome readers have seen in an
    earlier epoch: up to there only the last record of each asset is emitted; bounds: on append
    times, see domain/bounds.py.
    """

    ask: str = ""
    at: int = 0
    firsts: dict[str, int] = {}
    offsets: dict[str, int] = {}
    seeds: dict[str, str] = {}
    rules: dict[str, str] = {}
    quiet: dict[str, int] = {}
    ends: dict[str, int] = {}
    bounds: dict[str, list[Bound]] = {}


class UnreadableStart(Exception):
    """The file that says how an epoch begins cannot be read; the message says why."""


def start_of(epoch: Epoch) -> EpochStart:
    """Return how an epoch begins: by default at the log's beginning. Raises UnreadableStart.

    Seeds come as paths.
    """
    folder, start = start_folder(epoch), _read(epoch)
    start.seeds = {bucket: str(folder / name) for bucket, name in start.seeds.items()}
    return start


def _read(epoch: Epoch) -> EpochStart:
    file = start_folder(epoch) / START
    try:
        return msgspec.json.decode(file.read_bytes(), type=EpochStart)
    except FileNotFoundError:
        return EpochStart()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableStart(f"{file}: {error}") from None


def bound(epoch: Epoch, bounds: Mapping[str, Sequence[Bound]]) -> EpochStart:
    """Have an epoch without a committed batch begin with these bounds: its state is still empty.

    Raises UnreadableStart and OSError.
    """
    start = _read(epoch)
    start.bounds = {name: list(held) for name, held in bounds.items()}
    folder = start_folder(epoch)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{START}.new", start)
    (folder / f"{START}.new").replace(folder / START)
    _sync(folder)
    return start_of(epoch)


def begin(home: Path, make: Callable[[int, Path], EpochStart]) -> Epoch:
    """Begin a new epoch of the query whose folder is `home`, as `make` says.

    make: is given the epoch's number and a folder, and writes the states there. However it is
    broken off, either the old epoch is the current one or the new one is, whole.
    """
    epoch = next_epoch(home)
    draft = home / "start.draft"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    start = make(epoch.number, draft)
    _write(draft / START, start)
    draft.replace(start_folder(epoch))
    _sync(home)
    epoch.path.mkdir()
    _sync(home)
    return epoch


def _write(path: Path, start: EpochStart) -> None:
    with path.open("wb") as file:
        file.write(msgspec.json.encode(start))
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
