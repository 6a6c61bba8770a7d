"""Lists of incidents: by asset, and by a label that assets share."""

# ruff: noqa: ARG002 - keys of a filter take the time

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from dashboard.core.common.forms import time_zone_of
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.common.tables import Column, ListOrder, Table
from dashboard.core.common.times import duration, now_ms
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.filter_parser import Atom
from dashboard.core.states.filter_terms import DurationTerm, Text, TimeTerm, quoted
from dashboard.core.states.vocabularies import (
    MOST,
    ChoiceKey,
    Completion,
    LinkTerm,
    ListKey,
    PersonKey,
    TextKey,
    TimeKey,
    Vocabulary,
    choice_of,
    in_utc,
    scenario_key,
    text_is,
    time_is,
)
from dashboard.watch.annotations.labels import keys, labels_of, values
from dashboard.watch.annotations.models import Label
from dashboard.watch.incidents.models import (
    CASE_STATUSES,
    INCIDENT_STATUSES,
    UNRESOLVED,
    Case,
    CaseQuerySet,
    Incident,
    IncidentQuerySet,
    case_number,
    flapping,
    give_facts,
    later_end,
)
from domain.scenario import Scenario

# ---- incidents -----------------------------------------------------------------------------------
# The columns of incidents, on the page and in the file.

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


@dataclass(frozen=True)
class LabelKey(ListKey):
    """A label's key in a filter; members: the condition for rows with such labels."""

    members: Callable[[QuerySet[Label]], Q] = field(default=lambda labels: Q(Exists(labels)))

    def value(self, atom: Atom, now: int) -> Text:
        """Return the label's value, or its beginning."""
        return Text(atom.text, atom.star)

    def condition(self, value: Text, now: int) -> Q:
        """Return the condition on a row for one value."""
        labels = Label.objects.filter(
            scenario=OuterRef("scenario"), asset=OuterRef("asset"), key=self.name, shown=True
        )
        return self.members(labels.filter(text_is("value", value)))

    def values(self, typed: str) -> Iterable[Completion]:
        """Return the values that begin so."""
        every = (value for name in scenarios() for value in values(name, self.name, typed, MOST))
        return [Completion(quoted(value), value) for value in dict.fromkeys(every)]


def _label_keys() -> list[str]:
    return sorted({key for name in scenarios() for key in keys(name)})


def bad_states() -> dict[str, str]:
    """Return the titles of the states outside the good ones, of all scenarios."""
    every = ((each, spec) for each in scenarios().values() for spec in each.states)
    return {spec.name: spec.label for each, spec in every if not each.is_good(spec.name)}


@dataclass(frozen=True)
class DuringKey(TimeKey):
    """A key of some part of an incident's time, `during:>14:00`."""

    def condition(self, value: DurationTerm | TimeTerm, now: int) -> Q:
        """Return the condition on a row for one value."""
        later = not value.more if isinstance(value, DurationTerm) else value.after
        if not later:
            return time_is("began_at", value, now)
        return Q(ended_at=None) | time_is("ended_at", value, now)


def _time_term(way: str) -> LinkTerm:
    """Return what makes a time of a link a term; other parameters say of what, and its zone."""
    return lambda at, given: f"{given.get('of_time') or 'during'}:{way}{in_utc(at, given)}"


def _label_term(text: str, _given: Any) -> str:
    """Return the term for a label of a link: without a value that of assets without the key."""
    key, colon, value = text.partition(":")
    return f"{key}:{quoted(value)}" if value or not colon else f"-{key}:*"


INCIDENT_VOCABULARY = Vocabulary(
    word=lambda text: Q(asset__icontains=text),
    example="a name, status:open, began:<1d",
    keys=(
        ChoiceKey(
            "status", "ongoing or ended", choice_of(tuple(INCIDENT_STATUSES)),
            INCIDENT_STATUSES.__getitem__,
        ),
        scenario_key(),
        TextKey("asset", "the whole name", "asset"),
        ChoiceKey("worst", "the worst of its states", bad_states, "worst"),
        ChoiceKey(
            "is", "flapping: soon after the one before", choice_of(("flapping",)),
            lambda _: flapping(),
        ),
        PersonKey(
            "ack", "who acknowledged it first", "acknowledged_by", none=Q(acknowledged_at=None)
        ),
        TimeKey("began", "when it began", "began_at"),
        TimeKey("ended", "when it ended", "ended_at"),
        DuringKey("during", "some part of its time"),
    ),
    more=lambda: [LabelKey(name, "label") for name in _label_keys()],
    links={
        "start": _time_term(">"),
        "end": _time_term("<"),
        "of_time": lambda _value, _given: "",
        "label": _label_term,
        "flapping": lambda _value, _given: "is:flapping",
    },
)  # fmt: skip


class IncidentFilterForm(VocabularyForm):
    """The filter in the URL, and the zone of the list's times that a summary's link names."""

    vocabulary = INCIDENT_VOCABULARY

    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    @property
    def time_zone(self) -> ZoneInfo:
        """The zone of the list's times."""
        return time_zone_of(self.data)

    def every(self) -> IncidentQuerySet:
        """Return the incidents that pages show."""
        return Incident.objects.shown()


class IncidentList(ListPage):
    """The list of each time that an asset was in trouble, newest first."""

    name = "by-asset"
    form: IncidentFilterForm
    form_class = IncidentFilterForm
    template = "incidents/by_asset"
    table = INCIDENT_TABLE
    order = ListOrder("began_at")
    fields = (*FIELDS, "case_id", "id")
    exported_as = "incidents"
    at_most = 100_000

    def context(self) -> dict[str, Any]:
        """Return the number of incidents found, if the filter is of a time."""
        timed = ("began", "ended", "during")
        dated = self.form.is_valid() and any(map(self.form.asked.terms.asks, timed))
        passing = self.form.every().filter(self.form.asked.condition)
        return {"count": passing.counts() if dated else None}


# ---- cases ---------------------------------------------------------------------------------------
# The list of what people work on, which pages call incidents.

CASE_FIELDS = (
    "number", "scenario", "status", "owner", "ticket", "subject", "assets", "going_on", "worst",
    "began_at", "ended_at", "acknowledged_at", "acknowledged_by", "resolved_at", "resolved_by",
    "id",
)  # fmt: skip
CASE_TABLE = Table(
    "",
    Column("Incident", "its number"),
    Column("About", "the asset, or how many assets"),
    "Scenario",
    Column("Status", "of the work on it, whatever state the assets are in"),
    "Owner",
    "Began",
    Column("Lasted", "until all its assets were good again", numeric=True),
    Column("Worst", "the most severe state of all its assets"),
    Column("Assets", "in trouble now, of all its assets", numeric=True),
    "Ticket",
)


MOST_MEMBERS = 200
"""Most assets of an incident or a group that a page lists, those that began first."""


def _members(condition: Q) -> Q:
    """Return the condition that an asset's trouble in a case meets another one."""
    return Q(Exists(Incident.objects.real().filter(condition, case=OuterRef("pk"))))


def _about(text: str) -> Q:
    """Return the condition for cases with this number, ticket, or part of an asset's name."""
    known = Q(ticket__iexact=text) | _members(Q(asset__icontains=text))
    number = case_number(text)
    return known if number is None else known | Q(pk=number)


def _owners() -> list[str]:
    named = Case.objects.exclude(owner="")
    return list(named.values_list("owner", flat=True).order_by("owner").distinct())


CASE_VOCABULARY = Vocabulary(
    word=_about,
    example="INC-1042, a name, status:unresolved",
    keys=(
        ChoiceKey(
            "status", "of the work on it", choice_of((UNRESOLVED, *CASE_STATUSES)),
            lambda status: CASE_STATUSES.get(status, Q(resolved_at=None)),
        ),
        PersonKey("owner", "who owns it", "owner", known=_owners, none=Q(owner="")),
        scenario_key(),
        TextKey("asset", "the whole name of an asset", "asset", within=_members),
        ChoiceKey(
            "worst", "the worst state of an asset", bad_states,
            lambda state: _members(Q(worst=state)),
        ),
        TextKey("ticket", "its reference", "ticket"),
        TimeKey("began", "when it began", "began_at"),
    ),
    more=lambda: [
        LabelKey(name, "label of an asset", lambda labels: _members(Q(Exists(labels))))
        for name in _label_keys()
    ],
    links={"owner": lambda name, _: f"owner:{'nobody' if name == '-' else quoted(name)}"},
)  # fmt: skip


class CaseFilterForm(VocabularyForm):
    """The filter of incidents in the URL."""

    vocabulary = CASE_VOCABULARY

    def every(self) -> CaseQuerySet:
        """Return the cases that pages show."""
        return Case.objects.shown()


class CaseList(ListPage):
    """The list of incidents, as people work on them, newest first."""

    name = "incidents"
    form: CaseFilterForm
    form_class = CaseFilterForm
    template = "incidents/incidents"
    table = CASE_TABLE
    order = ListOrder("began_at")
    fields = CASE_FIELDS
    at_most = 100_000

    def complete(self, rows: list[Case]) -> None:
        """Give cases the facts about their incidents."""
        give_facts(rows)

    def portions(self) -> Iterable[Iterable[Case]]:
        """Yield the rows of the file in portions, with the facts about them."""
        return (give_facts(list(portion)) for portion in super().portions())

    def plain(self, row: Case) -> dict[str, Any]:
        """Return a case as an NDJSON object, a CSV line or an object of the API."""
        facts = row.facts._asdict()
        return {name: facts[name] if name in facts else getattr(row, name) for name in self.fields}


# ---- groups --------------------------------------------------------------------------------------
# Incidents of assets that share a label, combined: the unbroken times in which at least one of the
# assets was in trouble.
#
# An asset belongs to the label it has now, however old its incidents are.

MOST_LOOKED_AT = 20_000
"""Most incidents that are grouped, those that began last."""
MOST_SHOWN = 100
"""Most groups on a page, those that began last."""


GROUP_FIELDS = (
    "scenario", "label", "value", "began_at", "ended_at", "duration_ms", "assets", "incidents",
    "worst", "acknowledged_at", "acknowledged_by",
)  # fmt: skip


@dataclass
class IncidentGroup:
    """The incidents of an unbroken time in which at least one asset with a label is in trouble.

    began_at, ended_at: Unix ms, ended_at None until it ends; incidents: in the order in which they
    began.
    """

    scenario: Scenario
    key: str
    value: str
    began_at: int
    ended_at: int | None
    incidents: list[Incident] = field(default_factory=list)

    @property
    def worst(self) -> str:
        """The most severe state of all the incidents."""
        return min((each.worst for each in self.incidents), key=self.scenario.severity)

    @property
    def assets(self) -> int:
        """How many assets were in trouble."""
        return len({each.asset for each in self.incidents})

    @property
    def acknowledged(self) -> Incident | None:
        """The incident that was acknowledged first, or None."""
        known = [each for each in self.incidents if each.acknowledged_at is not None]
        return min(known, key=lambda each: each.acknowledged_at or 0) if known else None

    @property
    def unanswered(self) -> str:
        """How long it took until the first acknowledgement, in words, or "" if there is none."""
        first = self.acknowledged
        if first is None or first.acknowledged_at is None:
            return ""
        return duration(max(0, first.acknowledged_at - self.began_at))

    @property
    def lasted(self) -> str:
        """How long it lasted, or has lasted so far, in words."""
        return duration((now_ms() if self.ended_at is None else self.ended_at) - self.began_at)

    def get_absolute_url(self) -> str:
        """Return the URL of its page; without a value, of its first incident."""
        first = self.incidents[0]
        if not self.value:
            return first.get_absolute_url()
        return reverse("incidents:group", args=[first.pk, self.key])

    @property
    def report_url(self) -> str:
        """The URL of its report."""
        return reverse("incidents:group-report", args=[self.incidents[0].pk, self.key])

    def plain(self) -> dict[str, Any]:
        """Return the group as a line of a file."""
        first = self.acknowledged
        ms = None if self.ended_at is None else self.ended_at - self.began_at
        values = (
            self.scenario.name, self.key, self.value, self.began_at, self.ended_at, ms,
            self.assets, len(self.incidents), self.worst,
            first.acknowledged_at if first else None, first.acknowledged_by if first else "",
        )  # fmt: skip
        return dict(zip(GROUP_FIELDS, values, strict=True))


@dataclass(frozen=True)
class GroupResult:
    """Groups, those that began last first.

    cut: whether there were more incidents than were examined.
    """

    groups: list[IncidentGroup]
    cut: bool

    @property
    def shown(self) -> list[IncidentGroup]:
        """The groups that a page shows."""
        return self.groups[:MOST_SHOWN]

    @classmethod
    def joined(cls, results: Iterable[GroupResult]) -> GroupResult:
        """Return the groups of several scenarios together."""
        own = list(results)
        all_groups = (group for each in own for group in each.groups)
        groups = sorted(all_groups, key=_newest, reverse=True)
        return cls(groups, any(each.cut for each in own))


def _newest(group: IncidentGroup) -> tuple[int, str]:
    return group.began_at, group.value


def find_groups(
    rows: IncidentQuerySet, scenario: Scenario, key: str, *, without: bool = False
) -> GroupResult:
    """Return the groups that a scenario's incidents form by a label.

    Incidents of assets without the label are in no group, unless `without`: then the rows are
    theirs alone, and form groups of their own.
    """
    newest = rows.filter(scenario=scenario.name).order_by("-began_at", "-pk")
    newest_rows = list(newest[: MOST_LOOKED_AT + 1])
    cut = len(newest_rows) > MOST_LOOKED_AT
    incidents = newest_rows[:MOST_LOOKED_AT]
    by_value = {"": incidents} if without else _by_value(scenario, key, incidents)
    groups = [
        group
        for value, members in by_value.items()
        for group in merge(scenario, key, value, members)
    ]
    return GroupResult(groups, cut)


def group_of(row: Incident, scenario: Scenario, key: str) -> IncidentGroup | None:
    """Return the group of an incident, or None if its asset does not have this label."""
    value = labels_of(scenario.name, [row.asset]).get(row.asset, {}).get(key)
    if value is None:
        return None
    members = Incident.objects.real().filter(scenario=scenario.name).labelled(key, value)
    around = _around(members, row)
    return next(each for each in merge(scenario, key, value, around) if row in each.incidents)


def merge(
    scenario: Scenario, key: str, value: str, incidents: Iterable[Incident]
) -> Iterator[IncidentGroup]:
    """Yield the unbroken times that incidents make up; times that touch are combined."""
    group: IncidentGroup | None = None
    for each in sorted(incidents, key=lambda row: (row.began_at, row.pk)):
        if group is not None and (group.ended_at is None or each.began_at <= group.ended_at):
            group.incidents.append(each)
            group.ended_at = later_end(group.ended_at, each.ended_at)
            continue
        if group is not None:
            yield group
        group = IncidentGroup(scenario, key, value, each.began_at, each.ended_at, [each])
    if group is not None:
        yield group


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


def _around(members: IncidentQuerySet, row: Incident) -> list[Incident]:
    """Return the incidents that overlap or touch one of them in a chain, at most MOST_LOOKED_AT."""
    begin, end, known = row.began_at, row.ended_at, 0
    while True:
        joined = members.within(begin - 1, end and end + 1)
        around = list(joined.order_by("began_at", "pk")[:MOST_LOOKED_AT])
        if len(around) <= known or len(around) == MOST_LOOKED_AT:
            return around if row in around else [row]
        known = len(around)
        begin = min(each.began_at for each in around)
        for each in around:
            end = later_end(end, each.ended_at)


GROUP_TABLE = Table(
    "",
    "Label",
    "Scenario",
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
WORST_TABLE = Table(
    "",
    "Asset",
    Column("At", "when it entered the worst of its states"),
    "Agent",
    "Vote",
    Column("Figures", "what the agent sent beside its vote"),
)
