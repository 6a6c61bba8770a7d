"""Incidents of assets that share a label, as one: the unbroken times in which at least one of them
was in trouble.

An asset belongs to the label that it has now, of whatever time its incidents are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.urls import reverse

from dashboard.core.chunks import STATEMENT, chunks
from dashboard.core.tables import Column, Table
from dashboard.core.times import duration, now_ms
from dashboard.incidents.models import Incident, real
from dashboard.incidents.queries import Entry, Wanted, entry_of, labelled
from dashboard.labels.queries import labels_of
from domain.scenario import Scenario

MOST_LOOKED_AT = 20_000
"""Most incidents that are grouped, those that began last."""
MOST_SHOWN = 100
"""Most groups of a page, those that began last."""


@dataclass
class Group:
    """The incidents of an unbroken time in which at least one asset of a label is in trouble.

    began_at, ended_at: Unix ms, ended_at None while it goes on; incidents: in the order in which
    they began.
    """

    scenario: Scenario
    key: str
    value: str
    began_at: int
    ended_at: int | None
    incidents: list[Incident] = field(default_factory=list)

    @property
    def worst(self) -> str:
        """The most severe state of them all."""
        return min((each.worst for each in self.incidents), key=self.scenario.severity)

    @property
    def assets(self) -> int:
        """How many assets were in trouble."""
        return len({each.asset for each in self.incidents})

    @property
    def acknowledged(self) -> Incident | None:
        """The incident that was acknowledged first, None where none was."""
        known = [each for each in self.incidents if each.acknowledged_at is not None]
        return min(known, key=lambda each: each.acknowledged_at or 0) if known else None

    @property
    def answered(self) -> str:
        """How long nobody had acknowledged any of them, in words; empty while nobody has."""
        first = self.acknowledged
        if first is None or first.acknowledged_at is None:
            return ""
        return duration(max(0, first.acknowledged_at - self.began_at))

    @property
    def lasted(self) -> str:
        """How long it lasted, or has lasted until now, in words."""
        return duration((now_ms() if self.ended_at is None else self.ended_at) - self.began_at)

    @property
    def url(self) -> str:
        """The address of its page."""
        return reverse("incidents:group", args=[self.incidents[0].pk, self.key])

    @property
    def report_url(self) -> str:
        """The address of its report."""
        return reverse("incidents:group-report", args=[self.incidents[0].pk, self.key])


class Found(NamedTuple):
    """Groups, those that began last first. cut: whether there were more incidents than were looked
    at."""

    groups: list[Group]
    cut: bool

    @property
    def shown(self) -> list[Group]:
        """Those that a page shows."""
        return self.groups[:MOST_SHOWN]


def find_groups(wanted: Wanted, scenario: Scenario, key: str) -> Found:
    """Return the groups that a scenario's incidents make by a label, of those that pass a filter.

    Incidents of assets without the label are in none.
    """
    newest = wanted.rows().filter(scenario=scenario.name).order_by("-began_at")
    rows = list(newest[: MOST_LOOKED_AT + 1])
    cut = len(rows) > MOST_LOOKED_AT
    by_value = _by_value(scenario, key, rows[:MOST_LOOKED_AT])
    groups = [
        group
        for value, members in by_value.items()
        for group in merge(scenario, key, value, members)
    ]
    groups.sort(key=lambda group: (group.began_at, group.value), reverse=True)
    return Found(groups, cut)


def group_of(row: Incident, scenario: Scenario, key: str) -> Group | None:
    """Return the group that an incident belongs to; None where its asset has not this label."""
    value = labels_of(scenario.name, [row.asset]).get(row.asset, {}).get(key)
    if value is None:
        return None
    members = real().filter(labelled(key, value), scenario=scenario.name)
    around = _around(members, row)
    return next(each for each in merge(scenario, key, value, around) if row in each.incidents)


def merge(
    scenario: Scenario, key: str, value: str, incidents: Iterable[Incident]
) -> Iterator[Group]:
    """Yield the unbroken times that incidents make up; those that touch are one."""
    group: Group | None = None
    for each in sorted(incidents, key=lambda row: (row.began_at, row.pk)):
        if group is not None and (group.ended_at is None or each.began_at <= group.ended_at):
            group.incidents.append(each)
            group.ended_at = _later(group.ended_at, each.ended_at)
            continue
        if group is not None:
            yield group
        group = Group(scenario, key, value, each.began_at, each.ended_at, [each])
    if group is not None:
        yield group


def entries(group: Group) -> list[Entry]:
    """Return the incidents of a group as pages show them."""
    now = now_ms()
    return [entry_of(each, now) for each in group.incidents]


def _later(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else max(one, two)


def _by_value(scenario: Scenario, key: str, rows: list[Incident]) -> dict[str, list[Incident]]:
    values: dict[str, str] = {}
    for assets in chunks(sorted({row.asset for row in rows}), STATEMENT):
        labels = labels_of(scenario.name, assets)
        values.update((asset, of[key]) for asset, of in labels.items() if key in of)
    by_value: dict[str, list[Incident]] = {}
    for row in rows:
        if row.asset in values:
            by_value.setdefault(values[row.asset], []).append(row)
    return by_value


def _around(members: QuerySet[Incident], row: Incident) -> list[Incident]:
    """Return the incidents that an unbroken time joins to one of them, at most MOST_LOOKED_AT."""
    begin, end, known = row.began_at, row.ended_at, 0
    while True:
        joined = members.filter(Wanted(start=begin - 1, end=end and end + 1).in_time())
        around = list(joined.order_by("began_at")[:MOST_LOOKED_AT])
        if len(around) <= known or len(around) == MOST_LOOKED_AT:
            return around if row in around else [row]
        known = len(around)
        begin = min(each.began_at for each in around)
        for each in around:
            end = _later(end, each.ended_at)


FIELDS = (
    "scenario", "label", "value", "began_at", "ended_at", "duration_ms", "assets", "incidents",
    "worst", "acknowledged_at", "acknowledged_by",
)  # fmt: skip


def plain(group: Group) -> dict[str, Any]:
    """Return a group as a line of a file."""
    first = group.acknowledged
    ms = None if group.ended_at is None else group.ended_at - group.began_at
    values = (
        group.scenario.name, group.key, group.value, group.began_at, group.ended_at, ms,
        group.assets, len(group.incidents), group.worst,
        first.acknowledged_at if first else None, first.acknowledged_by if first else "",
    )  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


GROUP_TABLE = Table(
    "",
    "Label",
    "Began",
    Column("Lasted", "from the first incident to the end of the last", numeric=True),
    Column("Worst", "the most severe state of all of them"),
    Column("Assets", "that were in trouble", numeric=True),
    Column("Incidents", numeric=True),
    Column("Acknowledged", "by whom first, and how long after it began"),
)
MEMBER_TABLE = Table(
    "",
    "Asset",
    "Began",
    Column("Lasted", numeric=True),
    Column("Worst", "the most severe of its states"),
    Column("Acknowledged", "by whom first, and how long after it began"),
)
