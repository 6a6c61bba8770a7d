"""Plain SQL: statements for many rows, and a lock between transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any, TypeVar

from django.db import connection

# ---- sql -----------------------------------------------------------------------------------------
# Plain SQL: statements for many rows, and a lock between transactions.

Rows = Sequence[Sequence[Any]]

PORTIONS = (200, 10)
"""Rows of one of SQLite's statements: few sizes, as it keeps each statement that it has read."""
COPIED = 50
"""From so many rows on PostgreSQL gets them as a stream, which costs it two statements more."""

_NEVER_ANALYZED = """\
SELECT relname FROM pg_class
WHERE oid = ANY (%s::text[]::regclass[]) AND reltuples < 0 AND pg_relation_size(oid) > 0
ORDER BY relname"""


def execute_many(sql: str, rows: Rows) -> None:
    """Execute a statement for each row, in order.

    For very many rows this takes a tenth of the time of model instances.
    """
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(sql, rows)


def insert_many(table: str, columns: Sequence[str], rows: Rows, clause: str) -> None:
    """Insert rows in as few statements as may be; nothing where there are none.

    A statement for each row takes twice as long, or more where a trigger writes too. clause: what
    is done about a row that is there: `ON CONFLICT …`. No two rows may have the same key.
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


def on_conflict(
    table: str, columns: Sequence[str], key: Sequence[str], rising: Sequence[str] = ()
) -> str:
    """Return the clause by which a row replaces the one of its key: all of its other columns.

    rising: columns of which the new row must have higher values; without any it always replaces.
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
    mark = "%s" if size == 1 else "?"  # of Django's cursor, of SQLite's own
    row = f"({', '.join([mark] * len(columns))})"
    values = ", ".join([row] * size)
    return f'INSERT INTO "{table}" ({_listed(columns)}) VALUES {values} {clause}'  # noqa: S608 - our own names


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _insert_portions(sql: str, rows: Rows, size: int) -> None:
    """Insert rows, `size` at a time, on SQLite.

    By its own cursor: Django's would look for each placeholder in the statement every time.
    """
    with connection.cursor() as cursor, connection.wrap_database_errors:
        execute = partial(sqlite3.Cursor.execute, cursor.cursor, sql)
        for begin in range(0, len(rows), size):
            execute([*chain.from_iterable(rows[begin : begin + size])])


def _copy(table: str, columns: Sequence[str], rows: Rows, clause: str) -> None:
    """Insert rows through a table of this connection alone, which the server empties by the end of
    a transaction. Within one it may be used again: so it is emptied first, mostly of nothing."""
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
    """Spare SQLite's module a search, in a process that writes many rows.

    Of a value without an adapter it looks for two attributes, in vain: for each None and each
    boolean that takes 0.3 µs, and half of a row of the board is nothing else.
    """
    # None for None, without any Python; mypy does not see which overload that is.
    sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]
    sqlite3.register_adapter(bool, int)


def use_indexes() -> None:
    """Have PostgreSQL prefer indexes until the transaction ends, whatever its statistics say.

    It knows nothing of a table that has just begun to grow, and would compare each of its rows with
    each of thousands of requested ones.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")


def analyze_new_tables(tables: Sequence[str]) -> list[str]:
    """Run ANALYZE on those of these tables that have rows and no statistics; return their names.

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
    """Wait for a lock that one transaction has at a time, and hold it until this one ends.

    SQLite has one writer at a time anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))", [kind, name])


# ---- chunks --------------------------------------------------------------------------------------
# Long lists a portion at a time, as a statement or a batch takes them.

T = TypeVar("T")

# Items of one statement: SQLite takes a limited number of parameters.
STATEMENT = 900
# Of one whose list is a single parameter: see `dashboard.core.states.queries.listed`.
LONG = 5_000


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` items, reading the iterable lazily."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
