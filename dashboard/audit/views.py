"""The page of the audit, and the same as a file."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.exports import export
from dashboard.audit.forms import AuditFilter
from dashboard.audit.queries import ENTRIES, ENTRY_FILE, ENTRY_TABLE, Wanted, checked
from dashboard.audit.triggers import KEPT_DAYS
from dashboard.core.access import is_fragment, role_required
from dashboard.core.roles import Role
from dashboard.core.times import now_ms

ADMINS = frozenset((Role.ADMIN,))
MAX_OFFERED = 200
"""Most names that the filter offers."""


@require_safe
@never_cache
@role_required("read", ADMINS)
def entries(request: HttpRequest) -> HttpResponse:
    """Return the page of entries, newest first; to a script, the part of it that renews itself."""
    form = AuditFilter(request.GET)
    valid = form.is_valid()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    wanted = form.wanted() if valid else Wanted()
    context: dict[str, Any] = {
        "now": now_ms(),
        "table": ENTRY_TABLE,
        "narrowed": wanted != Wanted(),
        "address": request.get_full_path(),
        **ENTRIES.context(wanted.rows() if valid else None, before, form.query()),
    }
    if is_fragment(request):
        return render(request, "audit/_entries.html", context, status=200 if valid else 422)
    context |= {"form": form, "chain": checked(), "kept_days": KEPT_DAYS, "users": _names()}
    return render(request, "audit/entries.html", context, status=200 if valid else 422)


def _names() -> list[str]:
    return list(User.objects.order_by("username").values_list("username", flat=True)[:MAX_OFFERED])


@require_safe
@never_cache
@role_required("read", ADMINS)
def entry_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the entries that pass the filter as CSV or NDJSON, newest first."""
    filter_form = AuditFilter(request.GET)
    return export(request, ENTRY_FILE, form, filter_form, lambda: filter_form.wanted().rows())
