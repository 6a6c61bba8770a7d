"""The pages of messages: their list, the same as a file, and one with each try to deliver it."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.exports import export
from dashboard.core.access import role_required
from dashboard.core.navigation import OPERATORS
from dashboard.core.pages import render_page
from dashboard.core.tables import Pager
from dashboard.core.times import now_ms
from dashboard.notifications.message_forms import MessageFilter
from dashboard.notifications.message_list import (
    ALL_KINDS,
    ATTEMPTS,
    MESSAGE_FILE,
    MESSAGES,
    Wanted,
    page_of_messages,
    place_text,
)
from dashboard.notifications.models import OPEN, STATUSES


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def message_list(request: HttpRequest) -> HttpResponse:
    """Return the page of messages, newest first; to a script, the part that renews itself."""
    form = MessageFilter(request.GET)
    valid = form.is_valid()
    before = form.cleaned_data["before"] if valid else None
    query = form.query()
    found = page_of_messages(form.wanted().rows(), before) if valid else None
    following = found and found.following and place_text(found.following)
    context = {
        "now": now_ms(),
        "form": form,
        "found": found,
        "first": not before,
        "table": MESSAGES,
        "query": query,
        "narrowed": bool(query),
        "address": request.get_full_path(),
        "statuses": STATUSES,
        "pager": Pager.by_key(query, "before", before, following, ("The newest", "Older")),
    }
    return render_page(request, "notifications/messages", context, status=200 if valid else 422)


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def message_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the newest messages that pass the filter as CSV or NDJSON."""
    filter_form = MessageFilter(request.GET)
    return export(request, MESSAGE_FILE, form, filter_form, lambda: filter_form.wanted().rows())


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def message(request: HttpRequest, number: uuid.UUID) -> HttpResponse:
    """Return the page of one message; to a script, the part that renews itself."""
    row = get_object_or_404(Wanted().rows(), pk=number)
    context = {
        "now": now_ms(),
        "row": row,
        "kind": ALL_KINDS.get(row.kind, row.kind),
        "open": row.status in OPEN,
        "status": STATUSES[row.status],
        "attempts": row.attempts.order_by("number"),
        "table": ATTEMPTS,
        "address": request.get_full_path(),
    }
    return render_page(request, "notifications/message", context)
