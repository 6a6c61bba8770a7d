"""The rows of docs/origins.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "origins.md"
QUOTED = re.compile(r"`([^`]+)`")
CELL = re.compile(r"(?<!\\)\|")


class Row(NamedTuple):
    """A statement and where it is met."""

    number: str
    files: list[str]
    tests: list[str]
    see: list[str]

    def __str__(self) -> str:
        return self.number


def rows() -> list[Row]:
    """The rows of the page, in its order."""
    listed = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in CELL.split(line)[1:-1]]
        if not cells or not re.fullmatch(r"00[0-4]-\d+", cells[0]):
            continue
        named = [QUOTED.findall(cell) for cell in cells[3:]] if len(cells) == 6 else [[], [], []]
        listed.append(Row(cells[0], *named))
    return listed
