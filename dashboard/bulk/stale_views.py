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
from dashboard.core.listing import Place
from dashboard.core.roles import OPERATORS, may
from dashboard.core.scenarios import scenario_or_first, scenarios
from dashboard.core.tables import Column, Pager, Table
from dashboard.core.times import exact_span, now_ms
from domain.scenario import Scenario


@require_safe
@never_cache
@role_required("read", OPERATORS)
def stale_list(request: HttpRequest) -> HttpResponse:
    """Return the page of how many assets of each scenario are stale, and of those of one."""
    form, now = StaleForm(request.GET), now_ms()
    may_command = may(request.user, "command")
    context: dict[str, Any] = {
        "form": form,
        "now": now,
        "may_command": may_command,
        "most_counted": stale_assets.MOST_COUNTED,
    }
    if form.is_valid():
        context |= _listed(request, form, now)
        if may_command:
            context["table"] = context["table"].with_choice("Choose all on this page")
    return render(request, "bulk/stale.html", context, status=200 if form.is_valid() else 422)


def _listed(request: HttpRequest, form: StaleForm, now: int) -> dict[str, Any]:
    after = Place.parse(request.GET.get("after", "")[:60])
    scenario = scenario_or_first(request.GET.get("scenario", ""))
    page = stale_assets.page(scenario, form.reason, form.age, now, after)
    return {
        "scenario": scenario,
        "reason": form.reason,
        "words": form.words(),
        "count_table": _count_table(form),
        "counts": [_counts(each, form, now) for each in scenarios().values()],
        "total": stale_assets.count(scenario, form.reason, form.age, now),
        "table": stale_assets.STALE,
        "lines": page.rows,
        "pager": Pager.by_key(_query(scenario, form), "after", after, page.following),
        "lifetime": exact_span(scenario.lifetime) if scenario.lifetime else "",
        "n": form.cleaned_data["n"] or 7,
        "unit": form.cleaned_data["unit"] or "days",
    }


def _count_table(form: StaleForm) -> Table:
    """Return the table above the list: a column for each reason, with how long."""
    long = form.long()
    heads = (f"No report for {long}", REASONS["voteless"], f"Pinned for over {long}")
    return Table("", "Scenario", *map(Column.number, heads), narrow=True)


def _counts(scenario: Scenario, form: StaleForm, now: int) -> dict[str, Any]:
    """Return a line of the table above: the scenario, and each reason's count with its address."""
    cells = [
        {
            "reason": reason,
            "count": stale_assets.count(scenario, reason, form.age, now),
            "address": f"?{_query(scenario, form, why=reason)}",
        }
        for reason in REASONS
    ]
    return {"scenario": scenario, "cells": cells}


def _query(scenario: Scenario, form: StaleForm, **more: str) -> str:
    query = {
        "scenario": scenario.name,
        "why": form.reason,
        "n": form.cleaned_data["n"] or 7,
        "unit": form.cleaned_data["unit"] or "days",
    }
    return urlencode(query | more)
