"""The page of a summary, and the settings of summaries."""

from __future__ import annotations

import re
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import ADMINS, Role, role_of, role_required, takes
from dashboard.core.common.exports import attachment, written
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import file_refusal
from dashboard.core.common.times import now_ms
from dashboard.notify.summaries import files
from dashboard.notify.summaries.calculation import summary
from dashboard.notify.summaries.figures import (
    PeriodSummary,
    Question,
)
from dashboard.notify.summaries.files import FILES, TITLES
from dashboard.notify.summaries.forms import SummaryForm, address
from dashboard.notify.summaries.models import ReportingZone, Target, in_words
from dashboard.notify.summaries.report import SummaryReport
from domain.history.periods import containing, day_of
from domain.scenario import Scenario

# ---- summaries -----------------------------------------------------------------------------------
# The page of a summary, and its tables as files.

TABLES = {
    "scenarios": files.SCENARIO_TABLE,
    "labels": files.LABEL_TABLE,
    "targets": files.TARGET_TABLE,
    "worst": files.WORST_TABLE,
    "overrides": files.OVERRIDE_TABLE,
    "runs": files.RUN_TABLE,
    "timelines": files.TIMELINE_TABLE,
}


@require_safe
@never_cache
@role_required("read")
@takes(*SummaryForm.parameters())
def summary_page(request: HttpRequest) -> HttpResponse:
    """Show a summary."""
    form = form_of(request.GET)
    context = {
        "form": form,
        "now": now_ms(),
        "tables": TABLES,
        "files": TITLES,
        "may_set": role_of(request.user) is Role.ADMIN,
    }
    if not form.is_valid():
        return render(request, "summaries/summary.html", context, status=422)
    period_summary = answered(form)
    form.show(period_summary.question)
    link = request.build_absolute_uri(
        f"{reverse('summaries:summary')}?{address(period_summary.question)}"
    )
    context |= {"link": link, **SummaryReport(period_summary).context()}
    return render(request, "summaries/summary.html", context)


@require_safe
@never_cache
@role_required("read")
@takes(*SummaryForm.parameters(), blank=False)
def summary_file(request: HttpRequest, table: str, form: str) -> HttpResponseBase:
    """Return a table of a summary as CSV or NDJSON. Raises Http404 for an unknown table."""
    asked = form_of(request.GET)
    if table not in FILES:
        raise Http404
    if refusal := file_refusal(form, asked):
        return refusal
    period_summary = answered(asked)
    facts = {"form": form, "filter": address(period_summary.question)}
    record(Actor.of(request), "export.summary", target=f"{table}.{form}", **facts)
    columns, rows = FILES[table]
    return attachment(
        request, written(form, columns, [rows(period_summary)]), f"summary-{table}", form
    )


def form_of(data: QueryDict) -> SummaryForm:
    """Return the form for an address's query."""
    return SummaryForm(data, day_of(now_ms(), ReportingZone.objects.current()))


def answered(form: SummaryForm) -> PeriodSummary:
    """Return the summary that a valid form asks for.

    If the form gives no time and nothing was on the board last week, it is about this week.
    """
    question = form.question()
    period_summary = summary(question)
    if not period_summary.empty or form.names_a_time:
        return period_summary
    this_week = containing(question.period.unit, day_of(now_ms(), ZoneInfo(period_summary.zone)))
    return summary(Question(question.scenarios, this_week, question.label, question.service))


# ---- settings views ------------------------------------------------------------------------------
# The settings of summaries, by an admin: the reporting zone, targets and service hours.

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS_EXPECTED = "Expected whole hours, such as 8-18 or 8-12, 13-17; nothing for none on this day."
RANGE = re.compile(r"(\d{1,2})\s*-\s*(\d{1,2})")


class HoursField(forms.CharField):
    """Whole hours of a day, such as `8-12, 13-17`."""

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
        help_text="An IANA time zone, such as Europe/Berlin. Days and hours are counted in it.",
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off"}),
    )

    def clean_zone(self) -> str:
        """Return the zone. Raises ValidationError if it is unknown."""
        zone = str(self.cleaned_data["zone"]).strip()
        if zone not in available_timezones():
            raise forms.ValidationError("Expected an IANA time zone, such as Europe/Berlin.")
        chosen = ReportingZone.objects.chosen().key
        if zone != chosen != ReportingZone.objects.current().key:
            raise forms.ValidationError(
                f"History is still being summed up in {chosen}. Change the zone once that is done."
            )
        return zone


class TargetForm(forms.Form):
    """A scenario's target and service hours."""

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
        """Return the service hours by weekday; empty for all hours. The form must be valid."""
        days = [self.cleaned_data[f"day{n}"] for n in range(7)]
        return days if any(days) else []


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read", ADMINS)
def settings_page(request: HttpRequest) -> HttpResponse:
    """Show the settings of summaries; on POST, save them."""
    data = request.POST if request.method == "POST" else None
    known = Target.objects.by_scenario()
    zone = ZoneForm(data, initial={"zone": ReportingZone.objects.chosen().key})
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
    """Save what has changed, and record it in the audit."""
    actor, name = Actor.of(request), zone.cleaned_data["zone"]
    if name != (before := ReportingZone.objects.chosen().key):
        ReportingZone.objects.choose(name)
        record(actor, "summary.zone", target=name, before=before)
    for form in by_scenario:
        if form.has_changed():
            name = form.scenario.name
            Target.objects.choose(name, form.cleaned_data["percent"], form.hours())
            facts = Target.objects.get(scenario=name).facts
            record(actor, "summary.target", scenario=name, **facts)
