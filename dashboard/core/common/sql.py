"""Plain SQL: statements for many rows, and a lock between transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any, TypeVar

from django.db import connection
from django.db.models.functions import Collate

# ---- sql -----------------------------------------------------------------------------------------
# Plain SQL: statements for many rows, and a lock between transactions.

Rows = Sequence[Sequence[Any]]

PORTIONS = (200, 10)
"""Rows per SQLite statement: only a few sizes, as it caches each statement it has parsed."""
COPIED = 50
"""PostgreSQL gets this many rows or more as a stream, which takes two more statements."""

_NEVER_ANALYZED = """\
SELECT relname FROM pg_class
WHERE oid = ANY (%s::text[]::regclass[]) AND reltuples < 0 AND pg_relation_size(oid) > 0
ORDER BY relname"""


def execute_many(sql: str, rows: Rows) -> None:
    """Execute a statement for each row, in order.

    For very many rows this takes a tenth of the time that model instances take.
    """
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(sql, rows)


def insert_many(table: str, columns: Sequence[str], rows: Rows, clause: str) -> None:
    """Insert rows in as few statements as possible; do nothing if there are none.

    One statement per row takes twice as long, or more if a trigger writes too. clause: what to do
    about a row that exists: `ON CONFLICT …`. No two rows may have the same key.
    """
    if len(rows) >= COPIED and connection.vendor == "postgresql":
        _copy(table, columns, rows, clause)
        return
    rest = rows
    for size in PORTIONS if connection.vendor == "sqlite" else ():
        whole = len(rest) - len(rest) % size
        _insert_portions(_insert(table, tuple(columns), clause, size), rest[:whole], size)
        rest = rest[whole:]
    execute_many(_insert(table, tuple(columns), clause, 1), rest)


def by_code_points(field: str) -> tuple[Any, ...]:
    """Return what rows are ordered by to come in the order of a name's code points.

    PostgreSQL has an order of its own for each language.
    """
    return (Collate(field, "C"),) if connection.vendor == "postgresql" else (field,)


def on_conflict(
    table: str, columns: Sequence[str], key: Sequence[str], rising: Sequence[str] = ()
) -> str:
    """Return the clause by which a row replaces all other columns of the row with its key.

    rising: columns in which the new row must have higher values; without any it always replaces.
    """
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in key)
    clause = f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
    if not rising:
        return clause
    new = ", ".join(f'excluded."{name}"' for name in rising)
    old = ", ".join(f'"{table}"."{name}"' for name in rising)
    return f"{clause} WHERE ({new}) > ({old})"


@lru_cache(maxsize=100)
def _insert(table: str, columns: tuple[str, ...], clause: str, size: int) -> str:
    mark = "%s" if size == 1 else "?"  # for Django's cursor, for SQLite's
    row = f"({', '.join([mark] * len(columns))})"
    values = ", ".join([row] * size)
    return f'INSERT INTO "{table}" ({_listed(columns)}) VALUES {values} {clause}'  # noqa: S608 - our own names


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _insert_portions(sql: str, rows: Rows, size: int) -> None:
    """Insert rows, `size` at a time, on SQLite.

    Uses SQLite's own cursor: Django's would look for each placeholder in the statement every time.
    """
    with connection.cursor() as cursor, connection.wrap_database_errors:
        execute = partial(sqlite3.Cursor.execute, cursor.cursor, sql)
        for begin in range(0, len(rows), size):
            execute([*chain.from_iterable(rows[begin : begin + size])])


def _copy(table: str, columns: Sequence[str], rows: Rows, clause: str) -> None:
    """Insert rows through a temporary table that the server empties when a transaction ends.

    The table may be used again within a transaction, so it is emptied first, usually of nothing.
    """
    incoming, names = f'"incoming_{table}"', _listed(columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} ON COMMIT DELETE ROWS"  # noqa: S608
            f' AS SELECT {names} FROM "{table}" WITH NO DATA'
        )
        cursor.execute(f"DELETE FROM {incoming}")  # noqa: S608 - our own names
        with (
            connection.wrap_database_errors,
            cursor.copy(f"COPY {incoming} ({names}) FROM STDIN") as stream,
        ):
            for row in rows:
                stream.write_row(row)
        cursor.execute(
            f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {incoming} {clause}'  # noqa: S608
        )


def register_adapters() -> None:
    """Spare the sqlite3 module a search, in a process that writes many rows.

    For a value without an adapter it looks for two attributes in vain: that takes 0.3 µs for each
    None and each boolean, and they make up half of a board row.
    """
    # None for None, without running any Python; mypy does not see which overload that is.
    sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]
    sqlite3.register_adapter(bool, int)


def use_indexes() -> None:
    """Make PostgreSQL prefer indexes until the transaction ends, whatever its statistics say.

    It knows nothing about a table that has just begun to grow, and would compare each of its rows
    with each of thousands of requested ones.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")


def analyze_new_tables(tables: Sequence[str]) -> list[str]:
    """Run ANALYZE on those of these tables that have rows but no statistics; return their names.

    PostgreSQL does so by itself up to a minute after a table began to grow. Until then it may
    search an index by a column that has the same value in all rows, once for each of thousands of
    names.
    """
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(_NEVER_ANALYZED, [sorted(tables)])
        new = [name for (name,) in cursor.fetchall()]
        for name in new:
            cursor.execute(f'ANALYZE "{name}"')
    return new


def lock_until_commit(kind: str, name: str) -> None:
    """Wait for a lock that only one transaction can hold, and hold it until this one ends.

    SQLite has only one writer at a time anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))", [kind, name])


# ---- chunks --------------------------------------------------------------------------------------
# Long lists in portions, for a statement or a batch.

T = TypeVar("T")

# Items per statement: SQLite limits the number of parameters.
STATEMENT = 900
# Items for a statement whose list is a single parameter: see
# `dashboard.core.states.queries.listed`.
LONG = 5_000


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` items, reading the iterable lazily."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
