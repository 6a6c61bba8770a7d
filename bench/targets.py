"""Every target that a bench has, and whether it is met: the overview of bench/results/tables.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bench import cells
from bench.peers.tables import KERNEL, peers_rows
from bench.results import Row, read

HEAD = ("part", "what", "target", "measured", "target met")
_MARK = re.compile(r"^## (?P<heading>.+)$|^<!-- bench:(?P<bench>\w+) -->$", re.MULTILINE)
_DROPPED = re.compile(r"[^\w\- ]")


def targets_table(document: str, folder: Path) -> str:
    """Return the targets as a table in the document's order, after a line that counts them.

    Each part begins with a link to the heading above its bench's mark.
    """
    parts: dict[str, list[Row]] = {}
    for heading, bench in benches(document):
        aimed = [row for row in _rows(bench, folder) if row.target is not None and row.figures]
        parts.setdefault(heading, []).extend(aimed)
    verdicts = [cells.met(row, _ours(row)) for rows in parts.values() for row in rows]
    lines = [line for heading, rows in parts.items() for line in _lines(heading, rows)]
    return f"{sum(verdicts)} of {len(verdicts)} targets are met.\n\n{cells.table(HEAD, lines)}"


def benches(document: str) -> Iterator[tuple[str, str]]:
    """Yield each bench that the document has a table of, with the heading above it."""
    heading = ""
    for mark in _MARK.finditer(document):
        if mark["heading"]:
            heading = mark["heading"]
        else:
            yield heading, mark["bench"]


def anchor(heading: str) -> str:
    """Return the name by which a link finds a heading, as GitHub makes it."""
    return _DROPPED.sub("", heading.lower()).replace(" ", "-")


def _rows(bench: str, folder: Path) -> list[Row]:
    result = read(bench, folder)
    if result is None:
        return []
    return peers_rows(result) if bench == "peers" else result.rows


def _ours(row: Row) -> float:
    """Return the figure that counts: the kernel's where several engines have one."""
    return row.figures.get(KERNEL, next(iter(row.figures.values())))


def _lines(heading: str, rows: list[Row]) -> Iterator[list[str]]:
    """Yield the lines of one part, which only the first of them names."""
    part = f"[{heading}](#{anchor(heading)})"
    for row in rows:
        ours = _ours(row)
        measured = cells.figure(ours, row.unit)
        yield [part, row.what, cells.target(row), measured, cells.verdict(row, ours)]
        part = ""
