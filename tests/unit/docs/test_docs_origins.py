"""docs/origins.md has a row for each statement of its sources, and all that a row names exists."""

from __future__ import annotations

import ast
import re
import shlex
from functools import lru_cache

import pytest
from django.core.management import get_commands, load_command_class
from django.urls import resolve

from support.run.origins import ROOT, Row, rows

STATEMENTS = {"000": 29, "001": 13, "002": 16, "003": 38, "004": 42}
ROWS = rows()


def test_every_statement_has_one_row() -> None:
    wanted = {f"{source}-{at}" for source, most in STATEMENTS.items() for at in range(1, most + 1)}
    numbers = [row.number for row in ROWS]
    assert sorted(numbers) == sorted(wanted)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_a_row_names_exists(row: Row) -> None:
    assert row.files, "each statement is met somewhere"
    assert [file for file in row.files if not (ROOT / file).exists()] == []
    assert row.tests, "a statement that is met has a test"
    named = [test.split("::")[:2] for test in row.tests]
    assert [test for test in named if test[1] not in functions(test[0])] == []
    for shown in row.see:
        see(shown)


@lru_cache
def functions(file: str) -> set[str]:
    """The functions of a test's file, by name."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if hasattr(node, "name")}


def see(shown: str) -> None:
    """Fail where a page, an operation or a command does not exist, or does not take its words."""
    tool, *words = shlex.split(shown)
    if tool == "make":
        assert re.search(rf"^({words[0]}|.*\b{words[0]}\b.*):", makefile(), re.MULTILINE), shown
    elif tool == "manage.py":
        name = words[0]
        parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
        parser.parse_args(words[1:])
    else:
        resolve((words[0] if tool == "GET" else tool).split("?")[0])


def makefile() -> str:
    """The Makefile, with a rule for each bench."""
    text = (ROOT / "Makefile").read_text()
    benches = re.findall(r"^BENCHES := (.*)$", text, re.MULTILINE)[0].split()
    return text + "".join(f"bench-{bench}:\n" for bench in benches)
