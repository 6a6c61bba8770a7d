"""Which test files what has changed can break, by imports, names and folders.

A test file is chosen if it has changed, if it imports what has changed, directly or through others,
or if it has the name of a changed file in its text (a template, a document, a table of settings).
Where a package of the web side has changed, so are the tests of its room, and those of every page:
they reach it through its addresses. `make test` stays the whole gate.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable
from pathlib import Path

import grimp

PACKAGES = (
    "agents", "bus", "config", "dashboard", "domain", "ops", "pipelines", "rules", "stores",
    "streaming", "wire",
)  # fmt: skip
EVERY_PAGE = ("tests/web/core/test_access.py", "tests/e2e/browser/test_every_page.py")
"""Tests that open every address."""
WEB_FILES = ("templates/", "static/", "dashboard/")
KERNEL = "streaming/kernel/"
OF_KERNEL = ("conformance", "kernel")
"""In the names of the tests that run the kernel."""


def affected_tests(root: Path) -> list[str]:
    """Return the paths of the chosen test files, from the root, sorted."""
    changed = changed_files(root)
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in (root / "tests").rglob("*.py")
    }
    imports = {file: imported(text) for file, text in texts.items()}
    affected = affected_modules(changed) | {module_of(file) for file in changed if file in texts}
    affected |= dependents(affected, {module_of(file): names for file, names in imports.items()})
    chosen = {file for file in texts if module_of(file) in affected}
    chosen |= {file for file, text in texts.items() if any(name in text for name in names(changed))}
    chosen |= by_folder(changed, texts)
    return sorted(file for file in chosen if Path(file).name.startswith("test_"))


def changed_files(root: Path) -> list[str]:
    """Return what differs from the branch that this one came from, and what git does not know."""
    base = git(root, "merge-base", "HEAD", "origin/main") or ["HEAD"]
    different = git(root, "diff", "--name-only", *base)
    return [*different, *git(root, "ls-files", "--others", "--exclude-standard")]


def git(root: Path, *arguments: str) -> list[str]:
    """Return the lines that git prints; none where it fails."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")[
        :-1
    ]


def module_of(file: str) -> str:
    """Return the name under which a Python file is imported; `tests` is on the path."""
    return ".".join(Path(file.removeprefix("tests/")).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def affected_modules(changed: Iterable[str]) -> set[str]:
    """Return the product's changed modules, and those that import them, directly or not."""
    graph = grimp.build_graph(*PACKAGES)
    modules = {module_of(file) for file in changed if file.endswith(".py")} & graph.modules
    return modules.union(*(graph.find_downstream_modules(module) for module in modules))


def imported(text: str) -> set[str]:
    """Return the modules that a file imports, anywhere in it, and what it imports of them."""
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return modules


def dependents(affected: set[str], imports: dict[str, set[str]]) -> set[str]:
    """Return the test modules that import one of these, directly or through another."""
    reached: set[str] = set()
    while True:
        more = {name for name, of in imports.items() if of & (affected | reached)} - reached
        if not more:
            return reached
        reached |= more


def names(changed: Iterable[str]) -> set[str]:
    """Return the names by which tests speak of changed files that are not imported."""
    return {Path(file).name for file in changed if not file.endswith(".py")}


def by_folder(changed: Iterable[str], tests: Iterable[str]) -> set[str]:
    """Return the tests that reach changed files without naming or importing them."""
    chosen: set[str] = set()
    for file in changed:
        if file.startswith(WEB_FILES):
            room = Path(file).parts[1]
            chosen.update(EVERY_PAGE, (test for test in tests if f"/{room}/" in test))
        if file.startswith(KERNEL):
            chosen.update(test for test in tests if any(word in test for word in OF_KERNEL))
    return chosen
