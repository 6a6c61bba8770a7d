"""The shape of the product: the limits in pyproject.toml, words that stay out."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHAPE = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["tallyboard"]["shape"]
PRODUCT = (
    "agents", "bus", "config", "dashboard", "domain", "ops", "pipelines", "rules", "stores",
    "streaming", "wire",
)  # fmt: skip
SHORT = 40
"""Lines below which a module had better be a part of another."""
MAY_BE_SHORT = {"__init__.py", "__main__.py", "apps.py", "tasks.py", "urls.py"}
"""What Django, Celery and Python look for by its name."""


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def package_of(module: str) -> str:
    """The package of a module of the web side: `dashboard.watch.bulk`."""
    parts = module.split(".")
    return ".".join(parts[:2] if parts[1:2] == ["retail"] else parts[:3])


@cache
def packages() -> frozenset[str]:
    return frozenset(
        package_of(name_of(path))
        for path in modules("dashboard")
        if path.parent.parent != ROOT and path.parent.parent.parent != ROOT
    ) | {"dashboard.retail"}


@cache
def edges() -> dict[str, frozenset[str]]:
    """Which packages of the web side each imports."""
    imported: dict[str, set[str]] = defaultdict(set)
    for path in modules("dashboard"):
        package = package_of(name_of(path))
        for node in ast.walk(tree(path)):
            if package in packages() and isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{each.name}" for each in node.names]
                imported[package] |= {package_of(name) for name in names} & packages() - {package}
    return {package: frozenset(imported[package]) for package in packages()}


def rank(package: str) -> int:
    """How many packages stand on each other up to this one."""
    return 1 + max((rank(below) for below in edges()[package]), default=0)


def class_names() -> Counter[str]:
    return Counter(
        node.name
        for path in modules(*PRODUCT)
        if "commands" not in path.parent.name
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def names() -> Iterator[str]:
    """The names of modules, classes, functions and constants of the product."""
    for path in modules(*PRODUCT):
        yield path.stem
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name


def variables() -> Iterator[str]:
    """The names of variables, parameters and fields of the product, each time that one is set."""
    for path in modules(*PRODUCT):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.arg):
                yield node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def words(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))


def short_modules() -> list[Path]:
    return [
        path
        for path in modules("dashboard")
        if path.name not in MAY_BE_SHORT
        and not {"commands", "templatetags"} & {path.parent.name}
        and len(path.read_text().splitlines()) < SHORT
    ]


MEASURES = {
    "dashboard_files": lambda: sum(1 for _ in modules("dashboard")),
    "dashboard_packages": lambda: len(packages()),
    "dashboard_edges": lambda: sum(map(len, edges().values())),
    "dashboard_ranks": lambda: max(map(rank, packages())),
    "short_modules": lambda: len(short_modules()),
    "repeated_class_names": lambda: sum(1 for count in class_names().values() if count > 1),
    "private_words": lambda: sum(1 for name in names() if words(name) & set(SHAPE["banned"])),
    "vague_variables": lambda: sum(1 for name in variables() if name in SHAPE["vague"]),
}


@pytest.mark.parametrize("measure", MEASURES)
def test_a_number_is_within_its_limit(measure: str) -> None:
    assert MEASURES[measure]() <= SHAPE[measure]


@pytest.mark.parametrize("name", ["an_errand", "take_in", "takeIn", "AnErrand"])
def test_a_private_word_is_seen_however_it_is_written(name: str) -> None:
    assert words(name) & {"errand", "take"}


def test_a_package_is_named_once_by_the_page_of_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page[page.index("### The web side") : page.index("### Where is what")]
    rooms = re.findall(
        r"^\*\*(\w+)\*\*: (?:.*\n)*?(?=\n\*\*|\nWhere a lower|\Z)", section, re.MULTILINE
    )
    listed = []
    for room in rooms:
        begin = section.index(f"**{room}**")
        following = section.find("\n**", begin + 1)
        part = section[begin : following if following > 0 else len(section)]
        own = re.findall(r"^- `(\w+)`:", part, re.MULTILINE)
        listed += [f"dashboard.{room}.{name}" for name in own] or [f"dashboard.{room}"]
    assert sorted(listed) == sorted(packages())


def test_the_menu_has_the_rooms_of_the_code() -> None:
    from dashboard.core.common.navigation import GROUPS

    rooms = {package.split(".")[1] for package in packages()}
    assert {title.lower() for title in GROUPS} <= rooms
