"""The page of labels, all of them as a file, and the form on an asset's page."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor
from dashboard.core.access import form_of, is_fragment, role_required, user_of
from dashboard.core.exports import attachment
from dashboard.core.filter_forms import scenario_links
from dashboard.core.scenarios import scenario_or_404, scenario_or_first, scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import now_ms
from dashboard.filter_language.terms import quoted
from dashboard.labels import csv_tables, queries, upload_service, writer
from dashboard.labels.models import Label
from dashboard.labels.templatetags.labels import labels_context
from dashboard.labels.validation import fault, key_fault
from dashboard.states.board_rows import asset_path
from domain.names import name_ok
from domain.scenario import Scenario

MOST_VALUES = 100
"""Most values of a key that the page lists, those that most assets have."""
KEYS = Table("label-keys", "Key", Column.number("Assets"), "On the board's rows")
VALUES = Table("label-values", "Value", Column.number("Assets"))


@require_safe
@never_cache
@role_required("read")
def labels(request: HttpRequest) -> HttpResponse:
    """Return the keys of a scenario's labels, and the values of one."""
    return page(request, request.GET.get("scenario", ""))


def page(request: HttpRequest, name: str, *, fault: str = "", status: int = 200) -> HttpResponse:
    """Return the page of a scenario's labels; fault: of the file that was sent."""
    scenario = scenario_or_first(name)
    shown = Label.objects.filter(scenario=scenario.name, shown=True)
    counted = shown.values("key").annotate(n=Count("pk")).order_by("key")
    key = request.GET.get("key", "")
    state = queries.state(scenario.name)
    context = {
        "scenario": scenario,
        "choices": scenario_links(scenario),
        "key_table": KEYS,
        "keys": list(counted[: queries.MOST_KEYS]),
        "key": key,
        "value_table": VALUES,
        "values": _values(scenario, key) if key else [],
        "chips": state.chips,
        "places": range(queries.MOST_CHIPS),
        "fault": fault,
        "most_lines": csv_tables.MAX_LINES,
        "upload_table": upload_service.UPLOAD_TABLE,
        "uploads": _uploads(request),
        "now": now_ms(),
    }
    return render(request, "labels/labels.html", context, status=status)


def _values(scenario: Scenario, key: str) -> list[dict[str, Any]]:
    rows = Label.objects.filter(scenario=scenario.name, shown=True, key=key)
    counted = rows.values("value").annotate(n=Count("pk")).order_by("-n", "value")[:MOST_VALUES]
    return [
        {**row, "address": _board(scenario.name, f"{key}:{quoted(row['value'])}")}
        for row in counted
    ]


def _uploads(request: HttpRequest) -> list[upload_service.UploadProgress]:
    """Return the tables that the user has sent or may take over, the newest first."""
    uploads = (
        upload_service.within_reach(user_of(request)).select_related("user").order_by("-sent_at")
    )
    return [upload_service.progress_of(each, now_ms()) for each in uploads]


def _board(scenario: str, text: str) -> str:
    return f"{reverse('board:board')}?{urlencode({'scenario': scenario, 'q': text})}"


@require_safe
@never_cache
@role_required("read")
def label_file(request: HttpRequest) -> HttpResponseBase:
    """Return all labels of a scenario, as a file that can be uploaded again."""
    scenario = scenario_or_404(request.GET.get("scenario", next(iter(scenarios()))))
    return attachment(request, csv_tables.lines(scenario.name), f"labels-{scenario.name}", "csv")


@form_of("labels:labels")
@role_required("command")
def choose_chips(request: HttpRequest) -> HttpResponse:
    """Set which keys' labels the board's rows show."""
    scenario = scenario_or_404(request.POST.get("scenario", ""))
    chosen = list(dict.fromkeys(filter(None, request.POST.getlist("key"))))[: queries.MOST_CHIPS]
    if all(not key_fault(key) for key in chosen):
        writer.choose_chips(scenario.name, chosen)
        words = ", ".join(chosen) or "no labels"
        messages.success(request, f"The board's rows show {words}.")
    else:
        messages.error(request, "Nothing was changed. key: expected keys of labels.")
    return redirect(f"{reverse('labels:labels')}?scenario={scenario.name}")


# ---- one asset ----------------------------------------------------------------------------------


@form_of("board:asset", "scenario", "asset")
@role_required("command")
def of_asset(request: HttpRequest, scenario: str, asset: str) -> HttpResponse:
    """Give an asset a label, or remove one (`do=remove`). Raises Http404."""
    known = scenario_or_404(scenario)
    if not name_ok(asset):
        raise Http404
    key, value = request.POST.get("key", "").strip().lower(), request.POST.get("value", "").strip()
    gone = request.POST.get("do") == "remove"
    wrong = key_fault(key) if gone else fault(key, value)
    if not wrong:
        wanted = {asset: {key: None if gone else value}}
        wrong = next((each.fault for each in writer.compare(scenario, wanted)), "")
    if not wrong:
        changes = writer.put(scenario, wanted, user_of(request).get_username(), now_ms())
        writer.tell(Actor.of(request), scenario, wanted, writer.counted(changes))
    if is_fragment(request):
        context = labels_context(request, known, asset)
        typed = {"key": key, "value": value} if wrong else {}
        context |= {"fault": wrong, "typed": typed, "open": True}
        return render(request, "labels/_asset.html", context, status=422 if wrong else 200)
    if wrong:
        messages.error(request, f"The label was not changed. {wrong}.")
    return redirect(asset_path(scenario, asset))
