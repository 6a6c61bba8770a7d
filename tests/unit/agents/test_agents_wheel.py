"""The package `tallyboard-agents`: what is in it, and that it needs nothing else."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from ops import agents_wheel
from ops.agents_wheel import PACKAGE, WheelProblem, build, rewritten, write_project
from support.run.stack import ROOT

DEPENDENCIES = {"confluent_kafka", "msgspec"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the package, as they are built."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    return folder


def imports(node: ast.AST) -> Iterator[str]:
    """Every module that is imported below a node, in functions too, but not for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0
            yield str(child.module)
        else:
            yield from imports(child)


def test_it_imports_itself_the_standard_library_and_two_packages(project: Path) -> None:
    source = project / "src"
    names = {
        name
        for path in source.rglob("*.py")
        for name in imports(ast.parse(path.read_text(), str(path)))
    }
    own = {name for name in names if name.partition(".")[0] == PACKAGE}
    foreign = {name.partition(".")[0] for name in names - own}
    assert foreign - set(sys.stdlib_module_names) == DEPENDENCIES
    for name in own:
        path = source / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), name


def test_it_holds_no_more_of_kafka_than_producers_need(project: Path) -> None:
    names = {path.stem for path in (project / "src" / PACKAGE / "bus").glob("*.py")}
    assert names == {"__init__", "base", "kafka_client", "kafka_errors", "kafka_producer"}


def test_it_names_the_packages_that_it_imports_in_versions_that_are_tested(project: Path) -> None:
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    needed = [Requirement(text) for text in declared["dependencies"]]
    assert {each.name.replace("-", "_") for each in needed} == DEPENDENCIES
    assert all(version(each.name) in each.specifier for each in needed)
    product = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert declared["version"] == product["version"]


def test_the_same_tree_gives_the_same_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))  # so nothing to build with is there
    wheel = build(tmp_path / "once")
    assert wheel.read_bytes() == build(tmp_path / "again").read_bytes()
    tops = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    assert {re.sub(r"-.*dist-info$", "-dist-info", top) for top in tops} == {
        PACKAGE,
        f"{PACKAGE}-dist-info",
    }


def test_imports_of_the_rooms_alone_are_rewritten() -> None:
    source = (
        '"""from bus.base import what is text."""\n'
        "import json\n"
        "from agents.spool import Spool\n"
        "from domain import doubts\n"
        "def f():\n"
        "    from wire.source import (\n        MAX_TIME,\n    )\n"
        "    from agents import Reporter\n"
    )
    assert rewritten(source, "agents.some") == (
        '"""from bus.base import what is text."""\n'
        "import json\n"
        "from tallyboard_agents.spool import Spool\n"
        "from tallyboard_agents.domain import doubts\n"
        "def f():\n"
        "    from tallyboard_agents.wire.source import (\n        MAX_TIME,\n    )\n"
        "    from tallyboard_agents import Reporter\n"
    )


def test_an_import_that_cannot_be_rewritten_is_refused() -> None:
    with pytest.raises(WheelProblem, match=r"agents\.some, line 2: expected from … import"):
        rewritten("import json\nimport bus.base\n", "agents.some")


def test_what_the_builder_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "pyproject.toml"
    broken.write_text('[project]\nname = "tallyboard-agents"\nversion = "0"\nx = 1\n[build-system]')
    monkeypatch.setattr(agents_wheel, "PROJECT", broken)
    with pytest.raises(WheelProblem, match="uv cannot build"):
        build(tmp_path / "wheel")
    assert not (tmp_path / "wheel").exists()
