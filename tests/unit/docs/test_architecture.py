"""What import-linter's contracts (pyproject.toml) cannot say of the imports."""

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


def test_files_that_documents_name_are_there() -> None:
    rooms = "|".join(sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} - {"rules"}))
    named = re.compile(rf"`((?:{rooms}|static|templates)/[\w/.-]*\w)`")
    missing = {
        f"{document.name}: {name}"
        for document in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for name in named.findall(document.read_text())
        if not (ROOT / name).exists()
    }
    assert missing == set()
