"""Figures as the cells of a table in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.results import Row

NOTHING = "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(amount: float) -> str:
    """Return a number with at least three significant digits: 0.00123, 1.23, 123, 12,345."""
    if abs(amount) >= 100:
        return f"{amount:,.0f}"
    return f"{amount:#.3g}".rstrip(".") if amount else "0"


def figure(amount: float | None, unit: str) -> str:
    """Return a figure with its unit, or a dash where it was not taken."""
    return NOTHING if amount is None else f"{number(amount)} {unit}"


def target(row: Row) -> str:
    """Return what a row aims at."""
    if row.target is None:
        return NOTHING
    return f"{'≥' if row.more else '≤'} {row.target:,g} {row.unit}"


def met(row: Row, amount: float) -> bool:
    """Return whether a figure meets the row's target. Raises ValueError where there is none."""
    if row.target is None:
        raise ValueError(f"{row.what} has no target")
    return amount >= row.target if row.more else amount <= row.target


def verdict(row: Row, amount: float | None) -> str:
    """Return in a word whether a figure meets the row's target."""
    if row.target is None or amount is None:
        return NOTHING
    return "met" if met(row, amount) else "**missed**"
