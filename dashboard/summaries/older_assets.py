"""Spans and incidents of the assets that were on the board before there were any.

Made once, by what is kept of their changes and by today's rule, a portion at a time. Nothing else
writes an asset's spans meanwhile: its row is locked.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from dashboard.annotations import acknowledgements
from dashboard.core.chunks import STATEMENT
from dashboard.incidents.recorder import record_past
from dashboard.states.models import CONFIRMED, UNCONFIRMED, AssetState, Transition
from dashboard.states.queries import listed
from dashboard.states.record_rows import place_of
from dashboard.summaries.models import Presence, Progress, TroubleSpan
from dashboard.summaries.recorder import ByAsset, Condition, Move, Moves, mark, record_anew
from domain.scenario import Scenario


class Now(NamedTuple):
    """What the board says of an asset. Times in Unix ms; changed_at: of its newest record."""

    asset: str
    state: str
    unconfirmed: bool
    since: int
    changed_at: int
    version: str

    @property
    def condition(self) -> Condition:
        """What summaries look at in it."""
        return Condition(self.state, self.unconfirmed)


class Change(NamedTuple):
    """A kept change of an asset. at: Unix ms; unconfirmed: None where the mark was not kept."""

    asset: str
    place: str
    kind: str
    at: int
    state: str
    unconfirmed: bool | None


class Portion(NamedTuple):
    """A portion that is written: how many assets it had, how many of the scenario are written so
    far, and how many these will be."""

    scenario: str
    assets: int
    done: int
    total: int


def seed(scenarios: Mapping[str, Scenario], now: int) -> Generator[Portion]:
    """Write spans and incidents of all assets without them, of the scenarios of which that was not
    done yet, and note at `now` (Unix ms) that it is. Cut short, it goes on where it was.

    Yields each portion.
    """
    seeded = Progress.objects.exclude(seeded_at=None).values_list("scenario", flat=True)
    for name in sorted(scenarios.keys() - set(seeded)):
        last, done, total = "", 0, _without_spans(name).count()
        while portion := _seed_after(scenarios[name], last):
            last = portion[-1]
            done += len(portion)
            yield Portion(name, len(portion), done, total)
        Progress.objects.update_or_create(scenario=name, defaults={"seeded_at": now})


@transaction.atomic
def _seed_after(scenario: Scenario, last: str) -> list[str]:
    """Write those of the next assets after a name. Returns their names."""
    rows = _without_spans(scenario.name).filter(asset__gt=last).select_for_update()
    states = [Now(*row) for row in rows.values_list(*Now._fields)[:STATEMENT]]
    names = [each.asset for each in states]
    changes, known = _kept_changes(scenario.name, names), _with_some_spans(scenario.name, names)
    of_assets: ByAsset = {}
    for each in states:
        first, *more = moves(each, changes.get(each.asset, []))
        steps = [first._replace(anew=each.asset in known), *more]
        of_assets[each.asset] = Moves(Condition(), steps)
    record_past(_changes_of_state(scenario.name, of_assets), {scenario.name: scenario})
    since = record_anew(scenario, of_assets)
    if since is not None:
        mark({scenario.name: since})
    return names


def _with_some_spans(scenario: str, assets: list[str]) -> set[str]:
    """Return the assets of which something is known, which takes a query for each to replace."""
    return {
        asset
        for kind in (Presence, TroubleSpan)
        for asset in kind.objects.filter(scenario=scenario, asset__in=listed(assets)).values_list(
            "asset", flat=True
        )
    }


def _without_spans(scenario: str) -> QuerySet[AssetState]:
    """Return the assets on the board that no span says to be there."""
    there = Presence.objects.filter(scenario=scenario, asset=OuterRef("asset"), end=None)
    rows = AssetState.objects.filter(~Exists(there), scenario=scenario, purged=False)
    return rows.order_by("asset")


def _kept_changes(scenario: str, assets: list[str]) -> dict[str, list[Change]]:
    rows = Transition.objects.filter(scenario=scenario, asset__in=listed(assets))
    steps = (Change(*row) for row in rows.order_by("asset", "place").values_list(*Change._fields))
    return {asset: list(own) for asset, own in groupby(steps, key=lambda step: step.asset)}


def moves(now: Now, changes: list[Change]) -> list[Move]:
    """Return the moves of an asset by its kept changes, in order; the last one is to what the board
    says. Without any change it is as it is since the board says so."""
    steps = [
        Move(each.place, each.at, Condition(each.state, bool(each.unconfirmed)), anew=False)
        for each in changes
    ]
    if changes:
        steps[0] = steps[0]._replace(at=_begin(now, changes[0]))
        if changes[-1].unconfirmed is None and changes[-1].state == now.state:
            steps[-1] = steps[-1]._replace(condition=now.condition)
    if not steps or steps[-1].condition != now.condition:
        same = bool(steps) and steps[-1].condition.state == now.state
        at = now.changed_at if same else now.since
        steps.append(Move(place_of(now.version), at, now.condition, anew=False))
    return steps


def _begin(now: Now, first: Change) -> int:
    """Return since when the condition after the first kept change is known: the change of the state
    itself may be too old to be kept, that of the mark is not."""
    if first.kind in (UNCONFIRMED, CONFIRMED):
        return first.at
    return min(first.at, now.since)


def _changes_of_state(scenario: str, of_assets: ByAsset) -> Iterator[acknowledgements.Move]:
    for asset, own in of_assets.items():
        before = ""
        for step in own.steps:
            state = step.condition.state
            if state != before:
                yield acknowledgements.Move(scenario, asset, step.place, step.at, state, before)
            before = state
