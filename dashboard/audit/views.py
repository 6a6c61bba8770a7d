"""The page of the audit, and the same as a file."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.forms import AuditFilter
from dashboard.audit.log import Actor, note
from dashboard.audit.queries import COLUMNS, Wanted, checked, page, plain, portions
from dashboard.audit.triggers import KEPT_DAYS
from dashboard.core.access import is_fragment, role_required
from dashboard.core.exports import CONTENT_TYPES, attachment, written
from dashboard.core.roles import Role
from dashboard.core.times import now_ms

ADMINS = frozenset((Role.ADMIN,))
MAX_OFFERED = 200
"""Most names that the filter offers."""


@require_safe
@never_cache
@role_required("read", ADMINS)
def entries(request: HttpRequest) -> HttpResponse:
    """Entries, newest first; to a script, the part of the page that renews itself."""
    form = AuditFilter(request.GET)
    valid = form.is_valid()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    wanted = form.wanted() if valid else Wanted()
    context: dict[str, Any] = {
        "now": now_ms(),
        "found": page(wanted, before) if valid else None,
        "first": not before,
        "narrowed": wanted != Wanted(),
        "address": request.get_full_path(),
        "query": query_of(form),
    }
    if is_fragment(request):
        return render(request, "audit/_entries.html", context, status=200 if valid else 422)
    context |= {"form": form, "chain": checked(), "kept_days": KEPT_DAYS, "users": _names()}
    return render(request, "audit/entries.html", context, status=200 if valid else 422)


def _names() -> list[str]:
    return list(User.objects.order_by("username").values_list("username", flat=True)[:MAX_OFFERED])


def query_of(form: AuditFilter) -> str:
    """The filter as the address has it."""
    parts = (name for name in form.fields if name != "before")
    return urlencode({name: form.data[name] for name in parts if form.data.get(name)})


@require_safe
@never_cache
@role_required("read", ADMINS)
def entry_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """The entries that pass the filter as CSV or NDJSON, newest first."""
    asked = AuditFilter(request.GET)
    if form not in CONTENT_TYPES:
        raise Http404
    if not asked.is_valid():
        faults = "; ".join(f"{name}: {told[0]}" for name, told in asked.errors.items())
        return HttpResponse(faults, status=422, content_type="text/plain; charset=utf-8")
    note(Actor.of(request), "export.audit", target=f"audit.{form}", filter=query_of(asked))
    rows = (map(plain, entries) for entries in portions(asked.wanted()))
    return attachment(request, written(form, COLUMNS, rows), "audit", form)
