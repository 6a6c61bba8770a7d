"""A history of changes as rows of a database, as the materialiser would have written them.

Each asset goes into trouble and out of it again, evenly spread over some days.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from bench.stack import say

NOW = 1_790_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DAYS = 89
SCENARIO = "attack"
PORTION = 50_000
LABELS = 20
"""Values of the label that assets have."""


def prepare(folder: Path) -> None:
    """Create a database in `folder`, or bring the one that is there up to date."""
    os.environ |= {
        "TALLYBOARD_DATA_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
    }
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


Rows = Iterator[tuple[Any, ...]]
Tables = Mapping[str, tuple[tuple[str, ...], Rows]]
"""By the name of a table: columns and rows."""


def write(tables: Tables) -> None:
    """Write rows, and index them afterwards: sorted once, not row by row."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous=OFF")
    with _indexed_afterwards(tables):
        for table, (columns, rows) in tables.items():
            _insert(table, columns, rows)
            say(f"  {table}")


@contextmanager
def _indexed_afterwards(tables: Tables) -> Iterator[None]:
    from django.db import connection

    known = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = %s"
    with connection.cursor() as cursor:
        indexes: list[tuple[str, str]] = []
        for table in tables:
            cursor.execute(f"{known} AND sql IS NOT NULL", [table])
            indexes += cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        yield
        for _, sql in indexes:
            cursor.execute(sql)


def _insert(table: str, columns: tuple[str, ...], rows: Rows) -> None:
    from django.db import transaction

    from dashboard.core.common.sql import execute_many

    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(["%s"] * len(columns))
    sql = f"INSERT INTO {table} ({names}) VALUES ({values})"  # noqa: S608 - our own names
    while portion := list(islice(rows, PORTION)):
        with transaction.atomic():
            execute_many(sql, portion)


# ---- rows ---------------------------------------------------------------------------------------

PRESENCE = ("scenario", "asset", "place", "begin", "end", "end_place")
LABEL = ("scenario", "asset", "key", "value", "source", "name", "at", "shown")
STATE = (
    "scenario", "asset", "partition", "state", "severity", "rank", "previous", "since",
    "unconfirmed", "version", "changed_at", "cause_type", "overridden", "record", "purged",
)  # fmt: skip
TRANSITION = (
    "scenario", "asset", "kind", "version", "place", "at", "previous", "state", "cause_type",
    "cause", "unconfirmed",
)  # fmt: skip
IMPAIRED = (*PRESENCE, "state", "unconfirmed")
INCIDENT = (
    "scenario", "asset", "place", "began_at", "ended_at", "state", "worst", "changes",
    "acknowledged_at", "acknowledged_by",
)  # fmt: skip


def _name(asset: int) -> str:
    return f"site-{asset:06}.example"


def _place(asset: int, n: int) -> str:
    return f"{asset * 10_000_000 + n:019}.{0:013}"


def _spells(asset: int, each: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, begin and end of an asset's troubles: the same at every call."""
    dice = random.Random(asset)
    step = DAYS * DAY_MS // each
    for n in range(each):
        begin = NOW - DAYS * DAY_MS + n * step + dice.randrange(step // 2)
        yield n, begin, begin + dice.randrange(1_000, step // 2)


def presences(assets: int) -> Rows:
    """Yield the time of each asset on the board."""
    for asset in range(assets):
        yield SCENARIO, _name(asset), _place(asset, 0), NOW - DAYS * DAY_MS, None, ""


def states(assets: int, each: int) -> Rows:
    """Yield what the board says of assets after so many times of trouble."""
    for asset in range(assets):
        *_, (n, _, since) = _spells(asset, each)
        version = f"000001.{_place(asset, 2 * n + 1)}"
        yield (
            SCENARIO, _name(asset), 0, "clear", 2, 4, "under-attack", since, False, version, since,
            "report", False, "{}", False,
        )  # fmt: skip


def labels(assets: int) -> Rows:
    """Yield a label of each asset."""
    for asset in range(assets):
        value = f"customer-{asset % LABELS}"
        yield SCENARIO, _name(asset), "customer", value, "person", "ada", NOW, True


def transitions(assets: int, each: int) -> Rows:
    """Yield the changes of assets, two for each of so many times of trouble."""
    cause = '{"type":"report","partition":0,"offset":1,"time":1,"agent":"waf-1"}'
    for asset in range(assets):
        name, state = _name(asset), ("clear", "under-attack")
        for n, *times in _spells(asset, each):
            for end, at in enumerate(times):
                place = _place(asset, 2 * n + end)
                yield (
                    SCENARIO, name, "change", f"000001.{place}", place, at, state[end],
                    state[1 - end], "report", cause, False,
                )  # fmt: skip


def impaired(assets: int, each: int) -> Rows:
    """Yield the times of trouble, one of twenty unconfirmed."""
    for asset in range(assets):
        for n, begin, end in _spells(asset, each):
            places = _place(asset, 2 * n), _place(asset, 2 * n + 1)
            yield (
                SCENARIO, _name(asset), places[0], begin, end, places[1], "under-attack",
                n % 20 == 0,
            )  # fmt: skip


def incidents(assets: int, each: int) -> Rows:
    """Yield the incidents, one of three acknowledged after a minute."""
    for asset in range(assets):
        for n, begin, end in _spells(asset, each):
            acknowledged = (begin + 60_000, "ada") if n % 3 == 0 else (None, "")
            yield (
                SCENARIO, _name(asset), _place(asset, 2 * n), begin, end, "under-attack",
                "under-attack", 1, *acknowledged,
            )  # fmt: skip
