"""The page of a summary, and its tables as files."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required
from dashboard.core.exports import attachment, written
from dashboard.core.listing import file_refusal
from dashboard.core.roles import Role, role_of
from dashboard.core.times import now_ms
from dashboard.summaries import tables
from dashboard.summaries.calculation import summary
from dashboard.summaries.figures import Question, Summary
from dashboard.summaries.files import FILES, TITLES
from dashboard.summaries.forms import SummaryForm, address
from dashboard.summaries.report import Report
from dashboard.summaries.targets import reporting_zone
from domain.history.periods import containing, day_of

TABLES = {
    "scenarios": tables.SCENARIOS,
    "labels": tables.LABELS,
    "worst": tables.WORST,
    "overrides": tables.OVERRIDES,
    "runs": tables.RUNS,
    "timelines": tables.TIMELINES,
}


@require_safe
@never_cache
@role_required("read")
def summary_page(request: HttpRequest) -> HttpResponse:
    """Return the page of a summary."""
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
    found = answered(form)
    form.show(found.question)
    link = request.build_absolute_uri(f"{reverse('summaries:summary')}?{address(found.question)}")
    context |= {"link": link, **Report(found).context()}
    return render(request, "summaries/summary.html", context)


@require_safe
@never_cache
@role_required("read")
def summary_file(request: HttpRequest, table: str, form: str) -> HttpResponseBase:
    """Return a table of a summary as CSV or NDJSON."""
    asked = form_of(request.GET)
    if table not in FILES:
        raise Http404
    if refusal := file_refusal(form, asked):
        return refusal
    found = answered(asked)
    facts = {"form": form, "filter": address(found.question)}
    note(Actor.of(request), "export.summary", target=f"{table}.{form}", **facts)
    columns, rows = FILES[table]
    return attachment(request, written(form, columns, [rows(found)]), f"summary-{table}", form)


def form_of(data: QueryDict) -> SummaryForm:
    """Return the form of what an address asks."""
    return SummaryForm(data, day_of(now_ms(), reporting_zone()))


def answered(form: SummaryForm) -> Summary:
    """Return the summary that a valid form asks for.

    Where it says of no time and nothing was on the board last week, it is about this week.
    """
    question = form.question()
    found = summary(question)
    if not found.empty or form.names_a_time:
        return found
    this_week = containing(question.period.unit, day_of(now_ms(), ZoneInfo(found.zone)))
    return summary(Question(question.scenarios, this_week, question.label, question.service))
