"""Stale forms: what a form's page showed, and what has changed since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import msgspec
from django.db.models import QuerySet
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.core.common.text import isolated
from dashboard.core.common.times import moment
from dashboard.core.states.board_rows import cause_in_words, cause_of
from dashboard.core.states.models import CHANGE, Transition
from dashboard.core.states.rows import place_of
from domain.records import REFUSED
from domain.scenario import Scenario
from domain.version import Version
from wire.sink import OverrideValue, PendingValue, StateValue, cause_value

MAX_SIGHT = 8_000
"""Longest sight that a form carries, characters: a reason of 500 with every one escaped fits."""

STATE_MOVED_ON = REFUSED + "the state has moved on"
MOVED_ON = (STATE_MOVED_ON, REFUSED + "no such asset any more")
"""How the job refuses a command whose `if_version` is older than the last change."""


class SeenAsset(msgspec.Struct, frozen=True):
    """The view that a page showed of an asset at `at` (Unix ms).

    state: None where it was not there.
    """

    at: int
    state: str | None = None
    pending: PendingValue | None = None
    override: OverrideValue | None = None

    @classmethod
    def of(cls, record: StateValue | None, at: int) -> Self:
        """Return what is to be seen in a state record as it stands in the topic."""
        if record is None:
            return cls(at)
        return cls(at, record.state, record.pending, record.override)

    def text(self) -> str:
        """Return the sight as text that goes with a form."""
        return msgspec.json.encode(self).decode()

    def shows(self, record: StateValue) -> bool:
        """Return whether the record looks the same: its state, its pin, and without one what waits.

        When a wait ends, and what the votes make beneath a pin, is not looked at: the job compares
        no more either.
        """
        pending, override = record.pending, record.override
        if self.state != record.state or _pin(self.override) != _pin(override):
            return False
        return override is not None or _waits(self.pending) == _waits(pending)


def read_sight(text: str) -> SeenAsset | None:
    """Return the sight that `Sight.text` wrote; None for anything else.

    That is enough, as nothing rests on the sight alone.
    """
    try:
        return msgspec.json.decode(text, type=SeenAsset) if text else None
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _pin(override: OverrideValue | None) -> OverrideValue | None:
    """Return the override without what the votes make beneath it."""
    return override and msgspec.structs.replace(override, underlying=None)


def _waits(pending: PendingValue | None) -> str | None:
    return pending.state if pending else None


def moved_on(
    scenario: str,
    asset: str,
    seen: Version | None,
    sight: SeenAsset | None,
    record: StateValue | None,
) -> bool:
    """Return whether state, pin or what waits are known to have changed since the version seen.

    record: the newest known. The job knows for certain, and checks next; so a change that was
    undone again, and that no transition shows, is no reason to refuse here.
    """
    if seen is None:
        return sight is not None and sight.state is None and record is not None
    if record is None:
        return True
    if Version.parse(record.version).in_log() <= seen.in_log():
        return False
    if sight is not None and not sight.shows(record):
        return True
    return _transitions(scenario, asset).filter(place__gt=place_of(seen.sortable())).exists()


def changes(
    scenario: Scenario,
    asset: str,
    seen: Version | None,
    sight: SeenAsset | None,
    record: StateValue | None,
    now: int,
) -> list[SafeString]:
    """Return what has changed since, a sentence each."""
    sight = sight or _reconstructed(scenario.name, asset, seen, record)
    sentences = list(_state(scenario, asset, seen, sight, record, now))
    if record is not None and sight.at:
        pending, override = record.pending, record.override
        sentences += _pending(scenario, sight.pending, pending, record.state, now)
        sentences += _override(scenario, sight.override, override, now)
    if not sentences:
        sentences.append(SafeString("It changed in between, and changed back."))
    return sentences


def _reconstructed(
    scenario: str, asset: str, seen: Version | None, record: StateValue | None
) -> SeenAsset:
    """Return what the history has of the version seen, for a command that came without a sight.

    Where it has nothing, the state is taken to be the present one, as far as anybody can tell.
    """
    same = record.state if record else None
    if seen is None:
        return SeenAsset(0, same)
    earlier = _transitions(scenario, asset).filter(place__lte=place_of(seen.sortable()))
    last = earlier.order_by("-place").first()
    return SeenAsset(0, (last.state or None) if last else same)


def _state(
    scenario: Scenario,
    asset: str,
    seen: Version | None,
    sight: SeenAsset,
    record: StateValue | None,
    now: int,
) -> Iterator[SafeString]:
    state = record.state if record else None
    last = _transitions(scenario.name, asset).order_by("-place").first()
    is_now = _is_now(scenario, record, last, now)
    if state != sight.state:
        at = format_html(" at {}", moment(sight.at, now)) if sight.at else ""
        was = f"was {_label(scenario, sight.state)}" if sight.state else "was not on the board"
        yield format_html("It {}{}, {}.", was, at, is_now)
    elif state is None:
        yield format_html("It {}.", is_now)
    elif last and seen and last.place > place_of(seen.sortable()):
        between = _label(scenario, last.previous) if last.previous else "off the board"
        yield format_html("It was {} in between, {}.", between, is_now)


def _is_now(
    scenario: Scenario, record: StateValue | None, last: Transition | None, now: int
) -> SafeString:
    """Return `is Under attack since 14:05:12 UTC, reported by waf-7`."""
    if record is None:
        gone = last is not None and not last.state
        by = _by(scenario, last) if gone and last else ""
        since = format_html(" since {}{}", moment(last.at, now), by) if gone and last else ""
        return format_html("is no longer on the board{}", since)
    by = f", {cause_of(scenario, record)}" if record.cause.time == record.since else ""
    if last is not None and last.state == record.state and last.at == record.since:
        by = _by(scenario, last)
    label = scenario.spec(record.state).label
    return format_html("is {} since {}{}", label, moment(record.since, now), by)


def _by(scenario: Scenario, change: Transition) -> str:
    return f", {cause_in_words(scenario, change.state, cause_value(change.cause))}"


def _pending(
    scenario: Scenario, was: PendingValue | None, is_now: PendingValue | None, state: str, now: int
) -> Iterator[SafeString]:
    if is_now is not None and is_now != was:
        label = _label(scenario, is_now.state)
        at = moment(is_now.due, now)
        yield format_html("{} waits now: it becomes that at {} if the votes stay.", label, at)
    elif was is not None and is_now is None and was.state != state:
        yield format_html("{} no longer waits.", _label(scenario, was.state))


def _override(
    scenario: Scenario, was: OverrideValue | None, is_now: OverrideValue | None, now: int
) -> Iterator[SafeString]:
    if is_now is None:
        if was is not None:
            yield format_html("It is no longer pinned by {}.", isolated(was.user))
    elif was is None or was.command != is_now.command:
        yield _pinned(scenario, is_now, now)
    elif was.underlying != is_now.underlying:
        label = _label(scenario, is_now.underlying) if is_now.underlying else "nothing"
        yield format_html("Beneath the pin the votes now make {}.", label)


def _pinned(scenario: Scenario, pin: OverrideValue, now: int) -> SafeString:
    end = format_html("until {}", moment(pin.until, now)) if pin.until else "without end"
    why = f": “{isolated(pin.reason)}”" if pin.reason else ""
    label = _label(scenario, pin.state)
    return format_html("{} pinned it to {} {}{}.", isolated(pin.user), label, end, why)


def _label(scenario: Scenario, state: str) -> str:
    return isolated(scenario.spec(state).label)


def _transitions(scenario: str, asset: str) -> QuerySet[Transition]:
    return Transition.objects.filter(scenario=scenario, asset=asset, kind=CHANGE)
