"""What only `make test-all` runs, and which test of a plain run guards it, read from the sources.

A test that a plain run leaves out names its guard: the test that still fails there when the promise
is broken.

    @pytest.mark.extensive(guard="tests/web/test_some.py::test_the_promise")

The same as a file's `pytestmark` is of all its tests. A single case of a test (`pytest.param`)
needs no guard: the other cases are it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OUT = {"extensive", "long"}
"""Marks of tests that a plain run leaves out."""

Test = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mark:
    """`pytest.mark.name`, of a test or of a file; guard: the test that it names."""

    name: str
    guard: str | None = None


def guarded(root: Path, folder: str) -> Iterator[tuple[str, str | None]]:
    """Yield each test or file below a folder that is marked `extensive`, and its guard."""
    for file in sorted((root / folder).rglob("test_*.py")):
        if "mark.extensive" not in file.read_text():
            continue
        name, tree = file.relative_to(root).as_posix(), _parsed(file)
        places = [(name, _file_marks(tree))]
        places += [(f"{name}::{test}", _marks(node)) for test, node in _tests(tree).items()]
        for place, marks in places:
            yield from ((place, mark.guard) for mark in marks if mark.name == "extensive")


def fault(root: Path, guard: str | None) -> str | None:
    """Return why this is no guard, or None where it is one."""
    if guard is None:
        return "names no guard"
    if not exists(root, guard):
        return f"{guard} does not exist"
    return f"{guard} is left out itself" if left_out(root, guard) else None


def exists(root: Path, test: str) -> bool:
    """Return whether there is such a test; test: as pytest names it, from the root."""
    file, name = _parts(test)
    return (root / file).is_file() and name in _tests(_parsed(root / file))


def left_out(root: Path, test: str) -> bool:
    """Return whether a plain run leaves out this test, which exists."""
    file, name = _parts(test)
    tree = _parsed(root / file)
    marks = [*_file_marks(tree), *_marks(_tests(tree)[name])]
    return any(mark.name in OUT for mark in marks)


def _parts(test: str) -> tuple[str, str]:
    """A test's file and its function; cases and classes are left out."""
    file, _, name = test.partition("[")[0].partition("::")
    return file, name.rpartition("::")[2]


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _tests(tree: ast.Module) -> dict[str, Test]:
    """The tests that a file defines, by the name of their function."""
    functions = (node for node in ast.walk(tree) if isinstance(node, Test))
    return {node.name: node for node in functions if node.name.startswith("test_")}


def _marks(test: Test) -> list[Mark]:
    return [mark for node in test.decorator_list if (mark := _mark(node))]


def _file_marks(tree: ast.Module) -> list[Mark]:
    """The marks of all tests of a file: its `pytestmark`, one or a list."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            values = node.value.elts if isinstance(node.value, ast.List) else [node.value]
            return [mark for value in values if (mark := _mark(value))]
    return []


def _mark(node: ast.expr) -> Mark | None:
    keywords = node.keywords if isinstance(node, ast.Call) else []
    named = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    if not named.startswith("pytest.mark."):
        return None
    guards = [ast.literal_eval(each.value) for each in keywords if each.arg == "guard"]
    return Mark(named.removeprefix("pytest.mark."), *guards)
