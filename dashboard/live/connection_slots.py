"""Room for open boards: in a web process, of a session, of a user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple


class NoRoom(Exception):
    """The refusal where there is no room; the message says of what there are too many."""


class Kind(NamedTuple):
    """A bound: how many at the most, and what is said beyond."""

    most: int
    words: str


class Places:
    """The counts of open boards by whose they are."""

    def __init__(self, all_: int, session: int, user: int) -> None:
        self._kinds = (
            Kind(all_, "this server has no room for more open boards"),
            Kind(session, f"{session} boards are open in this login: close some"),
            Kind(user, f"{user} boards are open under this user's name: close some"),
        )
        self._taken: Counter[tuple[int, Hashable]] = Counter()

    def take(self, session: str, user: Hashable) -> list[tuple[int, Hashable]]:
        """Return a place, to be given back as it is. Raises NoRoom."""
        place = list(enumerate(("", session, user)))
        for number, whose in place:
            kind = self._kinds[number]
            if self._taken[number, whose] >= kind.most:
                raise NoRoom(kind.words)
        self._taken.update(place)
        return place

    def give_back(self, place: list[tuple[int, Hashable]]) -> None:
        """Free the place."""
        self._taken.subtract(place)
        for key in place:
            if not self._taken[key]:
                del self._taken[key]
