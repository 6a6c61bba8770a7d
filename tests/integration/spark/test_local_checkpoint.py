"""The job's own way to write a checkpoint's files keeps what Spark asks of it."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.run.selection import is_whole
from support.spark.kernel_replay import java_command

SCRIBE = Path(__file__).resolve().parents[2] / "kernel/java/tallyboard/kernel/Scribe.java"
KILLS, FEW_KILLS = 8, 4
"""Of a whole and of a plain run."""
LETTERS = 300_000


class Scribe:
    """A JVM that does to files what it is told, with the job's own manager or Spark's default."""

    def __init__(self, jars_dir: Path, work: Path) -> None:
        self._command = java_command(jars_dir, SCRIBE, work)
        self._process = self.start()

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def answers(self, *lines: str) -> list[str]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("".join(f"{line}\n" for line in lines))
        self._process.stdin.flush()
        return [self._process.stdout.readline().rstrip("\n") for _ in lines]

    def close(self) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def scribe(jars_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scribe]:
    with closing(Scribe(jars_dir, tmp_path_factory.mktemp("scribe"))) as scribe:
        yield scribe


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_name_that_is_not_to_be_overwritten_stays_as_it_is(
    scribe: Scribe, tmp_path: Path
) -> None:
    file = tmp_path / "7"
    taken = "org.apache.hadoop.fs.FileAlreadyExistsException"
    assert scribe.answers(
        f"own create {file} one",
        f"own create {file} two",
        f"own read {file}",
        f"own write {file} three",
        f"own cancel {file} four",
        f"own cancel {tmp_path}/8 five",
        f"own read {file}",
        f"own list {tmp_path}",
    ) == ["written", taken, "one", "written", "cancelled", "cancelled", "three", "1"]
    assert names(tmp_path) == ["7"]  # nothing is left of what was refused or cancelled


def test_of_many_at_once_one_makes_the_file(scribe: Scribe, tmp_path: Path) -> None:
    races = [f"own race {tmp_path}/{number} 8" for number in range(50)]
    assert scribe.answers(*races) == ["1"] * 50
    assert len(names(tmp_path)) == 50


def test_either_manager_reads_what_the_other_has_written(scribe: Scribe, tmp_path: Path) -> None:
    file, later = tmp_path / "7", tmp_path / "8"
    assert scribe.answers(f"default create {file} first") == ["written"]
    assert scribe.answers(
        f"own read {file}",
        f"own write {file} second",
        f"default read {file}",
        f"own create {later} third",
        f"default read {later}",
        f"default write {later} fourth",
        f"own read {later}",
        f"own list {tmp_path}",
    ) == ["first", "written", "second", "written", "third", "written", "fourth", "2"]


def test_where_files_are_not_local_the_manager_is_sparks_own(
    scribe: Scribe, tmp_path: Path
) -> None:
    assert scribe.answers(f"own kind {tmp_path}/7") == ["Draft"]
    assert scribe.answers(
        f"elsewhere kind {tmp_path}/7",
        f"elsewhere create {tmp_path}/7 one",
        f"elsewhere read {tmp_path}/7",
    ) == ["RenameBasedFSDataOutputStream", "written", "one"]


@pytest.mark.slow
def test_a_killed_writer_leaves_a_whole_file(scribe: Scribe, tmp_path: Path) -> None:
    chance, file, left = random.Random(5), tmp_path / "7", 0
    for _ in range(KILLS if is_whole() else FEW_KILLS):
        with scribe.start() as writer:
            assert writer.stdin
            assert writer.stdout
            writer.stdin.write(f"own forever {file}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "begun\n"
            time.sleep(chance.uniform(0, 0.2))  # so that it is killed anywhere in its work
            writer.send_signal(signal.SIGKILL)
        text = file.read_text()
        assert text == text[0] * LETTERS
        left += len(names(tmp_path)) - 1
        for draft in tmp_path.glob(".*.tmp"):
            draft.unlink()
    assert left  # some were killed in mid-write
