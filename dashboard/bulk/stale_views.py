"""The list of stale assets."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.bulk import stale_assets
from dashboard.bulk.forms import StaleForm
from dashboard.bulk.stale_assets import REASONS
from dashboard.core.access import role_required
from dashboard.core.roles import may
from dashboard.core.scenarios import scenarios
from dashboard.core.times import exact_span, now_ms
from domain.scenario import Scenario


@require_safe
@never_cache
@role_required("read")
def stale_list(request: HttpRequest) -> HttpResponse:
    """Return the page of how many assets of each scenario are stale, and of those of one."""
    form, now = StaleForm(request.GET), now_ms()
    context: dict[str, Any] = {
        "form": form,
        "now": now,
        "may_command": may(request.user, "command"),
        "most_counted": stale_assets.MOST_COUNTED,
        "page_size": stale_assets.PAGE,
    }
    if form.is_valid():
        context |= _listed(request, form, now)
    return render(request, "bulk/stale.html", context, status=200 if form.is_valid() else 422)


def _listed(request: HttpRequest, form: StaleForm, now: int) -> dict[str, Any]:
    known = scenarios()
    scenario = known.get(request.GET.get("scenario", "")) or next(iter(known.values()))
    after = stale_assets.token_of(request.GET.get("after", "")[:60])
    page = stale_assets.page(scenario, form.reason, form.age, now, after)
    return {
        "scenario": scenario,
        "reason": form.reason,
        "words": form.words(),
        "heads": _heads(form),
        "counts": [_counts(each, form, now) for each in known.values()],
        "total": stale_assets.count(scenario, form.reason, form.age, now),
        "lines": page.lines,
        "after": after,
        "first": _address(scenario, form),
        "next": _address(scenario, form, after=str(page.next)) if page.next else "",
        "lifetime": exact_span(scenario.vote_lifetime) if scenario.vote_lifetime else "",
        "n": form.cleaned_data["n"] or 7,
        "unit": form.cleaned_data["unit"] or "days",
    }


def _heads(form: StaleForm) -> list[str]:
    """Return the reasons in words, with how long."""
    long = form.long()
    return [f"No report for {long}", REASONS["voteless"], f"Pinned for over {long}"]


def _counts(scenario: Scenario, form: StaleForm, now: int) -> dict[str, Any]:
    """Return a line of the table above: the scenario, and each reason's count with its address."""
    cells = [
        {
            "reason": reason,
            "count": stale_assets.count(scenario, reason, form.age, now),
            "address": _address(scenario, form, why=reason),
        }
        for reason in REASONS
    ]
    return {"scenario": scenario, "cells": cells}


def _address(scenario: Scenario, form: StaleForm, **more: str) -> str:
    query = {
        "scenario": scenario.name,
        "why": form.reason,
        "n": form.cleaned_data["n"] or 7,
        "unit": form.cleaned_data["unit"] or "days",
    }
    return f"?{urlencode(query | more)}"
