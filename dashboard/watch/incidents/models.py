"""Incidents and maintenance windows in the database. Times in Unix ms.

What people call an incident is a `Case`: it has a number, an owner and a status, and groups the
times in which assets were in trouble. Such a time is an `Incident`: it is derived from the log, and
made again by a rebuild, while a case is what people did and stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import Case as Choice
from django.db.models import (
    Count,
    Exists,
    F,
    Index,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    UniqueConstraint,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Greatest
from django.dispatch import Signal
from django.urls import reverse
from django.utils.functional import cached_property

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import Limit
from dashboard.core.common.extension_point import Provider
from dashboard.core.common.models import (
    AssetRow,
    AuthoredRow,
    ScenarioRow,
    length_class,
    length_index,
)
from dashboard.core.common.retention import Retention, delete_in_portions, delete_rows
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.common.times import DAY_MS, MINUTE_MS, duration, now_ms
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError, parse
from dashboard.core.states.filter_terms import WORD, Filter
from dashboard.core.states.models import PLACE, AssetState
from dashboard.core.states.queries import listed
from dashboard.watch.annotations.models import MAX_VALUE, MAX_WORK, NUMBER, Label
from domain.history.runs import merged
from domain.names import MAX_STATE
from domain.scenario import Scenario

# ---- incidents -----------------------------------------------------------------------------------
# Incidents in the database. Times in Unix ms of the broker's clock.

FLAP_MS = 15 * MINUTE_MS
"""An incident that begins within this time of its asset's previous one is flapping."""

INCIDENT_STATUSES = {
    "open": Q(ended_at=None),
    "unacknowledged": Q(ended_at=None, acknowledged_at=None),
    "acknowledged": Q(acknowledged_at__isnull=False),
    "ended": Q(ended_at__isnull=False),
}


def flapping() -> Q:
    """Return the condition for incidents that began soon after one of the same asset ended."""
    ended_before = Incident.objects.real().filter(
        scenario=OuterRef("scenario"),
        asset=OuterRef("asset"),
        began_at__lt=OuterRef("began_at"),
        ended_at__lte=OuterRef("began_at"),
        ended_at__gt=OuterRef("began_at") - FLAP_MS,
    )
    return Q(Exists(ended_before))


class IncidentCount(NamedTuple):
    """How many incidents there are, and how many assets they affect."""

    incidents: int
    assets: int


class IncidentQuerySet(models.QuerySet["Incident"]):
    def real(self) -> IncidentQuerySet:
        """Return the incidents that lasted; those not found again by a rebuild have no length."""
        return self.exclude(ended_at=F("began_at"))

    def shown(self) -> IncidentQuerySet:
        """Return the incidents that pages show: the real ones of configured scenarios."""
        return self.real().filter(scenario__in=scenarios())

    def open(self) -> IncidentQuerySet:
        """Return the incidents that have not ended."""
        return self.filter(ended_at=None)

    def within(self, start: int | None, end: int | None) -> IncidentQuerySet:
        """Return the incidents of which some part lies between two times (Unix ms)."""
        rows = self if end is None else self.filter(began_at__lt=end)
        return rows if start is None else rows.filter(Q(ended_at=None) | Q(ended_at__gt=start))

    def labelled(self, key: str, value: str) -> IncidentQuerySet:
        """Return the incidents of assets with a label, or without its key if the value is ""."""
        labels = Label.objects.filter(
            scenario=OuterRef("scenario"), asset=OuterRef("asset"), key=key, shown=True
        )
        return self.filter(Exists(labels.filter(value=value)) if value else ~Exists(labels))

    def counts(self) -> IncidentCount:
        """Return how many incidents these are, and how many assets they affect."""
        return IncidentCount(self.count(), self.values("scenario", "asset").distinct().count())

    def acknowledge(self, by: str, at: int) -> int:
        """Record on open incidents who acknowledged them first, and when. Returns on how many."""
        # The web process's and the broker's clocks may differ.
        since = Greatest(Value(at), F("began_at"))
        first = self.open().filter(acknowledged_at=None)
        return first.update(acknowledged_at=since, acknowledged_by=by)


class Incident(AssetRow):
    """An asset's unbroken time outside its good states.

    place: of the change that began it, so that a rebuild finds its own incidents again; state: its
    newest state that is not good; worst: the most severe of them; changes: how many state changes
    it has, including its beginning; ended_at: None until it ends; acknowledged_*: of its first
    acknowledgement; case: what it is worked on as, the numbered incident that people see.
    """

    case = models.ForeignKey("Case", models.SET_NULL, null=True, related_name="incidents")
    place = models.CharField(max_length=PLACE)
    began_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)
    state = models.CharField(max_length=MAX_STATE)
    worst = models.CharField(max_length=MAX_STATE)
    changes = models.IntegerField(default=1)
    acknowledged_at = models.BigIntegerField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    length_class = length_class("began_at", "ended_at")

    objects = IncidentQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["scenario", "asset", "place"], name="one_incident_per_place"
            ),
        )
        indexes = (
            models.Index(
                fields=["scenario", "asset"],
                condition=Q(ended_at=None),
                name="incidents_open",
            ),
            models.Index(fields=["scenario", "began_at"], name="incidents_by_begin"),
            models.Index(fields=["began_at", "id"], name="incidents_newest"),
            models.Index(fields=["scenario", "ended_at"], name="incidents_by_end"),
            length_index("began_at", "ended_at", "incidents_by_length"),
        )

    @property
    def duration_ms(self) -> int | None:
        """Return how long it lasted, ms, or None until it ends."""
        return None if self.ended_at is None else self.ended_at - self.began_at

    @property
    def until(self) -> int:
        """Return when it ended, or the present time if it has not, Unix ms."""
        return now_ms() if self.ended_at is None else self.ended_at

    @property
    def lasted_ms(self) -> int:
        """Return how long it lasted, or has lasted so far, ms."""
        return self.until - self.began_at

    @property
    def lasted(self) -> str:
        """Return how long it lasted, or has lasted so far, in words."""
        return duration(self.lasted_ms)

    @property
    def unanswered(self) -> str:
        """Return how long the first acknowledgement took, in words; empty if there is none."""
        at = self.acknowledged_at
        return "" if at is None else duration(at - self.began_at)

    @property
    def asset_url(self) -> str:
        """Return the URL of the asset's page."""
        return asset_path(self.scenario, self.asset)

    def get_absolute_url(self) -> str:
        """Return the URL of its case's page, or of its asset's if it has none."""
        return (
            reverse("incidents:incident", args=[self.case_id]) if self.case_id else self.asset_url
        )


class WorstMoment(AssetRow):
    """The votes when an incident entered the worst of its states.

    place: at which the incident began; at: Unix ms; votes: a JSON list of `report.WorstVote`.
    """

    place = models.CharField(max_length=PLACE)
    at = models.BigIntegerField()
    state = models.CharField(max_length=MAX_STATE)
    votes = models.TextField(default="[]")

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "place"], name="one_worst_moment_per_incident"
            ),
        )
        indexes = (Index(fields=["scenario", "at"], name="worst_moments_by_age"),)


def later_end(one: int | None, two: int | None) -> int | None:
    """Return the later of two ends, Unix ms; what has not ended has None, later than any."""
    return None if one is None or two is None else max(one, two)


# ---- cases ---------------------------------------------------------------------------------------
# What people work on and call an incident, such as INC-1042. It begins with the first of its
# assets' incidents; others join it. A rebuild never touches it but for this membership.

MAX_ENTRY = 2_000
"""Longest text of an entry, characters."""
MAX_TICKET = 100
"""Longest reference to a ticket, characters."""

OPEN, ACKNOWLEDGED, RESOLVED = "open", "acknowledged", "resolved"
CASE_STATUSES = {
    OPEN: Q(resolved_at=None, acknowledged_at=None),
    ACKNOWLEDGED: Q(resolved_at=None, acknowledged_at__isnull=False),
    RESOLVED: Q(resolved_at__isnull=False),
}
"""How far the work on a case is, whatever state its assets are in."""
UNRESOLVED = "unresolved"


class CaseQuerySet(models.QuerySet["Case"]):
    def shown(self) -> CaseQuerySet:
        """Return the cases that pages show: of configured scenarios, with assets or an owner.

        The incidents of a case may all be lost to a rebuild under another rule.
        """
        assets = Incident.objects.real().filter(case=OuterRef("pk"))
        whole = self.filter(merged_into=None, scenario__in=scenarios())
        return whole.filter(Exists(assets) | ~Q(owner=""))

    def badge(self) -> int:
        """Return how many the bar of every page counts: those that nobody has in hand."""
        return self.filter(CASE_STATUSES[OPEN], merged_into=None, scenario__in=scenarios()).count()

    def unresolved(self) -> CaseQuerySet:
        """Return the cases that are not resolved."""
        return self.filter(resolved_at=None)

    def of_asset(self, scenario: str, asset: str) -> Case | None:
        """Return the case of an asset's newest incident, one that goes on before all others."""
        rows = Incident.objects.real().filter(scenario=scenario, asset=asset, case__isnull=False)
        newest = rows.order_by(F("ended_at").desc(nulls_first=True), "-began_at", "-pk")
        incident = newest.select_related("case").first()
        return incident.case if incident else None

    def settle(self) -> None:
        """Resolve what nobody owns once all its assets are good, and open it if one is not again.

        What an owner has in hand, or somebody resolved, is left to people.
        """
        going_on = Exists(Incident.objects.open().filter(case=OuterRef("pk")))
        ends = Incident.objects.filter(case=OuterRef("pk")).order_by("-ended_at", "-pk")
        over = self.unresolved().filter(owner="").exclude(going_on)
        over.update(resolved_at=Subquery(ends.values("ended_at")[:1]), resolved_by="")
        by_itself = self.filter(resolved_at__isnull=False, resolved_by="")
        by_itself.filter(going_on).update(resolved_at=None)

    def acknowledge(self, by: str, at: int) -> int:
        """Record on unresolved cases who acknowledged them first, and so owns them.

        Returns on how many.
        """
        since = Greatest(Value(at), F("began_at"))
        owner = Choice(When(owner="", then=Value(by)), default=F("owner"))
        fields = {"acknowledged_at": since, "acknowledged_by": by, "owner": owner}
        first = self.unresolved().filter(acknowledged_at=None)
        with transaction.atomic():
            numbers = list(first.values_list("pk", flat=True))
            taken = [number for number in numbers if first.filter(pk=number).update(**fields)]
            for case in Case.objects.filter(pk__in=listed(taken)):
                case.announce(ACKNOWLEDGED, by, at)
        return len(taken)


class CaseFacts(NamedTuple):
    """What the incidents of a case are.

    assets: how many are or were in trouble; asset: the first by name; going_on: how many incidents
    have not ended; ended_at: when the last of them did, Unix ms, None before; worst: their most
    severe state.
    """

    assets: int = 0
    asset: str = ""
    going_on: int = 0
    ended_at: int | None = None
    worst: str = ""


NO_FACTS = CaseFacts()


def case_facts(numbers: Collection[int]) -> dict[int, CaseFacts]:
    """Return the facts about cases, by the number of each that has incidents."""
    rows = Incident.objects.real().filter(case__in=listed(numbers)).order_by()
    worst: dict[int, str] = {}
    for number, scenario, state in rows.values_list("case", "scenario", "worst").distinct():
        known = scenarios().get(scenario)
        if number not in worst or (known and known.severity(state) < known.severity(worst[number])):
            worst[number] = state
    counted = rows.values_list("case").annotate(
        assets=Count("asset", distinct=True),
        first=Min("asset"),
        going_on=Count("pk", filter=Q(ended_at=None)),
        last=Max("ended_at"),
    )
    return {
        number: CaseFacts(assets, asset, going_on, None if going_on else last, worst[number])
        for number, assets, asset, going_on, last in counted
    }


def give_facts(cases: list[Case]) -> list[Case]:
    """Give each case the facts about its incidents, by two queries for all. Returns the cases."""
    facts = case_facts([case.pk for case in cases])
    for case in cases:
        case.__dict__["facts"] = facts.get(case.pk, NO_FACTS)
    return cases


class Case(ScenarioRow):
    """Incidents of one scenario that people work on together, under one number.

    began_at: when the first began; label: the value of the label by which they belong together, if
    they do; owner: the name of who works on it, or ""; ticket: its reference elsewhere;
    resolved_by: "" if it was resolved because all its assets were good again; merged_into: the case
    that has its incidents and entries now.
    """

    began_at = models.BigIntegerField()
    label = models.CharField(max_length=MAX_VALUE, blank=True)
    owner = models.CharField(max_length=150, blank=True)
    ticket = models.CharField(max_length=MAX_TICKET, blank=True)
    acknowledged_at = models.BigIntegerField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    resolved_at = models.BigIntegerField(null=True)
    resolved_by = models.CharField(max_length=150, blank=True)
    merged_into = models.ForeignKey("self", models.SET_NULL, null=True, related_name="merged")

    objects = CaseQuerySet.as_manager()

    class Meta:
        indexes = (
            Index(fields=["began_at", "id"], name="cases_newest"),
            Index(fields=["scenario", "began_at"], name="cases_by_begin"),
            Index(fields=["scenario", "resolved_at"], name="cases_by_end"),
            Index(fields=["owner"], condition=Q(resolved_at=None), name="cases_of_owner"),
            Index(fields=["ticket"], condition=~Q(ticket=""), name="cases_of_ticket"),
        )

    def __str__(self) -> str:
        return self.number

    @property
    def number(self) -> str:
        """Return its number, as people say it: `INC-1042`."""
        return f"{NUMBER}{self.pk}"

    @property
    def status(self) -> str:
        """Return how far the work on it is, one of CASE_STATUSES."""
        if self.resolved_at is not None:
            return RESOLVED
        return OPEN if self.acknowledged_at is None else ACKNOWLEDGED

    @property
    def ticket_url(self) -> str:
        """Return the URL of its ticket, or "" if it has none."""
        return ticket_url(self.ticket)

    @cached_property
    def facts(self) -> CaseFacts:
        """Return the facts about its incidents."""
        return case_facts([self.pk]).get(self.pk, NO_FACTS)

    @property
    def subject(self) -> str:
        """Return what it is about in a few words: an asset's name, or `8 sites`."""
        if self.facts.assets == 1:
            return self.facts.asset
        known = scenarios().get(self.scenario)
        return f"{self.facts.assets} {known.noun if known else 'asset'}s"

    @property
    def lasted(self) -> str:
        """Return how long its assets were in trouble, or have been so far, in words."""
        ended_at = self.facts.ended_at
        return duration((now_ms() if ended_at is None else ended_at) - self.began_at)

    @property
    def unanswered(self) -> str:
        """Return how long the first acknowledgement took, in words; empty if there is none."""
        at = self.acknowledged_at
        return "" if at is None else duration(at - self.began_at)

    @property
    def members(self) -> IncidentQuerySet:
        """Return its assets' incidents, in the order in which they began."""
        return Incident.objects.real().filter(case=self.pk).order_by("began_at", "pk")

    def get_absolute_url(self) -> str:
        """Return the URL of its page."""
        return reverse("incidents:incident", args=[self.pk])

    def write(self, kind: str, user: User, now: int, text: str = "") -> CaseEntry:
        """Add an entry to its timeline, and return it. kind: one of ENTRY_WORDS; now: Unix ms."""
        name = user.get_username()
        if kind != ACKNOWLEDGED:  # `CaseQuerySet.acknowledge` announces the first one
            self.announce(kind, name, now, text)
        return self.entries.create(kind=kind, user=user, username=name, at=now, text=text)

    def announce(self, kind: str, by: str, now: int, text: str = "") -> None:
        """Signal what somebody did to it."""
        case_changed.send(Case, case=self.pk, kind=kind, by=by, text=text, now=now)


case_changed = Signal()
"""Sent in the transaction in which somebody changes a case. case: its number; kind: one of
ENTRY_WORDS; by: a name; text: of the entry; now: Unix ms.
"""


ENTRY_WORDS = {
    ACKNOWLEDGED: "acknowledged",
    "owner": "owner",
    "note": "note",
    "ticket": "ticket",
    RESOLVED: "resolved",
    "reopened": "reopened",
    "closed": "ticket closed",
    "merged": "merged",
    "split": "split",
}
"""What people do to a case, in words."""


class CaseEntry(AuthoredRow):
    """Something that a person, or a program with a token, did to a case. kind: from ENTRY_WORDS."""

    case = models.ForeignKey(Case, models.CASCADE, related_name="entries")
    at = models.BigIntegerField()
    kind = models.CharField(max_length=12)
    text = models.CharField(max_length=MAX_ENTRY, blank=True)

    class Meta:
        indexes = (Index(fields=["case", "at"], name="entries_of_case"),)

    def __str__(self) -> str:
        return f"{self.case_id}: {self.kind}"


def case_number(text: str) -> int | None:
    """Return the number in `INC-1042`, `inc 1042` or `1042`, or None if there is none."""
    digits = text.strip().upper().removeprefix("INC").lstrip("- ")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def ticket_url(ticket: str) -> str:
    """Return the URL of a ticket by the installation's template, or "" without either."""
    template = settings.TALLYBOARD.ticket_url
    return template.replace("{ticket}", quote(ticket, safe="")) if ticket and template else ""


# ---- incidents -----------------------------------------------------------------------------------
# Retention of incidents, which are kept longer than the changes they are made of.

INCIDENTS_KEPT_MS = 730 * DAY_MS

LEAST_MS = 90 * DAY_MS
"""Summaries count incidents for as long as raw history is kept."""

INCIDENTS_KEPT = (
    Retention(
        "incidents", Incident, "ended_at", INCIDENTS_KEPT_MS, by_scenario=True, least_ms=LEAST_MS
    ),
    Retention(
        "votes at the worst of incidents",
        WorstMoment,
        "at",
        INCIDENTS_KEPT_MS,
        by_scenario=True,
        least_ms=LEAST_MS,
    ),
    Retention(
        "numbers, owners and notes of incidents",
        Case,
        "resolved_at",
        INCIDENTS_KEPT_MS,
        by_scenario=True,
        least_ms=LEAST_MS,
    ),
)


# ---- incidents -----------------------------------------------------------------------------------
# Messages about an incident, provided by a higher package.


class Notified(NamedTuple):
    """A message about an incident.

    at: when it was written, Unix ms; status, why: in words; url: of its page.
    """

    at: int
    subject: str
    recipient: str
    status: str
    why: str
    url: str


def _nothing(incidents: Collection[Incident]) -> Sequence[Notified]:  # noqa: ARG001 - as those who register have it
    return ()


messages_about = Provider(_nothing)
"""Returns the messages about incidents of one scenario, newest first."""


# ---- maintenance ---------------------------------------------------------------------------------
# Maintenance windows in the database: people plan, change, end and cancel them. Times in Unix ms.
# The worker does what follows from that: `maintenance.py`.

MAX_WHY = 500
"""Longest reason, characters."""

ALL, FILTER, LISTED = "all", "filter", "assets"
COVERS = {ALL: "all assets", FILTER: "the assets of a filter", LISTED: "these assets"}
"""What a window may cover."""

PLANNED, RUNNING, ENDED, CANCELLED = "planned", "running", "ended", "cancelled"
STATUSES = (RUNNING, PLANNED, ENDED, CANCELLED)


MOST_ASSETS = 900
"""Most assets that a window may list."""
MOST_OPEN = 500
"""Most windows that may be planned or running at a time."""
LONGEST_MS = 31 * DAY_MS
"""Longest window."""
FURTHEST_MS = 366 * DAY_MS
"""How far ahead a window may begin."""
BACK_MS = 31 * DAY_MS
"""How long ago a window may have begun that was not planned in advance."""
LIMIT = Limit("maintenance", 60)
FARTHEST = 2**62
"""Later than any time."""


windows_changed = Signal()
"""Sent with `scenario`, `begin` and `end` (Unix ms) in the transaction in which windows, or what
they cover, change between these times; also when a window begins or ends.
"""

Times = tuple[int, int]
Covered = tuple[int, int | None]
"""When a window covers an asset, from and to, as in `WindowAsset`."""


class WindowRefused(ValueError):
    """The change is refused; the message says why."""


class WindowPlan(NamedTuple):
    """A window that somebody wants; the fields are those of `Window`. assets: those listed."""

    scenario: str
    name: str
    why: str
    covers: str
    filter: str
    assets: tuple[str, ...]
    begin: int
    end: int
    excluded: bool
    held: bool

    def columns(self) -> dict[str, Any]:
        named = self._asdict()
        del named["assets"]
        return named | {"planned_end": self.end}


class WindowSpan(NamedTuple):
    """A time in which a window covers an asset. begin, end: Unix ms."""

    begin: int
    end: int
    window: Window


class Excluded(NamedTuple):
    """Times that availability leaves out, as begin and end (Unix ms), in order.

    Those of every asset of a scenario, and by asset the additional ones of single assets.
    """

    everywhere: list[Times]
    by_asset: dict[str, list[Times]]


# A window's filter finds assets by names and labels, never by their states.


def _no_rows(
    criteria: Filter,  # noqa: ARG001 - as those who register have it
    scenario: Scenario,  # noqa: ARG001
    now: int,  # noqa: ARG001
    since: int | None,  # noqa: ARG001
) -> QuerySet[AssetState]:
    return AssetState.objects.none()


filter_rows = Provider(_no_rows)
"""Returns the assets of a scenario that a filter finds at a time (Unix ms): those that are visible,
and those that were at any time since another one, unless that is None."""


def read_filter(text: str, scenario: Scenario, now: int) -> Filter:
    """Return a window's filter. now: Unix ms. Raises FilterError."""
    criteria = parse(text, scenario, now)
    if not criteria.terms:
        raise FilterError("expected a name or a label, such as site:berlin", 0, 0)
    for term in criteria.terms:
        if term.own and term.key not in (WORD, "name"):
            at = text.lower().find(f"{term.key}:")
            message = f"a window covers assets by name and label; {term.key}: is neither"
            raise FilterError(message, max(at, 0), max(at, 0) + len(term.key))
    return criteria


def of_status(status: str, now: int) -> Q:
    """Return the condition for windows that have a status at `now` (Unix ms)."""
    if status == CANCELLED:
        return Q(cancelled_at__isnull=False)
    times = {
        PLANNED: Q(begin__gt=now),
        RUNNING: Q(begin__lte=now, end__gt=now),
        ENDED: Q(end__lte=now),
    }
    return times[status] & Q(cancelled_at=None)


class WindowQuerySet(models.QuerySet["Window"]):
    def shown(self) -> WindowQuerySet:
        """Return the windows that pages show: of configured scenarios, or of all."""
        return self.filter(scenario__in=["", *scenarios()])

    def between(self, scenario: str, begin: int, end: int) -> WindowQuerySet:
        """Return a scenario's windows that overlap a period (Unix ms), in order; none cancelled."""
        rows = self.filter(scenario__in=("", scenario), cancelled_at=None)
        return rows.filter(begin__lt=end, end__gt=begin).order_by("begin", "pk")

    def covering(
        self, scenario: str, assets: Collection[str], begin: int, end: int
    ) -> dict[str, list[WindowSpan]]:
        """Return when windows cover these assets in a period (Unix ms), cut off at its ends.

        Assets that no window covers are left out; each list is ordered by `begin`. A window that
        has not begun yet covers what its filter finds now.
        """
        windows = list(self.between(scenario, begin, end)) if assets else []
        spans: dict[str, list[WindowSpan]] = {}
        for names in chunks(assets, STATEMENT) if windows else ():
            for window in windows:
                _add(spans, window.covered(scenario, names), window, begin, end)
        for each in spans.values():
            each.sort(key=lambda span: (span.begin, span.end))
        return spans

    def excluded(self, scenario: str, begin: int, end: int) -> Excluded:
        """Return the times that availability leaves out in a period (Unix ms), cut at its ends."""
        windows = self.between(scenario, begin, end).filter(excluded=True)
        everywhere = [each.cut((0, None), begin, end) for each in windows if each.covers == ALL]
        spans: dict[str, list[WindowSpan]] = {}
        for window in windows:
            if window.covers != ALL:
                _add(spans, window.covered(scenario), window, begin, end)
        by_asset = {asset: merged((s.begin, s.end) for s in of) for asset, of in spans.items()}
        return Excluded(merged((s.begin, s.end) for s in everywhere), by_asset)

    @transaction.atomic
    def plan(
        self, plan: WindowPlan, user: User, now: int, spans: Sequence[tuple[int, int]] = ()
    ) -> Window:
        """Store new windows, one for each of `spans` (Unix ms) or one, and return the first.

        Raises TooMany, and WindowRefused if there are too many windows.
        """
        LIMIT.take(user.pk, now)
        spans = spans or [(plan.begin, plan.end)]
        if self.filter(end__gt=now, cancelled_at=None).count() + len(spans) > MOST_OPEN:
            raise WindowRefused(
                f"At most {MOST_OPEN} windows may be planned or run: cancel some first."
            )
        plans = [plan._replace(begin=begin, end=end) for begin, end in spans]
        first, *_ = [self._store(each, user, now) for each in plans]
        return first

    def _store(self, plan: WindowPlan, user: User, now: int) -> Window:
        window = self.create(
            **plan.columns(), user=user, username=user.get_username(), created_at=now
        )
        window.keep_list(plan)
        window.announce(plan.begin, plan.end)
        return window


def _add(
    spans: dict[str, list[WindowSpan]],
    assets: Iterable[tuple[str, Covered]],
    window: Window,
    begin: int,
    end: int,
) -> None:
    """Add the spans in which a window covers assets between two times."""
    for asset, covered in assets:
        span = window.cut(covered, begin, end)
        if span.begin < span.end:
            spans.setdefault(asset, []).append(span)


class Window(AuthoredRow):
    """A time in which assets are worked on.

    scenario: empty for all of them; covers: one of COVERS; filter: in the filter language, names
    and labels only; begin, end: from, to; planned_end: the original end if somebody, `ended_by`,
    ended the window early; excluded: availability leaves its time out; held: no notification is
    sent while it runs; cancelled_at: it then counts as if it had never been; begun_at: when its
    assets were stored, None before; looked_at: when the assets that its filter finds were last
    checked; closed_at: when its end was processed; revision: rises with each change.
    """

    scenario = models.CharField(max_length=40, blank=True)
    name = models.CharField(max_length=MAX_WORK)
    why = models.CharField(max_length=MAX_WHY, blank=True)
    covers = models.CharField(max_length=8)
    filter = models.CharField(max_length=MAX_TEXT, blank=True)
    begin = models.BigIntegerField()
    end = models.BigIntegerField()
    planned_end = models.BigIntegerField()
    excluded = models.BooleanField(default=True)
    held = models.BooleanField(default=True)
    created_at = models.BigIntegerField()
    ended_by = models.CharField(max_length=150, blank=True)
    cancelled_at = models.BigIntegerField(null=True)
    cancelled_by = models.CharField(max_length=150, blank=True)
    begun_at = models.BigIntegerField(null=True)
    looked_at = models.BigIntegerField(null=True)
    closed_at = models.BigIntegerField(null=True)
    revision = models.IntegerField(default=1)

    objects = WindowQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(begin__lt=F("end")), name="window_has_a_length"),
        )
        indexes = (
            Index(fields=["end"], name="windows_by_end"),
            Index(
                fields=["begin"],
                condition=Q(closed_at=None, cancelled_at=None),
                name="windows_to_come",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.begin} to {self.end}"

    @property
    def status(self) -> str:
        """Return its present status, one of STATUSES."""
        if self.cancelled_at is not None:
            return CANCELLED
        now = now_ms()
        if now < self.begin:
            return PLANNED
        return RUNNING if now < self.end else ENDED

    @property
    def configured_scenarios(self) -> list[Scenario]:
        """Return its scenarios that are still configured."""
        return [each for name, each in scenarios().items() if self.scenario in ("", name)]

    @property
    def scenario_title(self) -> str:
        """Return the title of its scenario."""
        known = scenarios().get(self.scenario)
        return known.title if known else self.scenario or "all scenarios"

    @property
    def covers_text(self) -> str:
        """Return what it covers, in words."""
        if self.covers == FILTER:
            return self.filter
        return "all assets" if self.covers == ALL else "assets of a list"

    @property
    def lasts(self) -> str:
        """Return how long it lasts, in words."""
        return duration(self.end - self.begin)

    @property
    def written_down_late(self) -> bool:
        """Return whether it had already begun when it was entered."""
        return self.created_at > self.begin

    @property
    def listed_assets(self) -> list[str]:
        """Return the assets that it lists, in order; none unless it covers a list."""
        names = self.assets.order_by("asset").values_list("asset", flat=True)
        return list(names) if self.covers == LISTED else []

    def get_absolute_url(self) -> str:
        """Return the URL of its page."""
        return reverse("maintenance:window", args=[self.pk])

    # ---- what it covers ----

    @property
    def is_filter_to_come(self) -> bool:
        """Return whether it covers what its filter finds now, as nothing of it is stored yet."""
        return self.covers == FILTER and self.begun_at is None

    def matching(self, scenario: Scenario, now: int) -> QuerySet[AssetState]:
        """Return the assets of a scenario that its filter finds at `now` (Unix ms): visible ones,
        and if it was written down late, those that were on the board since it began."""
        since = self.begin if self.written_down_late else None
        try:
            criteria = read_filter(self.filter, scenario, now)
        except FilterError:  # written for another scenarios file
            return AssetState.objects.none()
        return filter_rows(criteria, scenario, now, since)

    def on_board(self, scenario: Scenario) -> QuerySet[AssetState]:
        """Return the visible assets of a scenario that it covers, as stored."""
        rows = AssetState.objects.filter(scenario=scenario.name, purged=False).order_by()
        if self.covers == ALL:
            return rows
        stored = self.assets.filter(scenario=scenario.name, end=None)
        return rows.filter(Exists(stored.filter(asset=OuterRef("asset"))))

    def covered(
        self, scenario: str, assets: Collection[str] | None = None
    ) -> Iterable[tuple[str, Covered]]:
        """Return the assets of a scenario that it covers, each with when it does.

        assets: only these; required if it covers all assets.
        """
        if self.covers == ALL:
            return ((asset, (0, None)) for asset in assets or ())
        if self.is_filter_to_come:
            names = self.matching(scenarios()[scenario], now_ms()).values_list("asset", flat=True)
            return ((asset, (0, None)) for asset in _rows_of(assets, names))
        stored = _rows_of(assets, self.assets.filter(scenario=scenario))
        return ((row.asset, (row.begin, row.end)) for row in stored)

    def cut(self, covered: Covered, begin: int, end: int) -> WindowSpan:
        """Return when it covers an asset between two times (Unix ms)."""
        first, last = covered
        last = self.end if last is None else min(last, self.end)
        return WindowSpan(max(first, self.begin, begin), min(last, end), self)

    def incidents(self, now: int) -> IncidentQuerySet:
        """Return its assets' incidents while it covered them, to `now` (Unix ms), newest first."""
        if now < self.begin:
            return Incident.objects.none()
        rows = Incident.objects.shown().within(self.begin, min(self.end, now))
        if self.scenario:
            rows = rows.filter(scenario=self.scenario)
        if self.covers != ALL:
            rows = rows.filter(Exists(self._stored_during()))
        return rows.order_by("-began_at", "-pk")

    def _stored_during(self) -> QuerySet[WindowAsset]:
        """Return its stored assets that match an outer query's incident, while covered."""
        rows = self.assets.filter(scenario=OuterRef("scenario"), asset=OuterRef("asset"))
        over = Q(begin__gte=Coalesce(OuterRef("ended_at"), FARTHEST))
        return rows.exclude(over).filter(Q(end=None) | Q(end__gt=OuterRef("began_at")))

    # ---- changes ----
    # Each applies to the window as the user saw it, and fails if it has changed since.

    @transaction.atomic
    def change(self, plan: WindowPlan, user: User, now: int) -> None:
        """Change the planned window.

        Raises TooMany, and WindowRefused if it is no longer as it was seen.
        """
        LIMIT.take(user.pk, now)
        same = Window.objects.filter(of_status(PLANNED, now)).filter(
            pk=self.pk, revision=self.revision, begun_at=None
        )
        if not same.update(**plan.columns(), revision=F("revision") + 1):
            raise WindowRefused(
                "It has begun, or somebody has changed it meanwhile. Open it again."
            )
        self.assets.all().delete()
        begin, end = min(self.begin, plan.begin), max(self.end, plan.end)
        self.announce(begin, end)
        self.refresh_from_db()
        self.keep_list(plan)
        self.announce(begin, end)

    @transaction.atomic
    def end_early(self, user: User, now: int) -> None:
        """End the running window now. Raises TooMany, and WindowRefused if it is not running."""
        LIMIT.take(user.pk, now)
        runs = Window.objects.filter(pk=self.pk, begin__lt=now, end__gt=now, cancelled_at=None)
        if not runs.update(end=now, ended_by=user.get_username(), revision=F("revision") + 1):
            raise WindowRefused("It is not running.")
        self.announce(now, self.end)
        self.refresh_from_db()

    @transaction.atomic
    def cancel(self, user: User, now: int) -> None:
        """Cancel it, so that it counts as if it had never been.

        Raises TooMany, and WindowRefused if it is already cancelled.
        """
        LIMIT.take(user.pk, now)
        self._cancel(user, now)

    def _cancel(self, user: User, now: int) -> None:
        known = Window.objects.filter(pk=self.pk, cancelled_at=None)
        name = user.get_username()
        if not known.update(cancelled_at=now, cancelled_by=name, revision=F("revision") + 1):
            raise WindowRefused("It is already cancelled.")
        self.announce(self.begin, self.end)
        self.refresh_from_db()

    @property
    def following(self) -> WindowQuerySet:
        """Return the windows after this one that were planned with it and are not cancelled."""
        rows = Window.objects.filter(user=self.user_id, created_at=self.created_at)
        return rows.filter(begin__gt=self.begin, cancelled_at=None)

    def cancel_all(self, user: User, now: int) -> list[Window]:
        """Cancel it and those that follow, and return these. Raises WindowRefused and TooMany."""
        LIMIT.take(user.pk, now)
        following = list(self.following)
        with transaction.atomic():
            for window in (*following, self):
                window._cancel(user, now)  # noqa: SLF001 - its own
        return following

    def log(self, actor: Actor, action: str) -> None:
        """Record in the audit what somebody did to it."""
        facts = ("covers", "filter", "begin", "end", "excluded", "held", "why")
        named = {name: getattr(self, name) for name in facts}
        record(actor, action, scenario=self.scenario, target=self.name, id=self.pk, **named)

    def announce(self, begin: int, end: int) -> None:
        """Signal for each of its scenarios that something changes between two times (Unix ms)."""
        for scenario in [self.scenario] if self.scenario else scenarios():
            windows_changed.send(None, scenario=scenario, begin=begin, end=end)

    def keep_list(self, plan: WindowPlan) -> None:
        """Store the assets that a plan lists."""
        if plan.covers == LISTED:
            WindowAsset.objects.bulk_create(
                WindowAsset(window=self, scenario=plan.scenario, asset=asset)
                for asset in plan.assets
            )


def _rows_of(assets: Collection[str] | None, rows: QuerySet[Any]) -> Iterable[Any]:
    """Return the rows of these assets, or of all, in portions as these may be many."""
    return rows.iterator() if assets is None else rows.filter(asset__in=listed(list(assets)))


class WindowAsset(AssetRow):
    """An asset that a window covers, from `begin` (0: the window's) to `end` (None: the window's).

    For a window that lists its assets these are stored from the start. For one with a filter they
    are stored when it begins and followed while it runs, so labels that change later do not change
    history.
    """

    window = models.ForeignKey(Window, models.CASCADE, related_name="assets")
    begin = models.BigIntegerField(default=0)
    end = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["window", "scenario", "asset", "begin"], name="one_row_per_covering"
            ),
        )
        indexes = (Index(fields=["scenario", "asset"], name="windows_of_asset"),)


# ---- maintenance ---------------------------------------------------------------------------------
# Retention of maintenance windows: as long as that of the figures they are left out of.

WINDOWS_KEPT_MS = 3650 * DAY_MS


def _delete(windows: QuerySet[Window]) -> int:
    """Delete windows, after their assets, which go in portions. Returns how many windows."""
    for pk in list(windows.values_list("pk", flat=True)):
        delete_in_portions(WindowAsset.objects.filter(window=pk))
    return delete_rows(windows)


WINDOWS_KEPT = (Retention("maintenance windows", Window, "end", WINDOWS_KEPT_MS, delete=_delete),)

KEPT = (*INCIDENTS_KEPT, *WINDOWS_KEPT)
