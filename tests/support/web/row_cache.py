"""Expensive rows: written by the first test that needs them, and copied for the others.

Each test runs in a transaction that is rolled back, so what a fixture writes is gone with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from django.db import connection

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

SEARCH_INDEX = "states_nameparts"
"""The index of names is not copied. A test that searches writes its own rows."""

_written: dict[str, tuple[Any, dict[str, Rows]]] = {}


def cached_rows(name: str, write: Callable[[], T]) -> T:
    """Put the rows of `write` into the database, and return what it returned.

    It is called once in a process; afterwards its rows are copied. name: identifies the rows.
    """
    if name not in _written:
        before = _tables()
        returned = write()
        changed = {table: rows for table, rows in _tables().items() if rows != before[table]}
        _written[name] = returned, changed
        return returned
    returned, tables = _written[name]
    with connection.cursor() as cursor:
        for table, rows in tables.items():
            cursor.execute(f"DELETE FROM {_quoted(table)}")
            _insert(table, rows)
    return returned


def _tables() -> dict[str, Rows]:
    """Return the rows of each table, without what the database generates itself."""
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        return {
            name: cursor.execute(f"SELECT {_columns(name)} FROM {_quoted(name)}").fetchall()
            for name in names
            if not name.startswith(SEARCH_INDEX)
        }


def _insert(table: str, rows: Rows) -> None:
    if rows:
        places = ", ".join(["%s"] * len(rows[0]))
        columns = _columns(table)
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {_quoted(table)} ({columns}) VALUES ({places})",
                rows,
            )


@cache
def _columns(table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA table_info({_quoted(table)})")
        return ", ".join(_quoted(name) for _, name, *_ in cursor.fetchall())


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)
