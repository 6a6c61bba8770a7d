"""A rule rehearsed on a history, with the machine that also sends: what would it have sent?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from domain.notifications.events import Event
from domain.notifications.group import Group
from domain.notifications.machine import Action, RuleState, World, advance, next_at
from domain.notifications.rule import Rule

MOST_STEPS = 20_000
"""Largest number of evaluations in one rehearsal."""


class Played(NamedTuple):
    """An action that the rule would have taken, at a time in Unix ms."""

    at: int
    action: Action


class Rehearsal:
    """A rule and its groups, played through time."""

    def __init__(self, rule: Rule, world: World, most_steps: int = MOST_STEPS) -> None:
        self.rule, self.world = rule, world
        self.played: list[Played] = []
        self.steps = most_steps
        self._groups: dict[str, Group] = {}
        self._recent: tuple[int, ...] = ()
        self._due: dict[str, int] = {}

    @property
    def is_cut(self) -> bool:
        """Whether the rehearsal stopped early because it needed too many steps."""
        return self.steps <= 0

    def play(self, events: Iterable[Event], until: int) -> list[Played]:
        """Play events, given in order, then let time pass until `until` (Unix ms).

        Returns everything that was done.
        """
        for at, together in groupby(events, key=lambda event: event.at):
            self._wait(at - 1)
            self._step(at, tuple(together))
        self._wait(until)
        return self.played

    def _wait(self, until: int) -> None:
        while self._due and self.steps > 0 and (at := min(self._due.values())) <= until:
            self._step(at, ())

    def _step(self, now: int, events: Sequence[Event]) -> None:
        self.steps -= 1
        keys = self._touched(events) | {key for key, at in self._due.items() if at <= now}
        state = RuleState({key: self._groups[key] for key in keys}, self._recent)
        after, actions = advance(self.rule, state, now, self.world, events)
        self.played += [Played(now, action) for action in actions]
        self._recent = after.recent
        for key in keys - after.groups.keys():
            del self._groups[key]
            self._due.pop(key, None)
        for key, group in after.groups.items():
            self._groups[key] = group
            self._schedule(key, next_at(self.rule, group, after.recent, now))

    def _schedule(self, key: str, at: int | None) -> None:
        if at is None:
            self._due.pop(key, None)
        else:
            self._due[key] = at

    def _touched(self, events: Sequence[Event]) -> set[str]:
        """Return the keys of the groups that these events concern."""
        assets = {(event.scenario, event.asset) for event in events}
        joined = {self.rule.key_of(each) for each in events}
        known = joined & self._groups.keys()
        if assets:
            known |= {
                key
                for key, group in self._groups.items()
                if any(place[:2] in assets for place in group.members)
            }
        return known
