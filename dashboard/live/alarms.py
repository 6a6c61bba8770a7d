"""Alarms that a browser requested: assets that have just come to one of some states.

Worked out from records as they come, so never from a snapshot. The browser judges whether
one is recent enough to be shown, as a replay may bring what was long ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dashboard.live.entries import Entry
from dashboard.live.page_filter import Filter

# Most assets that one message names; of others it tells the number.
MOST = 50


class Alarm(NamedTuple):
    """The states of an alarm, and whether it is of any asset or of those that the filter shows."""

    states: frozenset[str]
    any: bool = False


class Raised(NamedTuple):
    """An asset, its state, and since when it is in it (Unix ms)."""

    asset: str
    state: str
    since: int


def note_coming(came: dict[str, Entry], entry: Entry) -> None:
    """Keep in `came` the newest record of each asset that has come to its state, and is in it.

    The next agent's report may follow in the same portion: that one changes no state.
    """
    since = None if entry.row is None else entry.row["since"]
    before = came.pop(entry.asset, None)
    stayed = before is not None and before.row is not None and before.row["since"] == since
    if entry.row is not None and (stayed or since == entry.row.get("caused_at")):
        came[entry.asset] = entry


def raised(came: Mapping[str, Entry], alarm: Alarm, shown: Filter) -> list[Raised]:
    """Return those of what has come to its state that the alarm is about."""
    return [
        Raised(entry.asset, entry.row["state"], entry.row["since"])
        for entry in came.values()
        if entry.row is not None
        and entry.row["state"] in alarm.states
        and (alarm.any or (shown.matches(entry.row) and shown.allows(entry)))
    ]


class Alerts:
    """The alerts that wait to be sent: each asset once, a number of them by name."""

    def __init__(self) -> None:
        self._named: dict[str, Raised] = {}
        self._more = 0

    def add(self, entries: Iterable[Raised]) -> None:
        """Add what was raised."""
        for each in entries:
            if each.asset in self._named or len(self._named) < MOST:
                self._named[each.asset] = each
            else:
                self._more += 1

    def take(self) -> tuple[int, list[Raised]] | None:
        """Return how many, and those that are named; None for nothing. They count as sent then."""
        if not self._named:
            return None
        alerts = (len(self._named) + self._more, list(self._named.values()))
        self._named, self._more = {}, 0
        return alerts

    def __bool__(self) -> bool:
        return bool(self._named)
