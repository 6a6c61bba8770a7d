"""Assets by a part of their name, and the one or two characters in a row that names are made of."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from django.db import connection

from dashboard.core.common.sql import insert_many
from dashboard.core.states.models import NameRun

# ---- name runs -----------------------------------------------------------------------------------
# The one or two characters in a row that names are made of.
#
# An index of three characters cannot tell that no name has two of them, and to look at a million
# names takes longer than anybody wants to wait.

LONGEST = 2
"""Characters of the longest run."""


def runs_of(names: Iterable[str]) -> set[str]:
    """Return the runs of these names: of ASCII alone, in upper case, so there are 5,000 at most."""
    runs: set[str] = set()
    for name in names:
        upper = name.upper()
        runs.update(upper)
        runs.update(map("".join, pairwise(upper)))
    return {run for run in runs if run.isascii()}


def add_runs(names: Iterable[str]) -> None:
    """Note the runs of new names, in the transaction that writes them. In order: no deadlock."""
    rows = [(run,) for run in sorted(runs_of(names))]
    insert_many("states_namerun", ("run",), rows, "ON CONFLICT (run) DO NOTHING")


def in_no_name(text: str) -> bool:
    """Return whether it is known that no asset's name contains `text`, in whatever case.

    Of a longer text, and of letters beyond ASCII, that is not known; nor where nothing was noted.
    """
    if not text or len(text) > LONGEST or not text.isascii():
        return False
    noted = NameRun.objects.all()
    return not noted.filter(run=text.upper()).exists() and noted.exists()


# ---- name search ---------------------------------------------------------------------------------
# Assets by a part of their name, by the index that its migration makes where it can.
#
# What it finds is a little more than what contains the text: the caller looks at the names too.

SIZE = 3
"""The index knows a name by each run of so many characters."""
MOST_RUNS = 30
"""Of a longer text so many runs are looked for: they tell enough."""

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

    None where the text is too short for the index, or there is none; a short text that is in no
    name is known all the same.
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
    """Return what the database is queried for: nothing in `text` has a meaning of its own."""
    if connection.vendor == "sqlite":
        runs = dict.fromkeys(text[n : n + SIZE] for n in range(len(text) - SIZE + 1))
        quoted = ('"{}"'.format(run.replace('"', '""')) for run in list(runs)[:MOST_RUNS])
        return " AND ".join(quoted)
    return f"%{connection.ops.prep_for_like_query(text)}%"
