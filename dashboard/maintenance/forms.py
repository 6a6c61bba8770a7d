"""The form of a maintenance window, and the filter of their list. Times in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from dashboard.annotations.models import MAX_WORK
from dashboard.core.fields import UtcTimeField, scenario_choices
from dashboard.core.filter_forms import FilterForm
from dashboard.core.scenarios import scenarios
from dashboard.core.times import DAY_MS, HOUR_MS, unix_ms, utc_datetime
from dashboard.filter_language.parser import MAX_TEXT, FilterError
from dashboard.maintenance.changes import (
    BACK_MS,
    FURTHEST_MS,
    LONGEST_MS,
    MOST_ASSETS,
    NotNow,
    Plan,
    change_window,
    plan_window,
)
from dashboard.maintenance.models import ALL, COVERS, FILTER, LISTED, MAX_WHY, STATUSES, Window
from dashboard.maintenance.queries import Wanted
from dashboard.maintenance.selection import read_filter
from domain.names import MAX_NAME, name_ok

EVERY = ("", "all scenarios")
MAX_NUMBER = 2**63 - 1


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

    def plan(self) -> Plan:
        """Return the window that a valid form describes."""
        data = self.cleaned_data
        chosen = {"filter": data["filter"] if data["covers"] == FILTER else "",
                  "assets": data.get("listed", ())}  # fmt: skip
        named = {name: data[name] for name in Plan._fields if name not in chosen}
        return Plan(**named, **chosen)

    def save(self, user: Any, window: Window | None = None) -> Window | None:
        """Store the window of a valid form, or change `window`. Returns it; None where that is
        refused, which the form then says. Raises TooMany."""
        try:
            if window is None:
                return plan_window(self.plan(), user, self.now)
            change_window(window, self.plan(), user, self.now)
        except NotNow as error:
            self.add_error(None, str(error))
            return None
        return window


class WindowFilter(FilterForm):
    """The filter in the address of the list of windows."""

    scenario = forms.ChoiceField(required=False)
    status = forms.ChoiceField(required=False)
    q = forms.CharField(required=False, max_length=MAX_WORK, label="Part of a name")
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_NUMBER, widget=forms.HiddenInput
    )

    PLACES = ("before",)

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", [("", "all"), *scenario_choices()])
        self.offer("status", [("", "all"), *((name, name.capitalize()) for name in STATUSES)])

    def wanted(self) -> Wanted:
        """Return the filter of a valid form."""
        data = self.cleaned_data
        return Wanted(data["scenario"], data["q"], data["status"])
