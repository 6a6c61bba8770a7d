"""The pages of alarms: their list, and the same as a file."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.exports import export
from dashboard.core.access import role_required
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms, unix_ms
from dashboard.summaries.alarms import ALARM_FILE, ALARM_TABLE, ALARMS, AlarmFilter
from dashboard.summaries.phrases import gap_note


@require_safe
@never_cache
@role_required("read")
def alarm_list(request: HttpRequest) -> HttpResponse:
    """Return the page of alarms, the newest first."""
    form = AlarmFilter(request.GET)
    valid = form.is_valid()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    context = {
        "now": now_ms(),
        "unobserved": _gap_note(form) if valid else "",
        "form": form,
        "table": ALARM_TABLE,
        **ALARMS.context(form.rows() if valid else None, before, form.query()),
    }
    return render(request, "summaries/alarms.html", context, status=200 if valid else 422)


def _gap_note(form: AlarmFilter) -> str:
    data = form.cleaned_data
    begin, end = unix_ms(data["start"]), unix_ms(data["end"])
    return gap_note(data["scenario"] or list(scenarios()), begin, end, now_ms())


@require_safe
@never_cache
@role_required("read")
def alarm_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the newest alarms that pass the filter as CSV or NDJSON."""
    filter_form = AlarmFilter(request.GET)
    return export(request, ALARM_FILE, form, filter_form, filter_form.rows)
