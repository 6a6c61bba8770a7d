"""Incidents as lists: by asset, and by a label that assets share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from dashboard.core.common.forms import ListForm, PeriodForm, scenario_choices
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.common.tables import Column, ListOrder, Table
from dashboard.core.common.times import duration, now_ms
from dashboard.core.states.board_rows import asset_path
from dashboard.watch.annotations.labels import labels_of
from dashboard.watch.annotations.models import MAX_KEY, MAX_VALUE, Label
from dashboard.watch.incidents.models import FLAP_MS, Incident, real
from domain.names import MAX_NAME
from domain.scenario import Scenario

# ---- incidents -----------------------------------------------------------------------------------
# The list of incidents: filtered, newest first, page by page, and as a file.

STATUSES = {
    "open": Q(ended_at=None),
    "unacknowledged": Q(ended_at=None, acknowledged_at=None),
    "acknowledged": Q(acknowledged_at__isnull=False),
    "ended": Q(ended_at__isnull=False),
}
ANY_TIME, BEGAN, ENDED = "", "began", "ended"
"""What of an incident lies in the time of a filter: any part of it, its beginning, its end."""


def find_incidents(
    *,
    scenario: Collection[str] = (),
    q: str = "",
    worst: str = "",
    status: str = "",
    start: int | None = None,
    end: int | None = None,
    of_time: str = ANY_TIME,
    asset: str = "",
    label: tuple[str, str] | None = None,
    flapping: bool = False,
) -> QuerySet[Incident]:
    """Return the incidents that pass a filter. scenario: all by default; q: a part of the asset's
    name; worst: a state; status: of STATUSES; start, end: Unix ms; of_time: what of an incident
    lies between these; asset: a whole name; label: a key and a value, which is "" for assets
    without the key; flapping: only those that are."""
    conditions = {
        "scenario__in": scenario,
        "asset__icontains": q,
        "asset": asset,
        "worst": worst,
    }
    rows = real().filter(in_time(start, end, of_time), scenario__in=scenarios())
    rows = rows.filter(**{name: value for name, value in conditions.items() if value})
    if label is not None:
        rows = rows.filter(labelled(*label))
    if flapping:
        rows = rows.filter(_flapping())
    return rows.filter(STATUSES[status]) if status else rows


def in_time(start: int | None, end: int | None, of_time: str = ANY_TIME) -> Q:
    """Return the condition that the times of an incident have to meet."""
    edge = "ended_at" if of_time == ENDED else "began_at"
    condition = Q() if end is None else Q(**{f"{edge}__lt": end})
    if start is None:
        return condition
    if of_time == ANY_TIME:
        return condition & (Q(ended_at=None) | Q(ended_at__gt=start))
    return condition & Q(**{f"{edge}__gte": start})


def labelled(key: str, value: str) -> Q:
    """Return the condition that an incident's asset has a label; with no value, that it has none of
    this key."""
    labels = Label.objects.filter(
        scenario=OuterRef("scenario"), asset=OuterRef("asset"), key=key, shown=True
    )
    return Q(Exists(labels.filter(value=value))) if value else ~Q(Exists(labels))


def _flapping() -> Q:
    """Return the condition that an incident began soon after one of its asset had ended."""
    ended_before = real().filter(
        scenario=OuterRef("scenario"),
        asset=OuterRef("asset"),
        began_at__lt=OuterRef("began_at"),
        ended_at__lte=OuterRef("began_at"),
        ended_at__gt=OuterRef("began_at") - FLAP_MS,
    )
    return Q(Exists(ended_before))


@dataclass(frozen=True)
class IncidentCount:
    """How many incidents pass a filter, and of how many assets these are."""

    incidents: int
    assets: int


def count(rows: QuerySet[Incident]) -> IncidentCount:
    """Return how many incidents these are, and of how many assets."""
    return IncidentCount(rows.count(), rows.values("scenario", "asset").distinct().count())


@dataclass(frozen=True)
class IncidentRow:
    """An incident as pages show it."""

    row: Incident
    scenario: Scenario
    until: int

    @property
    def ms(self) -> int:
        """How long it lasted, or has lasted until now, ms."""
        return self.until - self.row.began_at

    @property
    def lasted(self) -> str:
        """How long it lasted, in words."""
        return duration(self.ms)

    @property
    def answered(self) -> str:
        """How long nobody had acknowledged it, in words; empty while nobody has."""
        after = self.acknowledged_after
        return "" if after is None else duration(after)

    @property
    def url(self) -> str:
        """The address of its page."""
        return reverse("incidents:incident", args=[self.row.pk])

    @property
    def acknowledged_after(self) -> int | None:
        """How long nobody had acknowledged it, ms; None while nobody has."""
        at = self.row.acknowledged_at
        return None if at is None else at - self.row.began_at

    @property
    def asset_url(self) -> str:
        """The address of the asset's page."""
        return asset_path(self.row.scenario, self.row.asset)


def entry_of(row: Incident, now: int | None = None) -> IncidentRow:
    """Return an incident as pages show it at a time, Unix ms; by default now."""
    until = row.ended_at if row.ended_at is not None else now or now_ms()
    return IncidentRow(row, scenarios()[row.scenario], until)


FIELDS = (
    "scenario", "asset", "worst", "state", "began_at", "ended_at", "duration_ms", "changes",
    "acknowledged_at", "acknowledged_by",
)  # fmt: skip
INCIDENT_TABLE = Table(
    "",
    "Asset",
    "Scenario",
    "Began",
    Column("Lasted", numeric=True),
    Column("Worst", "the most severe of its states"),
    Column("Last", "its state now, or the last before it ended"),
    Column("Acknowledged", "by whom first, and how long after it began"),
    Column("Changes", "changes of its state, the beginning included", numeric=True),
)


# ---- incidents -----------------------------------------------------------------------------------
# The filter of incidents, and their list.

OF_TIMES = {ANY_TIME: "some part of them", BEGAN: "they began", ENDED: "they ended"}
"""What of incidents lies in the time of the filter, in words."""


class LabelField(forms.CharField):
    """An optional label, `customer:Acme`; with nothing after the colon, that there is none."""

    def __init__(self) -> None:
        hint = {"placeholder": "customer:Acme", "autocomplete": "off"}
        super().__init__(
            required=False,
            max_length=MAX_KEY + 1 + MAX_VALUE,
            label="Label",
            widget=forms.TextInput(attrs=hint),
        )

    def clean(self, value: Any) -> tuple[str, str] | None:
        """Return key and value; None where nothing was given. Raises ValidationError."""
        text = super().clean(value)
        key, colon, of_key = text.partition(":")
        if not text:
            return None
        if not key or not colon:
            raise forms.ValidationError("Expected a key and a value, as customer:Acme.")
        return key, of_key


class IncidentFilterForm(ListForm, PeriodForm):
    """The filter in the address. Times in UTC."""

    scenario = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    status = forms.ChoiceField(required=False)
    worst = forms.ChoiceField(required=False, label="Worst state")
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of a name")
    asset = forms.CharField(required=False, max_length=MAX_NAME, label="Or its whole name")
    label = LabelField()
    of_time = forms.ChoiceField(required=False, label="In this time")
    flapping = forms.BooleanField(required=False, label="Only flapping ones")

    field_order = (
        "scenario", "status", "worst", "q", "asset", "label", "start", "end", "of_time",
    )  # fmt: skip

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", scenario_choices())
        self.offer("of_time", list(OF_TIMES.items()))
        self.offer("status", [("", "all"), *((name, name.capitalize()) for name in STATUSES)])
        states = [
            (each.title, [(s.name, s.label) for s in each.states if not each.is_good(s.name)])
            for each in scenarios().values()
        ]
        self.offer("worst", [("", "all"), *states])

    def rows(self) -> QuerySet[Incident]:
        """Return the incidents that pass."""
        return find_incidents(**self.criteria())


class IncidentList(ListPage):
    """The list of incidents, newest first."""

    name = "incidents"
    form_class = IncidentFilterForm
    template = "incidents/incidents"
    table = INCIDENT_TABLE
    order = ListOrder("began_at")
    fields = (*FIELDS, "id")
    at_most = 100_000

    def entry(self, row: Incident) -> IncidentRow:
        """Return an incident as pages show it."""
        return entry_of(row)

    def context(self) -> dict[str, Any]:
        """Return how many incidents a filter with a beginning finds."""
        dated = self.form.is_valid() and self.form.cleaned_data["start"]
        return {"count": count(self.form.rows()) if dated else None}


# ---- groups --------------------------------------------------------------------------------------
# Incidents of assets that share a label, as one: the unbroken times in which at least one of them
# was in trouble.
#
# An asset belongs to the label that it has now, of whatever time its incidents are.

MOST_LOOKED_AT = 20_000
"""Most incidents that are grouped, those that began last."""
MOST_SHOWN = 100
"""Most groups of a page, those that began last."""


@dataclass
class IncidentGroup:
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


@dataclass(frozen=True)
class GroupResult:
    """Groups, those that began last first. cut: whether there were more incidents than were looked
    at."""

    groups: list[IncidentGroup]
    cut: bool

    @property
    def shown(self) -> list[IncidentGroup]:
        """Those that a page shows."""
        return self.groups[:MOST_SHOWN]


def find_groups(rows: QuerySet[Incident], scenario: Scenario, key: str) -> GroupResult:
    """Return the groups that some of a scenario's incidents make by a label.

    Incidents of assets without the label are in none.
    """
    newest = rows.filter(scenario=scenario.name).order_by("-began_at")
    found = list(newest[: MOST_LOOKED_AT + 1])
    cut = len(found) > MOST_LOOKED_AT
    by_value = _by_value(scenario, key, found[:MOST_LOOKED_AT])
    groups = [
        group
        for value, members in by_value.items()
        for group in merge(scenario, key, value, members)
    ]
    groups.sort(key=lambda group: (group.began_at, group.value), reverse=True)
    return GroupResult(groups, cut)


def group_of(row: Incident, scenario: Scenario, key: str) -> IncidentGroup | None:
    """Return the group that an incident belongs to; None where its asset has not this label."""
    value = labels_of(scenario.name, [row.asset]).get(row.asset, {}).get(key)
    if value is None:
        return None
    members = real().filter(labelled(key, value), scenario=scenario.name)
    around = _around(members, row)
    return next(each for each in merge(scenario, key, value, around) if row in each.incidents)


def merge(
    scenario: Scenario, key: str, value: str, incidents: Iterable[Incident]
) -> Iterator[IncidentGroup]:
    """Yield the unbroken times that incidents make up; those that touch are one."""
    group: IncidentGroup | None = None
    for each in sorted(incidents, key=lambda row: (row.began_at, row.pk)):
        if group is not None and (group.ended_at is None or each.began_at <= group.ended_at):
            group.incidents.append(each)
            group.ended_at = _later(group.ended_at, each.ended_at)
            continue
        if group is not None:
            yield group
        group = IncidentGroup(scenario, key, value, each.began_at, each.ended_at, [each])
    if group is not None:
        yield group


def entries(group: IncidentGroup) -> list[IncidentRow]:
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
        joined = members.filter(in_time(begin - 1, end and end + 1))
        around = list(joined.order_by("began_at")[:MOST_LOOKED_AT])
        if len(around) <= known or len(around) == MOST_LOOKED_AT:
            return around if row in around else [row]
        known = len(around)
        begin = min(each.began_at for each in around)
        for each in around:
            end = _later(end, each.ended_at)


GROUP_FIELDS = (
    "scenario", "label", "value", "began_at", "ended_at", "duration_ms", "assets", "incidents",
    "worst", "acknowledged_at", "acknowledged_by",
)  # fmt: skip


def plain_group(group: IncidentGroup) -> dict[str, Any]:
    """Return a group as a line of a file."""
    first = group.acknowledged
    ms = None if group.ended_at is None else group.ended_at - group.began_at
    values = (
        group.scenario.name, group.key, group.value, group.began_at, group.ended_at, ms,
        group.assets, len(group.incidents), group.worst,
        first.acknowledged_at if first else None, first.acknowledged_by if first else "",
    )  # fmt: skip
    return dict(zip(GROUP_FIELDS, values, strict=True))


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
