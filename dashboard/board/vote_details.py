"""What agents add to their reports, as the page of an asset shows it: names, values, tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dashboard.core.tables import Column
from dashboard.labels.reported_labels import FIELD
from wire.sink import StateValue, VoteValue

TIME_WORDS = frozenset({"at", "since", "until", "begin", "end", "time"})
"""A name that ends in one of these has a time, Unix ms, where it is a number of that size."""
EARLIEST, LATEST = 946_684_800_000, 4_102_444_800_000
"""2000 and 2100, Unix ms: a number outside is no time, whatever its name."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a detail; at: the time that it is, Unix ms, None for any other."""

    text: str
    at: int | None = None
    number: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of objects, as a table: a column for each of their names."""

    name: str
    columns: tuple[Column, ...]
    rows: list[list[Value]]


@dataclass(frozen=True, slots=True)
class Detail:
    """What one agent adds: names with single values, and tables."""

    agent: str
    values: list[tuple[str, Value]]
    tables: list[Rows]


def details_of(record: StateValue) -> list[Detail]:
    """Return what each vote's agent adds to it, by agent; without labels, which have a place of
    their own."""
    details = (_detail(vote) for vote in sorted(record.votes, key=lambda vote: vote.agent))
    return [detail for detail in details if detail.values or detail.tables]


def _detail(vote: VoteValue) -> Detail:
    fields = vote.detail_object() or {}
    shown = {name: value for name, value in fields.items() if name != FIELD}
    tables = {name: value for name, value in shown.items() if _is_table(value)}
    values = [(_title(name), _value(name, shown[name])) for name in shown if name not in tables]
    return Detail(vote.agent, values, [_rows(name, rows) for name, rows in tables.items()])


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _rows(name: str, rows: list[dict[str, Any]]) -> Rows:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_value(name, row.get(name)) for name in names] for row in rows]
    columns = tuple(
        Column(_title(name), numeric=all(row[place].number for row in cells))
        for place, name in enumerate(names)
    )
    return Rows(_title(name), columns, cells)


def _value(name: str, value: Any) -> Value:
    if value is None or value in ([], {}):
        return Value("")
    if isinstance(value, bool):
        return Value("yes" if value else "no")
    if isinstance(value, int | float):
        return Value(f"{value:,}", _time(name, value), number=_time(name, value) is None)
    return Value(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _time(name: str, value: float) -> int | None:
    """Return the time, Unix ms, that a value of this name is, or None."""
    is_time = name.replace("-", "_").rpartition("_")[2].lower() in TIME_WORDS
    return int(value) if is_time and EARLIEST <= value < LATEST else None


def _title(name: str) -> str:
    """Return a name of JSON as a page has it: `Verified until`."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]
