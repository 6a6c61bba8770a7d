"""The page of a label file: how it is read, what it would do, how it is applied, what came."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.pages import render_page
from dashboard.core.rate_limits import TooMany
from dashboard.core.resumable import wake
from dashboard.core.scenarios import scenario_or_404
from dashboard.core.tables import Column, Table
from dashboard.core.times import now_ms
from dashboard.labels import csv_tables, upload_service
from dashboard.labels.import_counts import LISTED, MOST_REFUSED, ImportCounts
from dashboard.labels.imports import at_once
from dashboard.labels.models import (
    APPLYING,
    BEGUN,
    CANCELLED,
    OPEN,
    UNREADABLE,
    LabelUpload,
)
from dashboard.labels.tasks import carry_on
from dashboard.labels.views import page

REFUSED_LINES = Table("", Column.number("Line"), "Why")
PLANNED = Table("label-changes", "Asset", "Key", "Now", "Then", "What")
MADE = Table("label-changes", "Asset", "Key", "Before", "After", "What")


@form_of("labels:labels")
@role_required("command")
def upload(request: HttpRequest) -> HttpResponse:
    """Receive a table, to be looked at before it is applied."""
    scenario, sent = request.POST.get("scenario", ""), request.FILES.get("file")
    known = scenario_or_404(scenario)
    if sent is None or isinstance(sent, list):
        return page(request, scenario, fault="file: expected a CSV file", status=422)
    if (sent.size or 0) > csv_tables.MAX_BYTES:
        fault = f"file: expected at most {csv_tables.MAX_BYTES >> 20} MiB"
        return page(request, scenario, fault=fault, status=422)
    try:
        upload_service.UPLOADS.take(user_of(request).pk, now_ms())
    except TooMany as error:
        return page(request, scenario, fault=str(error), status=429)
    kept = upload_service.keep(user_of(request), known.name, sent.name or "", sent.read(), now_ms())
    at_once(kept)
    if kept.status in OPEN:
        wake(carry_on)
    elif kept.status == UNREADABLE:
        kept.delete()
        return page(request, scenario, fault=f"file: {kept.trouble}", status=422)
    return redirect("labels:table", kept.pk)


@require_safe
@never_cache
@role_required("command")
def table(request: HttpRequest, number: uuid.UUID) -> HttpResponse:
    """Return the page of a table; to a script, the part of the page that renews itself."""
    progress = upload_service.progress_of(_kept(request, number), now_ms())
    begun = progress.upload.status in BEGUN
    context: dict[str, Any] = {
        "told": progress,
        "upload": progress.upload,
        "now": progress.now,
        "begun": begun,
        "refused_table": REFUSED_LINES,
        "change_table": MADE if begun else PLANNED,
        "viewer": user_of(request).get_username(),
        "most_changes": LISTED,
        "most_refused": MOST_REFUSED,
        "address": request.path,
    }
    return render_page(request, "labels/table", context)


@form_of("labels:table", "number")
@role_required("command")
def apply(request: HttpRequest, number: uuid.UUID) -> HttpResponse:
    """Start applying a table that was looked at, or the rest of one that was stopped.

    A small one is applied at once.
    """
    kept, actor, now = _kept(request, number), Actor.of(request), now_ms()
    if upload_service.take_over(kept, user_of(request), actor, now):
        wake(carry_on)
    elif upload_service.start(kept, actor, now):
        at_once(kept)
        if kept.status == APPLYING:
            upload_service.audit(kept, "started", ImportCounts())
            wake(carry_on)
    return redirect("labels:table", kept.pk)


@form_of("labels:table", "number")
@role_required("command")
def stop(request: HttpRequest, number: uuid.UUID) -> HttpResponse:
    """Leave out what is not applied yet; throw away what was not begun."""
    kept = _kept(request, number)
    if not upload_service.end(kept, CANCELLED, now_ms(), Actor.of(request)):
        LabelUpload.objects.filter(pk=kept.pk).exclude(status__in=BEGUN).delete()
    if LabelUpload.objects.filter(pk=kept.pk).exists():
        return redirect("labels:table", kept.pk)
    return redirect("labels:labels")


def _kept(request: HttpRequest, number: uuid.UUID) -> LabelUpload:
    return get_object_or_404(upload_service.within_reach(user_of(request)), pk=number)
