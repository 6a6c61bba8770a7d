"""A release: its parts, built of a commit."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from ops import release
from ops.release import ReleaseProblem, ignored, release_notes, require_committed
from support.run.stack import ROOT

CHANGELOG = "# Changelog\n\n## 1.1.0\n\nNewer.\n\n## 1.0.0 (2026)\n\n- The first.\n\n## 0.9\n\n"


def test_the_notes_are_the_section_of_the_version() -> None:
    assert release_notes(CHANGELOG, "1.0.0") == "- The first.\n"
    assert release_notes(CHANGELOG, "1.1.0") == "Newer.\n"


@pytest.mark.parametrize("version", ["1.0", "2.0.0", "0.9"])
def test_a_version_without_notes_is_no_release(version: str) -> None:
    with pytest.raises(ReleaseProblem, match=rf"expected a section ## {version} with some text"):
        release_notes(CHANGELOG, version)


def test_this_version_has_notes() -> None:
    version = (ROOT / "pyproject.toml").read_text().partition('version = "')[2].partition('"')[0]
    assert version == "1.0.0"
    assert release_notes((ROOT / "CHANGELOG.md").read_text(), version)


def test_what_docker_ignores_is_ignored_with_what_is_below() -> None:
    assert ignored("# why\ntests\n\n**/__pycache__\n") == [
        "tests", "tests/**", "**/__pycache__", "**/__pycache__/**",
    ]  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit."""
    root = tmp_path / "tree"
    for name in ("Dockerfile", "ops/a.py", "ops/tests/kept.py", "tests/b.py", "docs/deep/c.md"):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    (root / ".dockerignore").write_text("tests\ndocs\n.git\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "--quiet", "-m", "a")
    return root


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True)


def test_the_context_of_the_image_has_what_docker_would_copy(tree: Path, tmp_path: Path) -> None:
    (tree / "not-committed").touch()
    file = release.write_image_context(tmp_path / "image.tar", tree)
    with tarfile.open(file) as archive:
        names = {each.name for each in archive.getmembers() if each.isfile()}
    assert names == {".dockerignore", "Dockerfile", "ops/a.py", "ops/tests/kept.py"}
    again = release.write_image_context(tmp_path / "again.tar", tree)
    assert file.read_bytes() == again.read_bytes()


def test_a_release_is_of_a_commit(tree: Path) -> None:
    require_committed(tree)
    (tree / "ops" / "a.py").write_text("changed")
    with pytest.raises(ReleaseProblem, match=r"not committed:\n M ops/a\.py$"):
        require_committed(tree)


def test_what_git_says_is_shown(tmp_path: Path) -> None:
    with pytest.raises(ReleaseProblem, match="git status: fatal: not a git repository"):
        require_committed(tmp_path)


def test_the_dockerfile_finds_what_it_copies_in_the_context() -> None:
    """Each file or folder that a COPY names is committed, and not ignored."""
    copied = [
        name
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ")
        for name in line.split()[1:-1]
    ]
    assert copied
    left_out = ignored((ROOT / release.IGNORED).read_text())
    assert [name for name in copied if name.rstrip("/") in left_out] == []
    assert [name for name in copied if not (ROOT / name).exists()] == []
