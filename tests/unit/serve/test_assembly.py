"""What packages declare and the processes name: every one is named, and every name leads to one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.utils.module_loading import import_string

from dashboard.serve.api.api import ROUTERS
from dashboard.serve.api.health import COLLECTORS, COPIES
from dashboard.serve.materialiser.management.commands.materialise import READERS
from dashboard.serve.materialiser.worker import READ_LETTER
from dashboard.serve.materialiser.writer import STEPS

ROOT = Path(__file__).resolve().parents[3]


def routers(statement: ast.stmt) -> str | None:
    """The name of a router of operations."""
    if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "OperationRouter()":
        return ast.unparse(statement.targets[0])
    return None


def steps(statement: ast.stmt) -> str | None:
    """The name of a function that writes of a batch's changes."""
    if not isinstance(statement, ast.FunctionDef) or statement.name.startswith("_"):
        return None
    takes = [ast.unparse(each.annotation) for each in statement.args.args if each.annotation]
    return statement.name if takes == ["BatchChanges"] else None


def collectors(statement: ast.stmt) -> str | None:
    """The name of a function that yields metrics."""
    if not isinstance(statement, ast.FunctionDef) or statement.returns is None:
        return None
    yields = ast.unparse(statement.returns) in ("Iterator[Metric]", "Iterator[MetricFamily]")
    return statement.name if yields else None


def declared(find: Callable[[ast.stmt], str | None]) -> Iterator[str]:
    for path in (ROOT / "dashboard").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if (name := find(statement)) is not None:
                yield f"{module}.{name}"


@pytest.mark.parametrize(
    ("find", "named"), [(routers, ROUTERS), (steps, STEPS), (collectors, COLLECTORS)]
)
def test_what_packages_declare_is_named_once(
    find: Callable[[ast.stmt], str | None], named: tuple[str, ...]
) -> None:
    assert sorted(declared(find)) == sorted(named)


@pytest.mark.parametrize(
    "name", [*ROUTERS, *STEPS, *COLLECTORS, *COPIES, *READERS, READ_LETTER], ids=str
)
def test_each_name_leads_to_what_it_names(name: str) -> None:
    assert import_string(name).__module__ == name.rpartition(".")[0] or name in ROUTERS
