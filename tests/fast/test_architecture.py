"""Which package may import which; the table is the architecture."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

ALLOWED = {
    "domain": set(),
    "wire": {"domain"},
    "bus": set(),
    "config": set(),
    "rules": {"domain"},
    "streaming": {"domain", "wire", "bus", "config"},
    "dashboard": {"domain", "wire", "bus", "config"},
    "agents": {"domain", "wire", "bus", "config"},
    "ops": {"domain", "wire", "bus", "config"},
}
FORBIDDEN = {
    "domain": {"django", "pyspark", "confluent_kafka", "msgspec", "structlog"},
    "wire": {"django", "pyspark", "confluent_kafka"},
    "bus": {"django", "pyspark"},
    "config": {"django", "pyspark", "confluent_kafka"},
    "rules": {"django", "pyspark", "confluent_kafka"},
    "streaming": {"django", "channels", "celery"},
    "dashboard": {"pyspark"},
    "agents": {"django", "pyspark"},
    "ops": {"django", "pyspark"},
}
KAFKA_MODULES = {"bus/kafka.py"}


def modules(package: str) -> list[Path]:
    """The Python files of a package."""
    return sorted((ROOT / package).rglob("*.py"))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module that a file imports, at its top or inside a function."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield str(node.module)


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_what_it_may(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imports(path)
        if name.partition(".")[0] in (set(ALLOWED) - ALLOWED[package] - {package})
        or name.partition(".")[0] in FORBIDDEN[package]
    ]
    assert wrong == []


def test_domain_needs_the_standard_library_alone() -> None:
    import sys

    known = set(sys.stdlib_module_names) | {"domain"}
    foreign = {
        f"{path.name}: {name}"
        for path in modules("domain")
        for name in imports(path)
        if name.partition(".")[0] not in known
    }
    assert foreign == set()


def test_kafka_is_imported_in_one_module() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in ALLOWED
        for path in modules(package)
        if any(name.partition(".")[0] == "confluent_kafka" for name in imports(path))
    }
    assert found == KAFKA_MODULES


def test_no_package_is_missing_from_the_table() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"tests"} <= set(ALLOWED)
    assert all(modules(package) for package in ("domain", "wire", "config", "ops", "bus"))
