"""The entries of docs/origins.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "origins.md"
QUOTED = re.compile(r"`([^`]+)`")
ENTRY = re.compile(r"^- \*\*(00[0-4]-\d+)\*\* (.*?)(?=^- \*\*|^## |\Z)", re.MULTILINE | re.DOTALL)
SEEN = ("/", "GET ", "make ", "manage.py ")
"""How what can be seen begins: a page, a request, a command."""


class Row(NamedTuple):
    """A statement and where it is met."""

    number: str
    files: list[str]
    tests: list[str]
    see: list[str]

    def __str__(self) -> str:
        return self.number


def rows() -> list[Row]:
    """The entries of the page, in its order."""
    return [row(*entry) for entry in ENTRY.findall(PAGE.read_text(encoding="utf-8"))]


def row(number: str, text: str) -> Row:
    """One entry: its number, and what its last lines name as code, as tests and to see."""
    named = QUOTED.findall(text.partition("\\\n")[2])
    tests = [each for each in named if "::" in each]
    see = [each for each in named if each.startswith(SEEN)]
    return Row(number, [each for each in named if each not in (*tests, *see)], tests, see)
