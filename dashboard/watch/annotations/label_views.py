"""The pages of labels and of label files."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor
from dashboard.core.common.access import (
    TooMany,
    form_of,
    is_fragment,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.exports import attachment
from dashboard.core.common.forms import scenario_links
from dashboard.core.common.navigation import render_page
from dashboard.core.common.resumable import start_task
from dashboard.core.common.scenarios import scenario_or_404, scenario_or_first, scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import now_ms
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.filter_terms import quoted
from dashboard.watch.annotations import label_files, label_uploads
from dashboard.watch.annotations import labels as annotation_labels
from dashboard.watch.annotations.label_files import at_once
from dashboard.watch.annotations.label_uploads import LISTED, MOST_REFUSED, ImportCounts
from dashboard.watch.annotations.labels import fault, key_fault
from dashboard.watch.annotations.models import (
    APPLYING,
    BEGUN,
    CANCELLED,
    UNREADABLE,
    Label,
    LabelUpload,
)
from dashboard.watch.annotations.tasks import carry_on
from dashboard.watch.annotations.templatetags.annotations import labels_context
from domain.names import name_ok
from domain.scenario import Scenario

# ---- labels --------------------------------------------------------------------------------------
# The page of labels, all of them as a file, and the form on an asset's page.

MOST_VALUES = 100
"""Most values of a key that the page lists, those that most assets have."""
KEYS = Table("label-keys", "Key", Column.number("Assets"), "On the board's rows")
VALUES = Table("label-values", "Value", Column.number("Assets"))


@require_safe
@never_cache
@role_required("read")
@takes("scenario", "key")
def labels(request: HttpRequest) -> HttpResponse:
    """Return the keys of a scenario's labels, and the values of one."""
    return page(request, request.GET.get("scenario", ""))


def page(request: HttpRequest, name: str, *, fault: str = "", status: int = 200) -> HttpResponse:
    """Return the page of a scenario's labels; fault: of the file that was sent."""
    scenario = scenario_or_first(name)
    shown = Label.objects.shown(scenario.name)
    counted = shown.values("key").annotate(n=Count("pk")).order_by("key")
    key = request.GET.get("key", "")
    state = annotation_labels.state(scenario.name)
    context = {
        "scenario": scenario,
        "choices": scenario_links(scenario),
        "key_table": KEYS,
        "keys": list(counted[: annotation_labels.MOST_KEYS]),
        "key": key,
        "value_table": VALUES,
        "values": _values(scenario, key) if key else [],
        "chips": state.chips,
        "places": range(annotation_labels.MOST_CHIPS),
        "fault": fault,
        "most_lines": label_files.MAX_LINES,
        "empty_removes": label_files.EMPTY_REMOVES,
        "upload_table": label_uploads.UPLOAD_TABLE,
        "uploads": _uploads(request),
        "now": now_ms(),
    }
    return render(request, "annotations/labels/labels.html", context, status=status)


def _values(scenario: Scenario, key: str) -> list[dict[str, Any]]:
    rows = Label.objects.shown(scenario.name).filter(key=key)
    counted = rows.values("value").annotate(n=Count("pk")).order_by("-n", "value")[:MOST_VALUES]
    return [
        {**row, "address": _board(scenario.name, f"{key}:{quoted(row['value'])}")}
        for row in counted
    ]


def _uploads(request: HttpRequest) -> list[tuple[LabelUpload, ImportCounts]]:
    """Return the tables that the user has sent or may take over, newest first, with results."""
    uploads = LabelUpload.objects.within_reach(user_of(request)).select_related("user")
    return [(each, ImportCounts.of(each.found)) for each in uploads.order_by("-sent_at", "-pk")]


def _board(scenario: str, text: str) -> str:
    return f"{reverse('board:board')}?{urlencode({'scenario': scenario, 'q': text})}"


@require_safe
@never_cache
@role_required("read")
@takes("scenario", blank=False)
def label_file(request: HttpRequest) -> HttpResponseBase:
    """Return all labels of a scenario, as a file that can be uploaded again."""
    scenario = scenario_or_404(request.GET.get("scenario", next(iter(scenarios()))))
    return attachment(request, label_files.lines(scenario.name), f"labels-{scenario.name}", "csv")


@form_of("labels:labels")
@role_required("command")
def choose_chips(request: HttpRequest) -> HttpResponse:
    """Set which keys' labels the board's rows show."""
    scenario = scenario_or_404(request.POST.get("scenario", ""))
    chosen = list(dict.fromkeys(filter(None, request.POST.getlist("key"))))[
        : annotation_labels.MOST_CHIPS
    ]
    if all(not key_fault(key) for key in chosen):
        annotation_labels.choose_chips(scenario.name, chosen)
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
        edits = {asset: {key: None if gone else value}}
        wrong = next((each.fault for each in annotation_labels.compare(scenario, edits)), "")
    if not wrong:
        changes = annotation_labels.put(scenario, edits, user_of(request).get_username(), now_ms())
        annotation_labels.log_edits(
            Actor.of(request), scenario, edits, annotation_labels.counted(changes)
        )
    if is_fragment(request):
        context = labels_context(request, known, asset)
        typed = {"key": key, "value": value} if wrong else {}
        context |= {"fault": wrong, "typed": typed, "open": True}
        return render(
            request, "annotations/labels/_asset.html", context, status=422 if wrong else 200
        )
    if wrong:
        messages.error(request, f"The label was not changed. {wrong}.")
    return redirect(asset_path(scenario, asset))


# ---- upload views --------------------------------------------------------------------------------
# The page of a label file: how it is read, what it would do, how it is applied, what came.

REFUSED_LINES = Table("", Column.number("Line"), "Why")
PLANNED = Table("label-changes", "Asset", "Key", "Now", "Then", "What")
MADE = Table("label-changes", "Asset", "Key", "Before", "After", "What")


@form_of("labels:labels")
@role_required("command")
def upload(request: HttpRequest) -> HttpResponse:
    """Receive a table, for review before it is applied."""
    scenario, sent = request.POST.get("scenario", ""), request.FILES.get("file")
    known = scenario_or_404(scenario)
    if sent is None or isinstance(sent, list):
        return page(request, scenario, fault="file: expected a CSV file", status=422)
    if (sent.size or 0) > label_files.MAX_BYTES:
        fault = f"file: expected at most {label_files.MAX_BYTES >> 20} MiB"
        return page(request, scenario, fault=fault, status=422)
    try:
        label_uploads.UPLOADS.take(user_of(request).pk, now_ms())
    except TooMany as error:
        return page(request, scenario, fault=str(error), status=429)
    empty_removes, name = "empty_removes" in request.POST, sent.name or ""
    user, now = user_of(request), now_ms()
    kept = label_uploads.keep(user, known.name, name, sent.read(), now, empty_removes)
    at_once(kept)
    if kept.is_open:
        start_task(carry_on)
    elif kept.status == UNREADABLE:
        kept.delete()
        return page(request, scenario, fault=f"file: {kept.problem}", status=422)
    return redirect("labels:table", kept.pk)


@require_safe
@never_cache
@role_required("command")
def table(request: HttpRequest, number: uuid.UUID) -> HttpResponse:
    """Return the page of a table; to a script, the part of the page that renews itself."""
    upload, now = _kept(request, number), now_ms()
    context: dict[str, Any] = {
        "upload": upload,
        "import_counts": ImportCounts.of(upload.found),
        "took_ms": upload.took_ms(now),
        "waits": upload.is_waiting(now),
        "now": now,
        "refused_table": REFUSED_LINES,
        "change_table": MADE if upload.is_begun else PLANNED,
        "viewer": user_of(request).get_username(),
        "most_changes": LISTED,
        "most_refused": MOST_REFUSED,
        "address": request.path,
    }
    return render_page(request, "annotations/labels/table", context)


@form_of("labels:table", "number")
@role_required("command")
def apply(request: HttpRequest, number: uuid.UUID) -> HttpResponse:
    """Start applying a reviewed table, or the rest of a stopped one.

    A small one is applied at once.
    """
    kept, actor, now = _kept(request, number), Actor.of(request), now_ms()
    before = kept.actor.get("name")
    if kept.take_over(user_of(request), actor, now):
        counts = ImportCounts.of(kept.found)
        label_uploads.audit(kept, "taken over", counts, taken_over_from=before)
        start_task(carry_on)
    elif kept.start(actor, now):
        at_once(kept)
        if kept.status == APPLYING:
            label_uploads.audit(kept, "started", ImportCounts())
            start_task(carry_on)
    return redirect("labels:table", kept.pk)


@form_of("labels:table", "number")
@role_required("command")
def stop(request: HttpRequest, number: uuid.UUID) -> HttpResponse:
    """Leave out what is not applied yet; throw away what was not begun."""
    kept = _kept(request, number)
    if not label_uploads.end(kept, CANCELLED, now_ms(), Actor.of(request)):
        LabelUpload.objects.filter(pk=kept.pk).exclude(status__in=BEGUN).delete()
    if LabelUpload.objects.filter(pk=kept.pk).exists():
        return redirect("labels:table", kept.pk)
    return redirect("labels:labels")


def _kept(request: HttpRequest, number: uuid.UUID) -> LabelUpload:
    return get_object_or_404(LabelUpload.objects.within_reach(user_of(request)), pk=number)
