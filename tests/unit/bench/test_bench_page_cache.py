"""Between two turns of a comparison the system forgets the files of the first."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bench.page_cache import release
from support.run.stack import wait_until

SIZE = 300_000


def held(path: Path) -> bool:
    """Return whether the system has a file's beginning in memory (RWF_NOWAIT of preadv2(2))."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(file, [bytearray(100)], 0, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
    except OSError as problem:
        if problem.errno == errno.EOPNOTSUPP:
            pytest.skip(f"{path}: its file system does not say what it has in memory")
        raise
    finally:
        os.close(file)


def is_released(*files: Path) -> bool:
    """Release files, and return whether the last is no longer in memory.

    It is but advice: a page that another processor is about to list stays (posix_fadvise(2)).
    """
    release(files)
    return not held(files[-1])


def test_a_file_is_no_longer_in_memory_and_still_whole(tmp_path: Path):
    path, other = tmp_path / "segment.log", tmp_path / "other.log"
    for each in (path, other):
        each.write_bytes(b"x" * SIZE)
    assert held(path)
    wait_until(lambda: is_released(path), 10, f"{path} is in memory")
    assert held(other)
    assert path.read_bytes() == b"x" * SIZE


def test_a_file_that_is_gone_is_passed_over(tmp_path: Path):
    path = tmp_path / "segment.log"
    path.write_bytes(b"x" * SIZE)
    assert held(path)
    wait_until(lambda: is_released(tmp_path / "deleted.log", path), 10, f"{path} is in memory")
