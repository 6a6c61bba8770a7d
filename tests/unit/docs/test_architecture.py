"""What import-linter's contracts (pyproject.toml) cannot say of imports and packages."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield str(node.module)


def test_domain_needs_the_standard_library_alone() -> None:
    known = set(sys.stdlib_module_names) | {"domain"}
    foreign = {
        f"{path.name}: {name}"
        for path in (ROOT / "domain").rglob("*.py")
        for name in imports(path)
        if name.partition(".")[0] not in known
    }
    assert foreign == set()


def test_no_package_is_missing_from_the_contracts() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"tests"} == set(linter["root_packages"])


def test_every_package_of_the_web_side_is_listed_once() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("### The web side")[2].partition("\nWhere a lower")[0]
    listed = []
    for room, text in re.findall(r"^\*\*(\w+)\*\*:((?:\n(?!\*\*)|.)*)", section, re.MULTILINE):
        packages = re.findall(r"^- `(\w+)`:", text, re.MULTILINE)
        listed += [f"{room}/{package}" for package in packages] or [room]
    assert sorted(listed) == sorted(packages_of_the_web_side())


def packages_of_the_web_side() -> Iterator[str]:
    """The packages of each room; a room that is one package by itself."""
    for room in (path.parent for path in (ROOT / "dashboard").glob("*/__init__.py")):
        packages = {path.parent.name for path in room.glob("*/__init__.py")} - {"migrations"}
        yield from (f"{room.name}/{package}" for package in packages) if packages else [room.name]
