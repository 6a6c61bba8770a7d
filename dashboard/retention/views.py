"""The page of what is kept, for admins, and the form that changes it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.navigation import ADMINS
from dashboard.core.pages import render_page
from dashboard.core.times import now_ms
from dashboard.retention.forms import PeriodForm
from dashboard.retention.periods import set_period
from dashboard.retention.queries import KEPT_TABLE, lines


@require_safe
@never_cache
@role_required("read", ADMINS)
def retention(request: HttpRequest) -> HttpResponse:
    """Return the page; to a script, the part that renews itself."""
    return _page(request, PeriodForm(now_ms()))


@form_of("retention:retention")
@role_required("command", ADMINS)
def change(request: HttpRequest) -> HttpResponse:
    """Have a scenario keep rows of a kind for a time of its own, or for the default."""
    now = now_ms()
    form = PeriodForm(now, request.POST)
    if not form.is_valid():
        return _page(request, form, 422)
    each, scenario = form.kind(), form.cleaned_data["scenario"]
    set_period(each, scenario, form.kept_ms(), user_of(request), now)
    days = form.cleaned_data["days"]
    note(Actor.of(request), "retention.changed", scenario=scenario, target=each.what, days=days)
    words = "the default again" if days is None else f"{days:,} days"
    messages.success(request, f"Kept for {words}: {each.what}. The next run applies it.")
    return redirect("retention:retention")


def _page(request: HttpRequest, form: PeriodForm, status: int = 200) -> HttpResponse:
    context = {
        "now": now_ms(),
        "form": form,
        "lines": lines(),
        "table": KEPT_TABLE,
        "address": request.path,
    }
    return render_page(request, "retention/retention", context, status)
