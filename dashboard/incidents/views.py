"""The pages of incidents: their list, the same as a file, one of them, and its report."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.exports import export
from dashboard.core.access import role_required
from dashboard.core.navigation import OPERATORS
from dashboard.core.pages import render_page
from dashboard.core.roles import role_of
from dashboard.core.scenarios import scenarios
from dashboard.core.times import FIELD_SECOND, field_text, now_ms
from dashboard.incidents.forms import IncidentFilter
from dashboard.incidents.messages import messages_about
from dashboard.incidents.models import Incident, real
from dashboard.incidents.queries import INCIDENT_FILE, INCIDENT_TABLE, INCIDENTS, count, entry_of
from dashboard.incidents.report import as_markdown
from dashboard.incidents.timeline import timeline


@require_safe
@never_cache
@role_required("read")
def incident_list(request: HttpRequest) -> HttpResponse:
    """Return the page of incidents, newest first; to a script, the part that renews itself."""
    form = IncidentFilter(request.GET)
    valid = form.is_valid()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    query, rows = form.query(), form.wanted().rows() if valid else None
    context = {
        "now": now_ms(),
        "form": form,
        "table": INCIDENT_TABLE,
        "narrowed": bool(query),
        "address": request.get_full_path(),
        "count": count(rows) if rows is not None and form.cleaned_data["start"] else None,
        **INCIDENTS.context(rows, before, query),
    }
    return render_page(request, "incidents/incidents", context, status=200 if valid else 422)


@require_safe
@never_cache
@role_required("read")
def incident_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the newest incidents that pass the filter as CSV or NDJSON."""
    filter_form = IncidentFilter(request.GET)
    return export(request, INCIDENT_FILE, form, filter_form, lambda: filter_form.wanted().rows())


@require_safe
@never_cache
@role_required("read")
def incident(request: HttpRequest, number: int) -> HttpResponse:
    """Return the page of one incident; to a script, the part that renews itself."""
    now = now_ms()
    entry = entry_of(_incident(number), now)
    begun = entry.row.began_at + 999  # a form's times are to the second: then it had begun
    as_of = {"scenario": entry.row.scenario, "at": field_text(begun, FIELD_SECOND)}
    context = {
        "now": now,
        "entry": entry,
        "moments": timeline(entry),
        "notified": messages_about(entry.row) if role_of(request.user) in OPERATORS else (),
        "address": request.get_full_path(),
        "as_of": f"{reverse('board:as-of')}?{urlencode(as_of)}",
    }
    return render_page(request, "incidents/incident", context)


@require_safe
@never_cache
@role_required("read")
def incident_report(_request: HttpRequest, number: int) -> HttpResponse:
    """Return the report on one incident as a Markdown file."""
    text = as_markdown(entry_of(_incident(number)))
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="incident-{number}.md"'
    return response


def _incident(number: int) -> Incident:
    """Return an incident. Raises Http404."""
    return get_object_or_404(real().filter(scenario__in=scenarios()), pk=number)
