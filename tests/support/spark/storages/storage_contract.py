"""What every storage of checkpoints keeps to: the test of each inherits it, and gives the home."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from streaming.state.storage import StoragePath

WRITERS = 8


class StorageContract:
    """`home`, a fixture of the class that inherits it: a folder that is not there yet."""

    def test_paths_have_parts(self, home: StoragePath) -> None:
        file = home / "epoch-1" / "commits"
        assert (file.name, file.parent.name, file.parent.parent) == ("commits", "epoch-1", home)
        assert file.with_name("offsets") == home / "epoch-1" / "offsets"
        assert str(file) == f"{home}/epoch-1/commits"

    def test_what_is_not_there(self, home: StoragePath) -> None:
        assert not home.exists()
        assert home.names() == []
        home.delete()
        for look in (home.read_bytes, home.size, home.modified_ms):
            with pytest.raises(FileNotFoundError):
                look()

    def test_a_file_is_written_with_its_folder_and_replaced(self, home: StoragePath) -> None:
        file = home / "one" / "two.json"
        for content in (b"first", b"", bytes(range(256)) * 300):
            file.write_whole(content)
            assert file.read_bytes() == content
        file.write_whole(b"last", synced=True)
        assert file.read_bytes() == b"last"
        assert file.parent.names() == ["two.json"]
        assert home.names() == ["one"]

    def test_readers_see_a_whole_file_while_it_is_replaced(self, home: StoragePath) -> None:
        file, contents = home / "file", {letter.encode() * 50_000 for letter in "abc"}
        file.write_whole(b"a" * 50_000)
        over = threading.Event()
        seen: set[bytes] = set()

        def read() -> None:
            while not over.is_set():
                seen.add(file.read_bytes())

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(20):
            for content in sorted(contents):
                file.write_whole(content)
        over.set()
        reader.join()
        assert seen <= contents

    def test_a_file_is_created_once(self, home: StoragePath) -> None:
        file = home / "identity.json"
        assert file.create(b"one")
        assert not file.create(b"two")
        assert file.read_bytes() == b"one"
        assert home.names() == ["identity.json"]

    def test_of_several_who_create_a_file_one_does(self, home: StoragePath) -> None:
        home.make()
        outcomes: list[tuple[bool, int]] = []
        gate = threading.Barrier(WRITERS)

        def create(number: int) -> None:
            gate.wait()
            outcomes.append(((home / "file").create(f"{number}".encode()), number))

        writers = [threading.Thread(target=create, args=(number,)) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        winners = [number for created, number in outcomes if created]
        assert [(home / "file").read_bytes()] == [f"{number}".encode() for number in winners]

    def test_folders_are_there_while_they_are_empty(self, home: StoragePath) -> None:
        (home / "epoch-3").make()
        (home / "epoch-3").make()
        assert (home / "epoch-3").exists()
        assert home.names() == ["epoch-3"]
        assert (home / "epoch-3").names() == []
        (home / "epoch-3" / "file").write_whole(b"x")
        (home / "epoch-3" / "file").delete()
        assert home.names() == ["epoch-3"]

    def test_a_folder_is_deleted_with_all_below_it(self, home: StoragePath) -> None:
        for name in ("a/b/c", "a/d", "e"):
            file = home
            for part in name.split("/"):
                file = file / part
            file.write_whole(b"x")
        (home / "a").delete()
        assert not (home / "a").exists()
        assert home.names() == ["e"]

    def test_sizes_and_times(self, home: StoragePath) -> None:
        before = time.time() * 1000
        (home / "a" / "b").write_whole(b"x" * 1000)
        (home / "c").write_whole(b"x" * 24)
        assert (home / "a" / "b").size() == 1000
        assert home.size() == 1024
        assert before - 2000 < (home / "c").modified_ms() < time.time() * 1000 + 2000

    def test_a_file_is_filled_lent_and_moved(self, home: StoragePath, tmp_path: Path) -> None:
        seed = home / "prepared" / "a.seed"
        with seed.filled() as local:
            local.write_bytes(b"x" * 100_000)
        assert seed.size() == 100_000
        assert seed.lent(tmp_path).read_bytes() == b"x" * 100_000
        (home / "start-2").make()
        (home / "start-2" / "a.seed").take(seed)
        assert not seed.exists()
        assert (home / "start-2" / "a.seed").read_bytes() == b"x" * 100_000

    def test_what_was_not_filled_is_not_there(self, home: StoragePath) -> None:
        with pytest.raises(OSError, match="full"), (home / "a.seed").filled():
            raise OSError("the disk is full")
        assert not (home / "a.seed").exists()
