"""The one or two characters in a row that names are made of.

An index of three characters cannot tell that no name has two of them, and to look at a million
names takes longer than anybody wants to wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from dashboard.core.sql import insert_many
from dashboard.states.models import NameRun

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
    insert_many("board_namerun", ("run",), rows, "ON CONFLICT (run) DO NOTHING")


def in_no_name(text: str) -> bool:
    """Return whether it is known that no asset's name contains `text`, in whatever case.

    Of a longer text, and of letters beyond ASCII, that is not known; nor where nothing was noted.
    """
    if not text or len(text) > LONGEST or not text.isascii():
        return False
    noted = NameRun.objects.all()
    return not noted.filter(run=text.upper()).exists() and noted.exists()
