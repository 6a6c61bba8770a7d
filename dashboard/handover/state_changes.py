"""Changes since a time, by asset: from which state to which, and the worst between."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import Case, Count, IntegerField, Max, Min, Q, QuerySet, Value, When

from dashboard.core.tables import Column, Table
from dashboard.states.board_rows import asset_path
from dashboard.states.models import CHANGE, Transition
from dashboard.states.queries import listed
from domain.scenario import UNKNOWN, Scenario

LOOKED_AT = 200_000
"""So many changes are looked at, the newest of all scenarios."""
MOST = 50
"""Most assets of one scenario that are listed, those that came to the worst first."""
MOVES = Table("moves", "Asset", "From", "To", "Worst between", Column.number("Changes"))


class Moved(NamedTuple):
    """The changes of an asset. before, after: "" where it was not on the board; n: changes."""

    scenario: Scenario
    asset: str
    before: str
    after: str
    worst: str
    n: int

    @property
    def url(self) -> str:
        """Return the address of the asset's page."""
        return asset_path(self.scenario.name, self.asset)

    @property
    def worse_between(self) -> bool:
        """Return whether it was worse in between than before and after."""
        return self.worst not in (self.before, self.after)


class Moves(NamedTuple):
    """The changes listed of a scenario, how many assets changed, and whether older ones were left
    out."""

    listed: list[Moved]
    total: int
    cut: bool


def moves(scenario: Scenario, since: int) -> Moves:
    """Return the assets that came since `since` (Unix ms) to a state that is not good, or left one.

    Those that came to the worst stand on top.
    """
    newest = Transition.objects.aggregate(newest=Max("pk"))["newest"] or 0
    every = _telling(scenario).filter(kind=CHANGE, at__gte=since)
    rows = every.filter(pk__gt=newest - LOOKED_AT)
    cut = newest > LOOKED_AT and every.filter(pk__lte=newest - LOOKED_AT).exists()
    groups = list(_grouped(scenario, rows)[:MOST])
    total = rows.values("asset").distinct().count() if len(groups) == MOST else len(groups)
    ends = _ends(scenario.name, groups)
    return Moves([_moved(scenario, group, ends) for group in groups], total, cut)


def _telling(scenario: Scenario) -> QuerySet[Transition]:
    """Return the changes of a scenario but those among good states, the board's edge included."""
    rows = Transition.objects.filter(scenario=scenario.name)
    if scenario.life_cycle:
        alarming = [spec.name for spec in scenario.states if not scenario.is_good(spec.name)]
        return rows.filter(Q(state__in=alarming) | Q(previous__in=alarming))
    fine = ["", *scenario.good_states]
    return rows.exclude(state__in=fine, previous__in=fine)


Group = tuple[str, int, int, str, str]


def _grouped(scenario: Scenario, rows: QuerySet[Transition]) -> QuerySet[Transition, Group]:
    """Return asset, severity of its worst state, number of changes, first and last place."""
    gone = len(scenario.states) + 1
    ranks = [When(state=spec.name, then=rank) for rank, spec in enumerate(scenario.states)]
    severity = Case(
        When(state="", then=gone),
        *ranks,
        default=Value(scenario.severity("")),
        output_field=IntegerField(),
    )
    groups = rows.values("asset").annotate(
        worst=Min(severity), n=Count("pk"), first=Min("place"), last=Max("place")
    )
    ordered = groups.order_by("worst", "-n", "asset")
    return ordered.values_list("asset", "worst", "n", "first", "last")


def _ends(scenario: str, groups: list[Group]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the states before and after the first and the last change, by asset and place."""
    places = {place for _, _, _, first, last in groups for place in (first, last)}
    rows = Transition.objects.filter(
        scenario=scenario,
        asset__in=listed([asset for asset, *_ in groups]),
        place__in=listed(sorted(places)),
    )
    columns = ("asset", "place", "previous", "state")
    return {(asset, place): (was, now) for asset, place, was, now in rows.values_list(*columns)}


def _moved(scenario: Scenario, group: Group, ends: dict[tuple[str, str], tuple[str, str]]) -> Moved:
    asset, severity, n, first, last = group
    before = ends.get((asset, first), ("", ""))[0]
    after = ends.get((asset, last), ("", ""))[1]
    worst = _worst(scenario, severity, before, after)
    if before and scenario.severity(before) < scenario.severity(worst):
        worst = before
    return Moved(scenario, asset, before, after, worst, n)


def _worst(scenario: Scenario, severity: int, before: str, after: str) -> str:
    """Return the worst state of an asset's changes, by its severity."""
    if 0 <= severity < len(scenario.states):
        return scenario.states[severity].name
    if severity > 0:
        return after
    ends = (state for state in (after, before) if state and scenario.severity(state) < 0)
    return next(ends, UNKNOWN)
