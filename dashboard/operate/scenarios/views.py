"""The console's scenario pages: what is configured, what the job uses, proposing a rule."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.accounts import models
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import (
    ADMINS,
    OPERATORS,
    Role,
    TooMany,
    form_of,
    role_of,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.kafka import gateway
from dashboard.core.common.navigation import render_page
from dashboard.core.common.scenarios import file_now, scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import now_ms
from dashboard.operate.scenarios import descriptions
from dashboard.operate.scenarios.proposal import (
    CHANGES,
    EVERY,
    ChangeForm,
    Proposal,
    ProposalForm,
    change_text,
    changes,
    propose,
    send,
    taken_back,
)
from dashboard.operate.scenarios.status import (
    PLACES,
    SCENARIOS,
    ScenarioStatus,
    all_known,
    known,
    problems,
)
from domain.overlay import overlaid, read_overlay
from domain.scenario import Scenario, ScenarioError

LONGEST_LINK = 6_000
"""Longest proposal that is put into a URL, characters."""
WHAT_IF = "/what-if/"
MOVED = "Somebody changed the rule meanwhile. Beside your proposal is the rule as it is now."


@require_safe
@never_cache
@role_required("read", OPERATORS)
def listing(request: HttpRequest) -> HttpResponse:
    """Return every scenario; scripts get only the part that refreshes."""
    now, error = now_ms(), file_now().error
    rows = [
        (
            entry,
            problems(entry, ""),
            descriptions.rule(entry.present),
            [descriptions.TITLES[key] for key in entry.keys],
        )
        for entry in all_known(now)
    ]
    context = {"now": now, "table": SCENARIOS, "rows": rows, "error": error}
    return render_page(request, "scenarios/scenarios", context)


@require_safe
@never_cache
@role_required("read", OPERATORS)
def scenario(request: HttpRequest, name: str) -> HttpResponse:
    """Return one scenario; scripts get only the part that refreshes."""
    entry, now = _known(name), now_ms()
    context = _head(entry, now) | {
        "admin": role_of(request.user) is Role.ADMIN,
        "rule": descriptions.rule(entry.present),
        "severity": descriptions.severity(entry.present),
        "states": _states(entry),
        "state_table": STATES,
        "compared_table": descriptions.COMPARED,
        "demo": settings.TALLYBOARD.demo,
        "place_table": PLACES,
        "change_table": CHANGES,
        "compared": [
            (each, each.key in entry.keys)
            for each in descriptions.compared(entry.configured, entry.present)
        ],
        "changes": changes(name, now=now),
        "what_if": _what_if(name),
        "topics": (gateway().topics.reports(name), gateway().topics.states(name)),
    }
    return render_page(request, "scenarios/scenario", context)


@require_safe
@never_cache
@role_required("read", ADMINS)
@takes("rule")
def change(request: HttpRequest, name: str) -> HttpResponse:
    """Return the form for a new rule, starting from the present one or the one in the URL."""
    entry = _known(name)
    start, error = entry.present, ""
    if text := request.GET.get("rule", ""):
        try:
            start = overlaid(entry.present, read_overlay(text))
        except ScenarioError as refused:
            error = str(refused)
    form = ChangeForm(entry, start)
    if error:
        form.initial["text"] = text
    return _form(request, entry, form, error)


@require_http_methods(["GET", "HEAD", "POST"])
@role_required("read", ADMINS)
@takes("draft")
def review(request: HttpRequest, name: str) -> HttpResponse:
    """Return a proposal next to the file and the rule in force, before it is sent."""
    entry = _known(name)
    if request.method == "POST":
        return _proposed(request, entry)
    draft = models.find_draft(request, "rule")
    if draft is None or draft["scenario"] != name or entry.carried is None:
        return redirect("rules:scenario", name)
    try:
        return _review(request, entry, propose(entry, read_overlay(draft.get("keys", ""))))
    except ScenarioError as refused:  # the file has changed since
        return _form(request, entry, ChangeForm(entry, entry.present), str(refused), 422)


def _proposed(request: HttpRequest, entry: ScenarioStatus) -> HttpResponse:
    """Store the submitted proposal or removal, and redirect to its review. Raises Http404."""
    if entry.carried is None:
        raise Http404
    if key := request.POST.get("take_back", ""):
        if key != EVERY and key not in entry.keys:
            return redirect("rules:scenario", entry.scenario.name)  # somebody was faster
        try:
            return _to_review(request, entry, taken_back(entry, key))
        except ScenarioError as refused:
            return _form(request, entry, ChangeForm(entry, entry.present), str(refused), 422)
    form = ChangeForm(entry, entry.present, request.POST)
    if not form.is_valid() or form.proposal is None:
        return _form(request, entry, form, "", 422)
    return _to_review(request, entry, form.proposal)


def _to_review(request: HttpRequest, entry: ScenarioStatus, proposal: Proposal) -> HttpResponse:
    name = entry.scenario.name
    draft = models.keep_draft(request, "rule", {"scenario": name, "keys": proposal.text})
    return redirect(reverse("rules:review", args=[name]) + draft)


@form_of("rules:scenario", "name")
@role_required("read", ADMINS)
def confirm(request: HttpRequest, name: str) -> HttpResponse:
    """Send a proposal to the job. Raises Http404.

    The scenario's page shows what becomes of it.
    """
    entry = _known(name)
    if entry.carried is None:
        raise Http404
    try:
        proposal = propose(entry, read_overlay(request.POST.get("keys", "")))
    except ScenarioError as refused:
        return _form(request, entry, ChangeForm(entry, entry.present), str(refused), 422)
    form = ProposalForm(entry, data=request.POST)
    if not form.is_valid():
        return _review(request, entry, proposal, 422, form)
    data = form.cleaned_data
    if data["base"] != entry.carried.version:
        again = ProposalForm(entry, proposal, reason=data["reason"])
        return _review(request, entry, proposal, 409, again, moved=True)
    try:
        outcome = send(
            entry, proposal, data["base"], data["reason"], data["id"], user_of(request), now_ms()
        )
    except TooMany as error:
        form.add_error(None, str(error))
        return _review(request, entry, proposal, 429, form)
    action = "rule.changed" if proposal.keys else "rule.reverted"
    facts = {"reason": data["reason"], "overlay": proposal.text}
    record(Actor.of(request), action, scenario=name, target=name, outcome=outcome, **facts)
    return redirect(reverse("rules:scenario", args=[name]) + "#changes-h")


# ---- what the pages are made of -------------------------------------------------------------


def _known(name: str) -> ScenarioStatus:
    if name not in scenarios():
        raise Http404
    return known(name, now_ms())


def _head(entry: ScenarioStatus, now: int) -> dict[str, Any]:
    error = file_now().error
    return {
        "one": entry,
        "scenario": entry.scenario,
        "now": now,
        "problems": problems(entry, error),
    }


STATES = Table(
    "",
    "State",
    "Name",
    Column.number("Hold", term="hold"),
    Column.number("Reminder", term="reminder"),
    Column.number("Purge after", "how long an asset may stay in it before it is purged"),
    Column.unseen("Differs"),
    narrow=True,
)


def _states(entry: ScenarioStatus) -> list[dict[str, Any]]:
    """Return each state with the present rule's values, and whether the file's values differ."""
    now, file = entry.present, entry.configured
    extra = {*(now.holds or {}), *(now.reminders or {}), *(now.purge_after or {})}
    names = dict.fromkeys([spec.name for spec in now.states] + sorted(extra))
    return [
        {
            "name": state,
            "hold": _span(now.hold(state) or None),
            "reminder": _span(now.reminder(state)),
            "purge": _span(now.purge_delay(state)),
            "differs": _of_state(now, state) != _of_state(file, state),
        }
        for state in names
    ]


def _of_state(scenario: Scenario, state: str) -> tuple[int | None, ...]:
    return scenario.hold(state), scenario.reminder(state), scenario.purge_delay(state)


def _span(ms: int | None) -> str:
    return "–" if ms is None else descriptions.span(ms)


def _form(
    request: HttpRequest, entry: ScenarioStatus, form: ChangeForm, error: str, status: int = 200
) -> HttpResponse:
    context = _head(entry, now_ms()) | {"form": form, "error": error}
    return render(request, "scenarios/change.html", context, status=status)


def _review(
    request: HttpRequest,
    entry: ScenarioStatus,
    proposal: Proposal,
    status: int = 200,
    form: ProposalForm | None = None,
    *,
    moved: bool = False,
) -> HttpResponse:
    three = descriptions.compared(entry.configured, entry.present, proposal.scenario)
    before, after = entry.present.to_plain(), proposal.scenario.to_plain()
    changed = {each.key for each in three if before[each.key] != after[each.key]}
    name, text = entry.scenario.name, change_text(entry, proposal)
    context = _head(entry, now_ms()) | {
        "proposal": proposal,
        "table": descriptions.PROPOSAL,
        "compared": [(each, each.key in changed) for each in three],
        "changed": changed or dict(entry.keys) != proposal.keys,
        "form": form or ProposalForm(entry, proposal),
        "moved": MOVED if moved else "",
        "what_if": _what_if(name, text),
        "back": f"{reverse('rules:change', args=[name])}{_query(rule=text)}",
    }
    return render(request, "scenarios/review.html", context, status=status)


def _query(**parts: str) -> str:
    """Return a query string, or "" if it would be too long for a URL."""
    text = urlencode(parts)
    return f"?{text}" if len(text) <= LONGEST_LINK else ""


def _what_if(name: str, text: str = "") -> str:
    """Return the URL where a proposal can be tried on the past, or "" if there is no such page."""
    try:
        resolve(WHAT_IF)
    except Resolver404:
        return ""
    return WHAT_IF + _query(scenario=name, **({"rule": text} if text else {}))
