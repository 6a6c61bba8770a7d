"""Between two turns of a comparison the system forgets the files of the first."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bench.page_cache import release

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


def test_a_file_is_no_longer_in_memory_and_still_whole(tmp_path: Path):
    path, other = tmp_path / "segment.log", tmp_path / "other.log"
    for each in (path, other):
        each.write_bytes(b"x" * SIZE)
    assert held(path)
    release([path])
    assert not held(path)
    assert held(other)
    assert path.read_bytes() == b"x" * SIZE


def test_a_file_that_is_gone_is_passed_over(tmp_path: Path):
    path = tmp_path / "segment.log"
    path.write_bytes(b"x" * SIZE)
    assert held(path)
    release([tmp_path / "deleted.log", path])
    assert not held(path)
