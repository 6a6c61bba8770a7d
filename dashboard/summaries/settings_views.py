"""What summaries are measured by: the reporting zone, targets and service hours, by an admin."""

from __future__ import annotations

import re
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required
from dashboard.core.roles import Role
from dashboard.core.scenarios import scenarios
from dashboard.summaries.models import Target
from dashboard.summaries.targets import reporting_zone, set_reporting_zone, set_target, targets
from domain.scenario import Scenario

ADMINS = frozenset((Role.ADMIN,))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS_EXPECTED = "Expected whole hours, as 8-18 or 8-12, 13-17; nothing for none on this day."
RANGE = re.compile(r"(\d{1,2})\s*-\s*(\d{1,2})")


class HoursField(forms.CharField):
    """Whole hours of a day, as `8-12, 13-17`."""

    def __init__(self, label: str) -> None:
        attrs = {"placeholder": "8-18", "autocomplete": "off"}
        widget = forms.TextInput(attrs=attrs)
        super().__init__(label=label, required=False, max_length=80, widget=widget)

    def clean(self, value: Any) -> list[int]:
        """Return the hours, 0 to 23. Raises ValidationError."""
        text = super().clean(value)
        hours: set[int] = set()
        for part in filter(None, (part.strip() for part in text.split(","))):
            bounds = RANGE.fullmatch(part)
            begin, end = (int(bound) for bound in bounds.groups()) if bounds else (0, 0)
            if not 0 <= begin < end <= 24:
                raise forms.ValidationError(HOURS_EXPECTED)
            hours.update(range(begin, end))
        return sorted(hours)


class ZoneForm(forms.Form):
    """The reporting zone."""

    zone = forms.CharField(
        max_length=64,
        label="Reporting zone",
        help_text="A name of the IANA database, as Europe/Berlin. Days and hours are its own.",
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off"}),
    )

    def clean_zone(self) -> str:
        """Return the zone. Raises ValidationError for one that nobody knows."""
        zone = str(self.cleaned_data["zone"]).strip()
        if zone not in available_timezones():
            raise forms.ValidationError("Expected a zone of the IANA database, as Europe/Berlin.")
        return zone


class TargetForm(forms.Form):
    """The target of a scenario, and its service hours."""

    percent = forms.FloatField(
        required=False,
        min_value=0.001,
        max_value=100,
        label="Target, percent",
        help_text="Empty for no target.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )

    def __init__(self, scenario: Scenario, target: Target | None, data: Any = None) -> None:
        hours = target.hours if target and target.hours else [[]] * 7
        initial: dict[str, Any] = {"percent": target.percent if target else None}
        initial |= {f"day{n}": in_words(day) for n, day in enumerate(hours)}
        super().__init__(data, prefix=scenario.name, initial=initial)
        self.scenario = scenario
        for n, name in enumerate(WEEKDAYS):
            self.fields[f"day{n}"] = HoursField(name)

    def hours(self) -> list[list[int]]:
        """Return the service hours of a valid form by weekday; none at all for all hours."""
        days = [self.cleaned_data[f"day{n}"] for n in range(7)]
        return days if any(days) else []


def in_words(hours: list[int]) -> str:
    """Return hours of a day as the form has them: `8-12, 13-17`."""
    parts: list[list[int]] = []
    for hour in sorted(hours):
        if parts and parts[-1][1] == hour:
            parts[-1][1] = hour + 1
        else:
            parts.append([hour, hour + 1])
    return ", ".join(f"{begin}-{end}" for begin, end in parts)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read", ADMINS)
def settings_page(request: HttpRequest) -> HttpResponse:
    """Return the page of what summaries are measured by; save what its form sends."""
    data = request.POST if request.method == "POST" else None
    known = targets()
    zone = ZoneForm(data, initial={"zone": reporting_zone().key})
    by_scenario = [TargetForm(each, known.get(each.name), data) for each in scenarios().values()]
    if data is not None and all([form.is_valid() for form in (zone, *by_scenario)]):  # noqa: C419
        _save(request, zone, by_scenario)
        messages.success(request, "Saved. What has changed is summed up again.")
        return redirect("summaries:settings")
    faulty = data is not None
    context = {
        "zone": zone,
        "targets": by_scenario,
        "zones": sorted(available_timezones()),
        "weekdays": WEEKDAYS,
    }
    return render(request, "summaries/settings.html", context, status=422 if faulty else 200)


def _save(request: HttpRequest, zone: ZoneForm, by_scenario: list[TargetForm]) -> None:
    """Save what has changed, and note it."""
    actor, name = Actor.of(request), zone.cleaned_data["zone"]
    if name != (before := reporting_zone().key):
        set_reporting_zone(name)
        note(actor, "summary.zone", target=name, before=before)
    for form in by_scenario:
        if form.has_changed():
            percent, hours = form.cleaned_data["percent"], form.hours()
            set_target(form.scenario.name, percent, hours)
            words = "; ".join(in_words(day) or "none" for day in hours) or "all"
            facts = {"percent": percent, "hours": words}
            note(actor, "summary.target", scenario=form.scenario.name, **facts)
