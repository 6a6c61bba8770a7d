"""The local storage of checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streaming.state.storage import LocalPath
from support.spark.storages.storage_contract import StorageContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def home(self, tmp_path: Path) -> LocalPath:
        return LocalPath(tmp_path / "checkpoint")


def test_what_is_broken_off_leaves_the_old_content(
    tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "floor"
    file.write_whole(b"3")

    def fail(_handle: int) -> None:
        raise OSError("killed")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="killed"):
        file.write_whole(b"4", synced=True)
    assert file.read_bytes() == b"3"


def test_a_folder_that_cannot_be_deleted_is_an_error(
    tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").write_whole(b"x")

    def refuse(*_args: object, **_more: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError):
        (tmp_path / "a").delete()
