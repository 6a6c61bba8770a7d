"""Processes left over from an earlier run, found by a mark in their environment."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "TALLYBOARD_INSTANCE"


def mark_of(data_dir: Path) -> str:
    """Return the mark inherited by every process of the instance in `data_dir`."""
    return str(data_dir.resolve())


def find_leftovers(data_dir: Path, proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of processes with the mark of `data_dir`.

    This process and its ancestors are left out.
    """
    mark = f"{MARK}={mark_of(data_dir)}".encode()
    spared = set(_ancestors(proc))
    ids = []
    for directory in proc.glob("[0-9]*"):
        with suppress(OSError):
            if mark in (directory / "environ").read_bytes().split(b"\0"):
                ids.append(int(directory.name))
    return sorted(set(ids) - spared)


def _ancestors(proc: Path) -> Iterator[int]:
    pid = os.getpid()
    while pid > 1:
        yield pid
        try:
            pid = int(stat_fields(proc / str(pid) / "stat")[1])
        except OSError:
            return


def descendants(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of all descendants of `pid`."""
    below: dict[int, list[int]] = defaultdict(list)
    for stat in proc.glob("[0-9]*/stat"):
        with suppress(OSError):
            below[int(stat_fields(stat)[1])].append(int(stat.parent.name))
    ids, waiting = [], [pid]
    while waiting:
        children = below[waiting.pop()]
        ids += children
        waiting += children
    return ids


def stat_fields(stat: Path) -> list[str]:
    """Return the fields of a `/proc/<pid>/stat` after the command's name: state, parent, ..."""
    return stat.read_text().rpartition(")")[2].split()


def end_leftovers(data_dir: Path, patience_s: float) -> list[int]:
    """Terminate all leftovers, kill those remaining after `patience_s`, and return the ids
    found."""
    first = find_leftovers(data_dir)
    _signal(first, signal.SIGTERM)
    _wait_until_gone(data_dir, patience_s)
    while remaining := find_leftovers(data_dir):
        _signal(remaining, signal.SIGKILL)
        _wait_until_gone(data_dir, 0.5)
    return first


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_until_gone(data_dir: Path, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while find_leftovers(data_dir) and time.monotonic() < deadline:
        time.sleep(0.05)
