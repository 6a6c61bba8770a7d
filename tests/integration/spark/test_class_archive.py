"""The class archive: the job's JVM maps it, and does without where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.class_archive import ClassesProblem, build
from ops.leftovers import descendants
from streaming.spark.gateway import class_archive, use
from support.run.stack import wait_until
from support.spark.jobs import Job

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_parts.py::"
    "test_a_class_archive_is_of_the_options_that_it_was_written_with"
)
def test_the_job_maps_the_archive(job: Job, jars_dir: Path) -> None:
    build(jars_dir, print)
    archive = class_archive(jars_dir)
    assert archive.exists()
    process = job.start()

    def mapped() -> bool:
        return any(maps(pid, archive) for pid in descendants(process.pid))

    wait_until(mapped, 30, f"no JVM that maps {archive}")


def maps(pid: int, path: Path) -> bool:
    try:
        return str(path) in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def test_without_an_archive_nothing_is_asked_of_java(tmp_path: Path) -> None:
    assert use(tmp_path / "classes.jsa") == ()


def test_an_archive_is_of_one_class_path(jars_dir: Path, tmp_path: Path) -> None:
    assert class_archive(jars_dir).name != class_archive(tmp_path).name


def test_what_stands_in_the_way_is_told(tmp_path: Path) -> None:
    with pytest.raises(ClassesProblem, match="No archives in"):
        build(tmp_path, print)
