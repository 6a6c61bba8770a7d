"""Plain SQL: statements for many rows, and a lock between transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection


def execute_many(sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Execute a statement for each row, in their order; nothing where there are none.

    For very many rows that takes a tenth of the time that model instances take.
    """
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(sql, rows)


def lock_until_commit(kind: str, name: str) -> None:
    """Wait for a lock that one transaction has at a time, and hold it until this one ends.

    SQLite has one writer at a time anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))", [kind, name])
