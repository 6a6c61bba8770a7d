"""What a plain run leaves out has a guard in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.run.gate import ROOT, fault, guarded, left_out

FOLDERS = ("unit", "web", "integration", "e2e")


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_plain_run_leaves_out_names_its_guard_in_it(folder: str) -> None:
    guards = guarded(ROOT, f"tests/{folder}")
    assert [f"{test}: {why}" for test, guard in guards if (why := fault(ROOT, guard))] == []


LEFT_OUT = """\
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.extensive(guard="tests/test_in.py::test_kept")]

def test_other(): ...

@pytest.mark.extensive
async def test_own(): ...
"""

IN = """\
import pytest

@pytest.mark.parametrize("case", [1, pytest.param(2, marks=pytest.mark.extensive)])
def test_kept(case): ...

@pytest.mark.long
def test_long(): ...

class TestSome:
    @pytest.mark.extensive(guard="tests/test_in.py::" "test_kept")
    def test_of_a_class(self): ...
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory whose tests are marked."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_in.py").write_text(IN)
    (tmp_path / "tests" / "test_left_out.py").write_text(LEFT_OUT)
    return tmp_path


def test_the_marks_of_files_and_tests_are_found_and_those_of_cases_are_not(root: Path) -> None:
    kept = "tests/test_in.py::test_kept"
    assert list(guarded(root, "tests")) == [
        ("tests/test_in.py::test_of_a_class", kept),
        ("tests/test_left_out.py", kept),
        ("tests/test_left_out.py::test_own", None),
    ]


@pytest.mark.parametrize(
    ("guard", "why"),
    [
        (None, "names no guard"),
        ("tests/test_in.py::test_kept", None),
        ("tests/test_in.py::test_gone", "does not exist"),
        ("tests/test_gone.py::test_kept", "does not exist"),
        ("tests/test_in.py", "does not exist"),
        ("tests/test_in.py::test_long", "is left out itself"),
        ("tests/test_in.py::TestSome::test_of_a_class", "is left out itself"),
        ("tests/test_left_out.py::test_other", "is left out itself"),
    ],
)
def test_a_guard_is_a_test_of_a_plain_run(root: Path, guard: str | None, why: str | None) -> None:
    problem = fault(root, guard)
    assert problem == (f"{guard} {why}" if guard and why else why)


def test_a_trial_is_left_out_too(root: Path) -> None:
    assert left_out(root, "tests/test_in.py::test_long")
    assert not left_out(root, "tests/test_in.py::test_kept[1]")
