"""The Java archives are those of the lock, or nothing starts: one line says which and why."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from config import archives
from config.archives import ArchivesProblem, listed, read_lock, verify
from config.settings import Settings
from ops import jars
from ops.broker import BrokerProblem, prepare
from ops.jars_lock import as_toml, changes
from streaming import kernel
from streaming.spark.session import VersionProblem, check_archives


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock with two archives in one group."""
    path = tmp_path / "jars.lock"
    groups = {"spark": {"org.example:a:1.0": sha256(b"a"), "b-2.jar": sha256(b"b")}}
    path.write_text(as_toml(groups))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory with the two archives that it names."""
    folder = tmp_path / "jars" / "spark"
    folder.mkdir(parents=True)
    (folder / "a-1.0.jar").write_bytes(b"a")
    (folder / "b-2.jar").write_bytes(b"b")
    return folder.parent


def test_what_the_lock_names_is_good(home: Path, lock: Path) -> None:
    verify("spark", home, lock=lock)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (
            lambda folder: (folder / "a-1.0.jar").write_bytes(b"x"),
            f"a-1.0.jar: expected SHA-256 {sha256(b'a')}, found SHA-256 {sha256(b'x')}",
        ),
        (
            lambda folder: (folder / "b-2.jar").unlink(),
            f"b-2.jar: expected SHA-256 {sha256(b'b')}, found no such file",
        ),
        (
            lambda folder: (folder / "c.jar").write_bytes(b"c"),
            f"c.jar: expected no such archive, as the lock has none, found SHA-256 {sha256(b'c')}",
        ),
    ],
    ids=["wrong", "missing", "surplus"],
)
def test_another_archive_is_refused_in_one_line(
    home: Path, lock: Path, spoil: Callable[[Path], None], problem: str
) -> None:
    verify("spark", home, lock=lock)  # a first start, whose stamp must not count any more
    spoil(home / "spark")
    with pytest.raises(ArchivesProblem) as caught:
        verify("spark", home, lock=lock)
    assert str(caught.value).startswith(f"{home}/spark/{problem}. To fetch")
    assert "\n" not in str(caught.value)


def test_several_are_counted(home: Path, lock: Path) -> None:
    for path in (home / "spark").iterdir():
        path.unlink()
    with pytest.raises(ArchivesProblem, match=r"a-1\.0\.jar.*\(and 1 more\)"):
        verify("spark", home, lock=lock)


def test_what_was_verified_is_not_read_again(
    home: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify("spark", home, lock=lock)
    monkeypatch.setattr(archives, "sha256", lambda path: pytest.fail(f"{path} is read"))
    verify("spark", home, lock=lock)


def test_size_and_time_put_back_do_not_help(home: Path, lock: Path) -> None:
    verify("spark", home, lock=lock)
    path = home / "spark" / "a-1.0.jar"
    before = path.stat()
    path.write_bytes(b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ArchivesProblem, match=r"a-1\.0\.jar"):
        verify("spark", home, lock=lock)


def test_another_lock_means_another_look(home: Path, lock: Path) -> None:
    verify("spark", home, lock=lock)
    lock.write_text(lock.read_text().replace(sha256(b"a"), sha256(b"new")))
    with pytest.raises(ArchivesProblem, match=r"a-1\.0\.jar"):
        verify("spark", home, lock=lock)


def test_read_only_archives_are_noted_in_the_data_directory(
    home: Path, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: path == tmp_path)
    verify("spark", home, tmp_path, lock=lock)
    assert not (home / archives.STAMPS).exists()
    assert list((tmp_path / archives.STAMPS).iterdir())


def test_a_lock_that_cannot_be_read_is_told(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchivesProblem, match=r"none\.lock cannot be read"):
        verify("spark", home, lock=tmp_path / "none.lock")


def test_the_lock_has_every_pinned_module_and_what_comes_with_it() -> None:
    lock, pins = read_lock(), jars.read_pins()
    assert set(lock) == {group.name for group in pins.groups} | {archives.PYSPARK}
    for group in pins.groups:
        assert set(group.modules) <= set(lock[group.name])
    assert len(lock["broker"]) > 40
    names = [path.name for path in archives.pyspark_jars().glob("*.jar")]
    assert sorted(lock[archives.PYSPARK]) == sorted(names)
    digests = [digest for group in lock.values() for digest in group.values()]
    assert [each for each in digests if not re.fullmatch("[0-9a-f]{64}", each)] == []


def test_a_fetch_of_something_else_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(pins: jars.JarPins, work: Path, _say: object) -> None:
        for group in pins.groups:
            (work / "jars" / group.name).mkdir(parents=True)
            for key in read_lock()[group.name]:
                (work / "jars" / group.name / archives.file_name(key)).write_bytes(b"evil")

    monkeypatch.setattr(jars, "retrieve", send)
    with pytest.raises(jars.JarsProblem, match=r"The registry sent another archive.*jars-lock"):
        jars.fetch(tmp_path, print)
    assert list(tmp_path.iterdir()) == []


def test_no_process_starts_with_a_surplus_archive(tmp_path: Path) -> None:
    (tmp_path / jars.STAMP).touch()
    for group in ("spark", "broker", "compiler"):
        (tmp_path / group).mkdir()
        (tmp_path / group / "ecj-evil.jar").write_bytes(b"x")
    settings = Settings(_env_file=None, jars_dir=tmp_path, data_dir=tmp_path)  # type: ignore[call-arg]
    with pytest.raises(BrokerProblem, match=r"broker/.*jar: expected"):
        prepare(tmp_path, tmp_path, 1)
    with pytest.raises(VersionProblem, match=r"spark/.*jar: expected"):
        check_archives(settings)
    with pytest.raises(kernel.KernelProblem, match=r"compiler/.*jar: expected"):
        kernel.build(tmp_path)


def test_a_renewed_lock_says_what_changed() -> None:
    old = {"spark": {"g:a:1": "one", "g:b:1": "two"}}
    new = {"spark": {"g:a:1": "other", "g:c:1": "three"}}
    assert list(changes(old, new)) == [
        "spark g:a:1: one -> other",
        "spark g:b:1: two -> gone",
        "spark g:c:1: new -> three",
    ]


# ---- archives that an admin lets in -------------------------------------------------------------


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """A list of two archives, one beside it and one elsewhere."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "hadoop-aws-3.5.0.jar").write_bytes(b"one")
    (tmp_path / "s3 client.jar").write_bytes(b"two")
    path = tmp_path / "more" / "jars.sha256"
    path.write_text(
        f"# as of sha256sum\n{sha256(b'one')}  hadoop-aws-3.5.0.jar\n\n"
        f"{sha256(b'two')} *{tmp_path}/s3 client.jar\n"
    )
    return path


def test_listed_archives_are_let_in_by_their_hash(more: Path) -> None:
    assert [path.read_bytes() for path in listed(more)] == [b"one", b"two"]


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (
            lambda path: (path.parent / "hadoop-aws-3.5.0.jar").write_bytes(b"x"),
            f"hadoop-aws-3.5.0.jar: expected SHA-256 {sha256(b'one')} by .*, found {sha256(b'x')}",
        ),
        (
            lambda path: (path.parent / "hadoop-aws-3.5.0.jar").unlink(),
            r"hadoop-aws-3.5.0.jar: .*jars.sha256 lists it, and there is no such file",
        ),
        (
            lambda path: path.write_text("hadoop-aws-3.5.0.jar\n"),
            r"jars.sha256: expected lines as of sha256sum \*.jar, .*got 'hadoop-aws-3.5.0.jar'",
        ),
        (lambda path: path.unlink(), "jars.sha256 cannot be read"),
    ],
)
def test_other_archives_are_refused(
    more: Path, spoil: Callable[[Path], object], problem: str
) -> None:
    spoil(more)
    with pytest.raises(ArchivesProblem, match=problem):
        listed(more)
