"""Acknowledgements: somebody has an asset in hand until a time, unless its state ends it before."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from dashboard.annotations.models import Acknowledgement
from dashboard.annotations.row_marks import alone, calm_of, marks_changed, renew
from dashboard.core.rate_limits import Limit
from dashboard.core.times import DAY_MS
from dashboard.states.newest import newest_states
from dashboard.states.queries import listed
from dashboard.states.record_rows import place_of
from domain.scenario import Scenario

MOST = 900
"""Most assets that are acknowledged at once: a form has a thousand fields at the most."""
LONGEST_MS = 7 * DAY_MS
"""Furthest end."""
LIMIT = Limit("acknowledgements", 3_000)
ABSENT = "it is not on the board"
"""Why what is not there is not acknowledged."""


class Outcome(NamedTuple):
    """The assets that were acknowledged, and why others were not."""

    taken: list[str]
    left: list[tuple[str, str]]


def acknowledge(
    scenario: Scenario, assets: Collection[str], user: User, reason: str, until: int, now: int
) -> Outcome:
    """Acknowledge those that are on the board and not calm. Times in Unix ms. Raises TooMany."""
    LIMIT.take(user.pk, now, len(assets))
    outcome = Outcome([], [])
    with transaction.atomic():
        alone(scenario.name)
        states = newest_states(scenario.name, assets)
        rows = []
        for asset in assets:
            version, state = states.get(asset, ("", ""))
            why = _why_not(scenario, state)
            if why:
                outcome.left.append((asset, why))
                continue
            outcome.taken.append(asset)
            rows.append(_row(scenario, asset, version, state, user, reason, until, now))
        _close(scenario.name, outcome.taken, "replaced", user, now)
        Acknowledgement.objects.bulk_create(rows)
        marks = renew(scenario.name, outcome.taken, now)
    marks_changed.send(None, scenario=scenario.name, marks=marks)
    return outcome


def take_back(scenario: Scenario, assets: Collection[str], user: User, now: int) -> list[str]:
    """End the acknowledgements in force of these assets, whosever they are.

    Returns the assets that had one.
    """
    LIMIT.take(user.pk, now, len(assets))
    with transaction.atomic():
        alone(scenario.name)
        ended = _close(scenario.name, assets, "taken back", user, now)
        marks = renew(scenario.name, ended, now)
    marks_changed.send(None, scenario=scenario.name, marks=marks)
    return ended


def _why_not(scenario: Scenario, state: str) -> str:
    """Return why a state is not to be acknowledged; empty where it is."""
    if not state:
        return ABSENT
    if scenario.severity(state) >= calm_of(scenario):
        return f"it is {scenario.spec(state).label} already"
    return ""


def _row(
    scenario: Scenario,
    asset: str,
    version: str,
    state: str,
    user: User,
    reason: str,
    until: int,
    now: int,
) -> Acknowledgement:
    return Acknowledgement(
        scenario=scenario.name,
        asset=asset,
        user=user,
        username=user.get_username(),
        reason=reason,
        at=now,
        until=until,
        state=state,
        severity=scenario.severity(state),
        place=place_of(version),
    )


def _close(scenario: str, assets: Collection[str], why: str, user: User, now: int) -> list[str]:
    """End the acknowledgements in force of these assets. Returns the assets that had one."""
    held = Acknowledgement.objects.filter(
        scenario=scenario, asset__in=listed(list(assets)), ended_at=None, until__gt=now
    )
    names = sorted(set(held.values_list("asset", flat=True)))
    held.update(ended_at=now, ended_why=why, ended_by=user.get_username())
    return names
