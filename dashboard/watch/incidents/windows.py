"""Maintenance windows as pages and programs read them, and the form of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.urls import reverse

from dashboard.core.common.access import may
from dashboard.core.common.forms import ListForm, UtcTimeField, scenario_choices
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import DAY_MS, HOUR_MS, duration, now_ms, unix_ms, utc_datetime
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError, board_url
from dashboard.core.states.models import AssetState
from dashboard.watch.annotations.models import MAX_WORK
from dashboard.watch.incidents.maintenance import (
    BACK_MS,
    FURTHEST_MS,
    LONGEST_MS,
    MOST_ASSETS,
    WindowPlan,
    WindowRefused,
    change_window,
    covered_by_filter,
    plan_window,
    read_filter,
)
from dashboard.watch.incidents.models import (
    ALL,
    CANCELLED,
    COVERS,
    ENDED,
    FILTER,
    LISTED,
    MAX_WHY,
    PLANNED,
    RUNNING,
    STATUSES,
    Window,
    WindowAsset,
    real,
)
from dashboard.watch.incidents.queries import IncidentRow as IncidentEntry
from dashboard.watch.incidents.queries import entry_of as incident_entry
from domain.names import MAX_NAME, name_ok
from domain.scenario import Scenario

# ---- maintenance ---------------------------------------------------------------------------------
# Windows as pages and programs read them: their list, what one covers, what happened meanwhile.

FARTHEST = 2**62
"""Later than any time."""
SHOWN = 100
"""Most assets, and most incidents, that a window's page lists."""


def of_status(status: str, now: int) -> Q:
    """Return the condition of the windows that have a status at `now` (Unix ms)."""
    if status == CANCELLED:
        return Q(cancelled_at__isnull=False)
    times = {
        PLANNED: Q(begin__gt=now),
        RUNNING: Q(begin__lte=now, end__gt=now),
        ENDED: Q(end__lte=now),
    }
    return times[status] & Q(cancelled_at=None)


def find_windows(*, scenario: str = "", q: str = "", status: str = "") -> QuerySet[Window]:
    """Return the windows that pass a filter. q: a part of the name; status: of
    `models.STATUSES`."""
    rows = Window.objects.filter(scenario__in=["", *scenarios()])
    if scenario:
        rows = rows.filter(scenario__in=["", scenario])
    if q:
        rows = rows.filter(name__icontains=q)
    return rows.filter(of_status(status, now_ms())) if status else rows


@dataclass(frozen=True)
class WindowRow:
    """A window as pages show it at a time, Unix ms."""

    row: Window
    now: int

    @property
    def status(self) -> str:
        """Its status."""
        return self.row.status(self.now)

    @property
    def about(self) -> str:
        """The title of its scenario."""
        known = scenarios().get(self.row.scenario)
        return known.title if known else self.row.scenario or "all scenarios"

    @property
    def covers(self) -> str:
        """What it covers, in words."""
        if self.row.covers == FILTER:
            return self.row.filter
        return "all assets" if self.row.covers == ALL else "assets of a list"

    @property
    def url(self) -> str:
        """The address of its page."""
        return reverse("maintenance:window", args=[self.row.pk])

    @property
    def lasts(self) -> str:
        """How long it lasts, in words."""
        return duration(self.row.end - self.row.begin)

    @property
    def afterwards(self) -> bool:
        """Whether it had begun when it was written down."""
        return self.row.created_at > self.row.begin

    @property
    def ended_early(self) -> bool:
        """Whether somebody ended it before its planned end."""
        return bool(self.row.ended_by)


@dataclass(frozen=True)
class Covered:
    """An asset that a window covers."""

    scenario: Scenario
    asset: str
    state: str

    @property
    def url(self) -> str:
        """The address of its page."""
        return asset_path(self.scenario.name, self.asset)


@dataclass(frozen=True)
class Coverage:
    """What a window covers. rows: the first of them; total: all; address: the board with them."""

    rows: list[Covered]
    total: int
    address: str


def coverage_of(window: Window, now: int) -> Coverage:
    """Return which assets a window covers at `now` (Unix ms), or covered last."""
    rows: list[Covered] = []
    total = 0
    for scenario in _scenarios(window):
        found = _visible(window, scenario, now)
        total += found.count()
        first = found.order_by("asset").values_list("asset", "state")[: SHOWN - len(rows)]
        rows += [Covered(scenario, asset, state) for asset, state in first]
    address = ""
    if window.covers == FILTER and window.scenario:
        address = board_url(window.scenario, window.filter)
    return Coverage(rows, total, address)


def _visible(window: Window, scenario: Scenario, now: int) -> QuerySet[AssetState]:
    if window.covers == FILTER and window.begun_at is None:
        return covered_by_filter(window, scenario, now)
    rows = AssetState.objects.filter(scenario=scenario.name, purged=False)
    if window.covers == ALL:
        return rows
    stored = window.assets.filter(scenario=scenario.name, end=None, asset=OuterRef("asset"))
    return rows.filter(Exists(stored))


def incidents_of(window: Window, now: int) -> list[IncidentEntry]:
    """Return the newest incidents that assets of a window had while it covered them."""
    rows = real().filter(began_at__lt=min(window.end, now), scenario__in=scenarios())
    rows = rows.filter(Q(ended_at=None) | Q(ended_at__gt=window.begin))
    if window.scenario:
        rows = rows.filter(scenario=window.scenario)
    if window.covers != ALL:
        rows = rows.filter(Exists(_stored_during(window)))
    return [incident_entry(row, now) for row in rows.order_by("-began_at")[:SHOWN]]


def _stored_during(window: Window) -> QuerySet[WindowAsset]:
    """Return the stored assets of a window, of the outer query's incident, while covered."""
    rows = window.assets.filter(scenario=OuterRef("scenario"), asset=OuterRef("asset"))
    over = Q(begin__gte=Coalesce(OuterRef("ended_at"), FARTHEST))
    return rows.exclude(over).filter(Q(end=None) | Q(end__gt=OuterRef("began_at")))


def _scenarios(window: Window) -> Iterator[Scenario]:
    known = scenarios()
    return iter([s for name, s in known.items() if window.scenario in ("", name)])


FIELDS = (
    "id", "name", "why", "scenario", "covers", "filter", "begin", "end", "planned_end", "excluded",
    "held", "username", "created_at", "ended_by", "cancelled_at", "cancelled_by",
)  # fmt: skip


def plain_window(row: Window) -> dict[str, Any]:
    """Return a window as programs get it."""
    named = {name: getattr(row, name) for name in FIELDS}
    stored = row.assets.order_by("asset").values_list("asset", flat=True)
    names = list(stored) if row.covers == LISTED else []
    return named | {"status": row.status(now_ms()), "assets": names}


WINDOW_TABLE = Table(
    "",
    "Name",
    "Status",
    "Scenario",
    "Covers",
    "From",
    "Until",
    Column("Availability", "whether availability leaves this time out"),
    Column("Notifications", "whether they are held back while it runs"),
    "By",
)
COVERED_TABLE = Table("window-assets", "Asset", "Scenario", "State")
WINDOW_INCIDENT_TABLE = Table(
    "window-incidents", "Asset", Column.time("Began"), Column.time("Lasted"), "Worst"
)


# ---- maintenance ---------------------------------------------------------------------------------
# The form of a maintenance window, and the filter of their list. Times in UTC.

EVERY = ("", "all scenarios")


class WindowForm(forms.Form):
    """A form of a maintenance window. now: Unix ms."""

    name = forms.CharField(max_length=MAX_WORK, label="Name")
    scenario = forms.ChoiceField(required=False, label="Scenario")
    covers = forms.ChoiceField(
        choices=list(COVERS.items()), widget=forms.RadioSelect, initial=ALL, label="Covers"
    )
    filter = forms.CharField(
        required=False,
        max_length=MAX_TEXT,
        label="Filter",
        help_text="Names and labels, such as <code>site:berlin -test</code>.",
    )
    assets = forms.CharField(
        required=False,
        max_length=MOST_ASSETS * (MAX_NAME + 2),
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off"}),
        label="Assets, one in a line",
    )
    begin = UtcTimeField(label="From (UTC)")
    end = UtcTimeField(label="Until (UTC)")
    why = forms.CharField(required=False, max_length=MAX_WHY, label="Why")
    excluded = forms.BooleanField(
        required=False, initial=True, label="Leave this time out of availability"
    )
    held = forms.BooleanField(
        required=False, initial=True, label="Hold notifications back while it runs"
    )

    def __init__(
        self, now: int, data: Any = None, initial: Mapping[str, Any] | None = None
    ) -> None:
        begun = now // HOUR_MS * HOUR_MS + HOUR_MS
        times = {"begin": utc_datetime(begun), "end": utc_datetime(begun + HOUR_MS)}
        super().__init__(data, auto_id="window_%s", initial=times | dict(initial or {}))
        self.now = now
        for name in ("begin", "end"):
            self.fields[name].required = True
        choice = self.fields["scenario"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [*scenario_choices(), EVERY]

    @classmethod
    def of(cls, window: Window, now: int) -> WindowForm:
        """Return the form of a window as it is."""
        names = window.assets.order_by("asset").values_list("asset", flat=True)
        same = ("name", "scenario", "covers", "filter", "why", "excluded", "held")
        initial = {name: getattr(window, name) for name in same}
        initial["begin"], initial["end"] = utc_datetime(window.begin), utc_datetime(window.end)
        initial["assets"] = "\n".join(names) if window.covers == LISTED else ""
        return cls(now, initial=initial)

    def clean(self) -> dict[str, Any]:
        """Compare the parts with each other."""
        data = super().clean() or self.cleaned_data
        for name in ("begin", "end"):
            data[name] = unix_ms(data.get(name))
        if data["begin"] is not None and data["end"] is not None:
            self._clean_times(data["begin"], data["end"])
        if data.get("covers") == FILTER:
            self._clean_filter(data)
        if data.get("covers") == LISTED:
            self._clean_assets(data)
        return data

    def _clean_times(self, begin: int, end: int) -> None:
        if end <= begin:
            self.add_error("end", "Expected a time after From.")
        elif end - begin > LONGEST_MS:
            self.add_error("end", f"Expected at most {LONGEST_MS // DAY_MS} days after From.")
        if not self.now - BACK_MS <= begin <= self.now + FURTHEST_MS:
            self.add_error("begin", f"Expected a time of the last {BACK_MS // DAY_MS} days, or "
                           "of the next year.")  # fmt: skip

    def _clean_filter(self, data: dict[str, Any]) -> None:
        known = scenarios()
        scenario = known.get(data.get("scenario", "")) or next(iter(known.values()))
        try:
            read_filter(data.get("filter", ""), scenario, self.now)
        except FilterError as error:
            self.add_error("filter", f"{error} (character {error.start + 1}).")

    def _clean_assets(self, data: dict[str, Any]) -> None:
        names = dict.fromkeys(filter(None, map(str.strip, data.get("assets", "").split("\n"))))
        data["listed"] = tuple(names)
        if not data.get("scenario"):
            self.add_error("scenario", "Expected one scenario, as the window lists assets.")
        if not names:
            self.add_error("assets", "Expected names, one in a line.")
        elif len(names) > MOST_ASSETS:
            self.add_error("assets", f"Expected at most {MOST_ASSETS} names, got {len(names)}.")
        elif not all(map(name_ok, names)):
            self.add_error("assets", "Expected names of 1-255 printable characters.")

    def plan(self) -> WindowPlan:
        """Return the window that a valid form describes."""
        data = self.cleaned_data
        chosen = {"filter": data["filter"] if data["covers"] == FILTER else "",
                  "assets": data.get("listed", ())}  # fmt: skip
        named = {name: data[name] for name in WindowPlan._fields if name not in chosen}
        return WindowPlan(**named, **chosen)

    def save(self, user: Any, window: Window | None = None) -> Window | None:
        """Store the window of a valid form, or change `window`. Returns it; None where that is
        refused, which the form then says. Raises TooMany."""
        try:
            if window is None:
                return plan_window(self.plan(), user, self.now)
            change_window(window, self.plan(), user, self.now)
        except WindowRefused as error:
            self.add_error(None, str(error))
            return None
        return window


class WindowFilterForm(ListForm):
    """The filter in the address of the list of windows."""

    scenario = forms.ChoiceField(required=False)
    status = forms.ChoiceField(required=False)
    q = forms.CharField(required=False, max_length=MAX_WORK, label="Part of a name")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", [("", "all"), *scenario_choices()])
        self.offer("status", [("", "all"), *((name, name.capitalize()) for name in STATUSES)])

    def rows(self) -> QuerySet[Window]:
        """Return the windows that pass."""
        return find_windows(**self.criteria())


class WindowList(ListPage):
    """The list of windows, the newest entry first."""

    form_class = WindowFilterForm
    template = "maintenance/windows"
    table = WINDOW_TABLE

    def entry(self, row: Window) -> WindowRow:
        """Return a window as pages show it now."""
        return WindowRow(row, self.now)

    def plain(self, row: Window) -> dict[str, Any]:
        """Return a window as the API gives it."""
        return plain_window(row)

    def context(self) -> dict[str, Any]:
        """Return whether the user may plan one."""
        return {"may_command": may(self.request.user, "command")}
