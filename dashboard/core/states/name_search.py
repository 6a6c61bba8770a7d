"""Search for assets by part of their name, and the runs of one or two characters in names."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from django.db import connection

from dashboard.core.common.sql import insert_many
from dashboard.core.states.models import NameRun

# ---- name runs -----------------------------------------------------------------------------------
# The runs of one or two characters that occur in names.
#
# An index of three characters cannot tell that no name contains a run of two, and scanning a
# million names takes too long.

LONGEST = 2
"""Length of the longest run, in characters."""


def runs_of(names: Iterable[str]) -> set[str]:
    """Return the runs of these names, ASCII only and in upper case: at most about 5,000."""
    runs: set[str] = set()
    for name in names:
        upper = name.upper()
        runs.update(upper)
        runs.update(map("".join, pairwise(upper)))
    return {run for run in runs if run.isascii()}


def add_runs(names: Iterable[str]) -> None:
    """Store the runs of new names, in the transaction that writes them. Sorted: no deadlock."""
    rows = [(run,) for run in sorted(runs_of(names))]
    insert_many("states_namerun", ("run",), rows, "ON CONFLICT (run) DO NOTHING")


def in_no_name(text: str) -> bool:
    """Return whether certainly no asset's name contains `text`, in any case.

    False for a longer text, for letters beyond ASCII, and if no runs have been stored.
    """
    if not text or len(text) > LONGEST or not text.isascii():
        return False
    noted = NameRun.objects.all()
    return not noted.filter(run=text.upper()).exists() and noted.exists()


# ---- name search ---------------------------------------------------------------------------------
# Search for assets by part of their name, with the index that the migration creates if it can.
#
# The index finds a little more than the names that contain the text: callers check them again.

SIZE = 3
"""Length of the runs by which the index finds a name."""
MOST_RUNS = 30
"""The most runs of a text to search for: they narrow it down enough."""

_THERE = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE name = 'states_nameparts'",
    "postgresql": "SELECT 1 WHERE to_regclass('states_nameparts') IS NOT NULL",
}
_FIND = {
    "sqlite": "SELECT rowid FROM states_nameparts WHERE states_nameparts MATCH %s LIMIT %s",
    "postgresql": "SELECT id FROM states_assetstate WHERE UPPER(asset) LIKE UPPER(%s) LIMIT %s",
}


def candidates(text: str, most: int) -> list[int] | None:
    """Return row ids of at most `most` assets: all whose name contains `text`, if they are fewer.

    None if the text is too short for the index, or there is no index. A short text that occurs in
    no name returns an empty list all the same.
    """
    if in_no_name(text):
        return []
    if len(text) < SIZE or connection.vendor not in _FIND:
        return None
    with connection.cursor() as cursor:
        cursor.execute(_THERE[connection.vendor])
        if cursor.fetchone() is None:
            return None
        cursor.execute(_FIND[connection.vendor], [pattern(text), most])
        return [pk for (pk,) in cursor.fetchall()]


def pattern(text: str) -> str:
    """Return the search pattern for the database, with special characters in `text` escaped."""
    if connection.vendor == "sqlite":
        runs = dict.fromkeys(text[n : n + SIZE] for n in range(len(text) - SIZE + 1))
        quoted = ('"{}"'.format(run.replace('"', '""')) for run in list(runs)[:MOST_RUNS])
        return " AND ".join(quoted)
    return f"%{connection.ops.prep_for_like_query(text)}%"
