"""Maintenance windows for pages and programs, and the form for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Q, QuerySet

from dashboard.core.common.access import may
from dashboard.core.common.forms import (
    WEEKLY,
    ListForm,
    UtcTimeField,
    WeeklyForm,
    scenario_choices,
)
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import (
    Column,
    ListOrder,
    Page,
    PagePosition,
    Part,
    Table,
    page_of_parts,
)
from dashboard.core.common.times import DAY_MS, HOUR_MS, now_ms, unix_ms, utc_datetime
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError, board_url
from dashboard.core.states.filter_terms import DurationTerm, TimeTerm
from dashboard.core.states.models import AssetState
from dashboard.core.states.vocabularies import (
    ChoiceKey,
    TextKey,
    TimeKey,
    Vocabulary,
    choice_of,
    scenario_key,
)
from dashboard.watch.annotations.models import MAX_WORK
from dashboard.watch.incidents.models import (
    ALL,
    BACK_MS,
    COVERS,
    FILTER,
    FURTHEST_MS,
    LISTED,
    LONGEST_MS,
    MAX_WHY,
    MOST_ASSETS,
    STATUSES,
    Window,
    WindowPlan,
    WindowRefused,
    of_status,
    read_filter,
)
from domain.names import MAX_NAME, name_ok

# ---- maintenance ---------------------------------------------------------------------------------
# What a window covers, for its page, and its tables.

SHOWN = 100
"""Most assets, and most incidents, that a window's page lists."""


@dataclass(frozen=True)
class Coverage:
    """What a window covers. rows: the first assets; total: all; address: the board showing them."""

    rows: list[AssetState]
    total: int
    address: str


def coverage_of(window: Window, now: int) -> Coverage:
    """Return which assets a window covers at `now` (Unix ms), or covered last."""
    rows: list[AssetState] = []
    total = 0
    for scenario in window.configured_scenarios:
        to_come = window.is_filter_to_come
        assets = window.matching(scenario, now) if to_come else window.on_board(scenario)
        total += assets.count()
        first = assets.order_by("asset").only("scenario", "asset", "state")
        rows += first[: SHOWN - len(rows)]
    address = ""
    if window.covers == FILTER and window.scenario:
        address = board_url(window.scenario, window.filter)
    return Coverage(rows, total, address)


FIELDS = (
    "id", "name", "why", "scenario", "covers", "filter", "begin", "end", "planned_end", "excluded",
    "held", "username", "created_at", "ended_by", "cancelled_at", "cancelled_by",
)  # fmt: skip
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
# The form for a maintenance window, and the filter of the list. Times in UTC.

EVERY = "*"
"""Stands for all scenarios in the form."""
EXPECTED_ASSETS = f"Choose which assets; “{COVERS[ALL]}” is one of the choices."


class WindowForm(WeeklyForm):
    """A form for a maintenance window. now: Unix ms."""

    field_order = ("name", "scenario", "covers", "filter", "assets", "begin", "end", *WEEKLY)

    name = forms.CharField(max_length=MAX_WORK, label="Name")
    scenario = forms.ChoiceField(label="Scenario")
    covers = forms.ChoiceField(
        choices=list(COVERS.items()),
        widget=forms.RadioSelect,
        label="Covers",
        error_messages={"required": EXPECTED_ASSETS},
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
        label="Assets, one per line",
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
        choice.choices = [*scenario_choices(), (EVERY, "all scenarios")]

    @classmethod
    def of(cls, window: Window, now: int) -> WindowForm:
        """Return the form filled in from a window."""
        same = ("name", "scenario", "covers", "filter", "why", "excluded", "held")
        initial = {name: getattr(window, name) for name in same}
        initial["scenario"] = window.scenario or EVERY
        initial["begin"], initial["end"] = utc_datetime(window.begin), utc_datetime(window.end)
        initial["assets"] = "\n".join(window.listed_assets)
        form = cls(now, initial=initial)
        form.once()
        return form

    def clean_scenario(self) -> str:
        """Return the scenario, "" for all."""
        return str(self.cleaned_data["scenario"]).removeprefix(EVERY)

    def clean(self) -> dict[str, Any]:
        """Check the fields against each other."""
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
        """Store the window of a valid form, or change `window`.

        Returns it, or None if that is refused, which the form then reports. Raises TooMany.
        """
        try:
            if window is None:
                plan = self.plan()
                return Window.objects.plan(plan, user, self.now, self.spans(plan.begin, plan.end))
            window.change(self.plan(), user, self.now)
        except WindowRefused as error:
            self.add_error(None, str(error))
            return None
        return window


def _planners() -> list[str]:
    return list(Window.objects.order_by("username").values_list("username", flat=True).distinct())


@dataclass(frozen=True)
class WindowTimeKey(TimeKey):
    """A key of a window's time, of which durations look one way: back, or `ahead`."""

    def condition(self, value: DurationTerm | TimeTerm, now: int) -> Q:
        """Return the condition on a row for one value."""
        so = super().condition(value, now)
        if isinstance(value, TimeTerm):
            return so
        return so & Q(**{f"{self.column}__gte" if self.ahead else f"{self.column}__lte": now})


WINDOW_VOCABULARY = Vocabulary(
    word=lambda text: Q(name__icontains=text),
    example="a name, status:running",
    keys=(
        ChoiceKey(
            "status", "running, planned, ended or cancelled", choice_of(STATUSES),
            lambda status: of_status(status, now_ms()),
        ),
        scenario_key(lambda name: Q(scenario__in=("", name))),
        TextKey("by", "who planned it", "username", known=_planners),
        WindowTimeKey("from", "when it begins: >2026-11-22, <1h ago", "begin"),
        WindowTimeKey("until", "when it ends: <1d from now", "end", ahead=True),
    ),
)  # fmt: skip


class WindowFilterForm(VocabularyForm):
    """The filter in the URL of the list of windows."""

    vocabulary = WINDOW_VOCABULARY

    before = forms.CharField(required=False, max_length=60, widget=forms.HiddenInput)

    def every(self) -> QuerySet[Window]:
        """Return the windows that pages show."""
        return Window.objects.shown()


class WindowList(ListPage):
    """The list of windows: those that run or are to come by their begin, then those that are over,
    the newest first; in the API the last planned first."""

    form_class: type[ListForm] = WindowFilterForm
    template = "incidents/maintenance/windows"
    table = WINDOW_TABLE
    fields = FIELDS
    pager_titles = ("First page", "Next page")

    def paginate(self, rows: QuerySet[Window], before: str) -> Page[Window]:
        """Return the first windows, or those after a position."""
        over = Q(end__lte=self.now) | Q(cancelled_at__isnull=False)
        parts = (
            Part(rows.exclude(over), ListOrder("begin", down=False)),
            Part(rows.filter(over), ListOrder("begin")),
        )
        return page_of_parts(parts, self.page_size, PagePosition.parse(before))

    def plain(self, row: Window) -> dict[str, Any]:
        """Return a window as the API gives it."""
        return super().plain(row) | {"status": row.status, "assets": row.listed_assets}

    def context(self) -> dict[str, Any]:
        """Return whether the user may plan a window."""
        return {"may_command": may(self.request.user, "command")}
