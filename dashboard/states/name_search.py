"""Assets by a part of their name, by the index that its migration makes where it can.

What it finds is a little more than what contains the text: the caller looks at the names too.
"""

from __future__ import annotations

from django.db import connection

from dashboard.states.name_runs import in_no_name

SIZE = 3
"""The index knows a name by each run of so many characters."""
MOST_RUNS = 30
"""Of a longer text so many runs are looked for: they tell enough."""

_THERE = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE name = 'board_nameparts'",
    "postgresql": "SELECT 1 WHERE to_regclass('board_nameparts') IS NOT NULL",
}
_FIND = {
    "sqlite": "SELECT rowid FROM board_nameparts WHERE board_nameparts MATCH %s LIMIT %s",
    "postgresql": "SELECT id FROM board_assetstate WHERE UPPER(asset) LIKE UPPER(%s) LIMIT %s",
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
