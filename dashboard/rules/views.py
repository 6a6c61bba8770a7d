"""The console's pages of the scenarios: what is configured, what the job uses, another rule."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import drafts
from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required
from dashboard.core.kafka import gateway
from dashboard.core.pages import render_page
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import Role, role_of
from dashboard.core.scenarios import file_now, scenarios
from dashboard.core.times import now_ms
from dashboard.rules import descriptions
from dashboard.rules.changes import changes, send
from dashboard.rules.proposal import (
    EVERY,
    ChangeForm,
    ConfirmForm,
    Proposal,
    change_text,
    propose,
    taken_back,
)
from dashboard.rules.scenario_status import Known, all_known, known, troubles
from domain.overlay import overlaid, read_overlay
from domain.scenario import Scenario, ScenarioError

ADMINS = (Role.ADMIN,)
LONGEST_LINK = 6_000
"""A proposal that is longer than this, characters, goes into no address."""
WHAT_IF = "/what-if/"
MOVED = "Somebody changed the rule meanwhile. Beside your proposal is the rule as it is now."


@require_safe
@never_cache
@role_required("read")
def listing(request: HttpRequest) -> HttpResponse:
    """Every scenario; to a script, the part of the page that renews itself."""
    now, error = now_ms(), file_now().error
    found = [
        (
            one,
            troubles(one, ""),
            descriptions.rule(one.present),
            [descriptions.TITLES[key] for key in one.keys],
        )
        for one in all_known(now)
    ]
    context = {"now": now, "found": found, "error": error}
    return render_page(request, "rules/scenarios", context)


@require_safe
@never_cache
@role_required("read")
def scenario(request: HttpRequest, name: str) -> HttpResponse:
    """One scenario; to a script, the part of the page that renews itself."""
    one, now = _known(name), now_ms()
    context = _head(one, now) | {
        "admin": role_of(request.user) is Role.ADMIN,
        "rule": descriptions.rule(one.present),
        "severity": descriptions.severity(one.present),
        "states": _states(one),
        "compared": [
            (each, each.key in one.keys)
            for each in descriptions.compared(one.configured, one.present)
        ],
        "changes": changes(name, now),
        "what_if": _what_if(name),
        "topics": (gateway().topics.reports(name), gateway().topics.states(name)),
    }
    return render_page(request, "rules/scenario", context)


@require_safe
@never_cache
@role_required("read", ADMINS)
def change(request: HttpRequest, name: str) -> HttpResponse:
    """The form for another rule, from the one that is there or the one that the address has."""
    one = _known(name)
    start, error = one.present, ""
    if text := request.GET.get("rule", ""):
        try:
            start = overlaid(one.present, read_overlay(text))
        except ScenarioError as refused:
            error = str(refused)
    form = ChangeForm(one, start)
    if error:
        form.initial["text"] = text
    return _form(request, one, form, error)


@require_http_methods(["GET", "HEAD", "POST"])
@role_required("read", ADMINS)
def review(request: HttpRequest, name: str) -> HttpResponse:
    """A proposal beside the file and the rule that is there, before it is sent."""
    one = _known(name)
    if request.method == "POST":
        return _proposed(request, one)
    draft = drafts.found(request, "rule")
    if draft is None or draft["scenario"] != name or one.told is None:
        return redirect("rules:scenario", name)
    try:
        return _review(request, one, propose(one, read_overlay(draft.get("keys", ""))))
    except ScenarioError as refused:  # the file has changed since
        return _form(request, one, ChangeForm(one, one.present), str(refused), 422)


def _proposed(request: HttpRequest, one: Known) -> HttpResponse:
    """Keep what the form proposes, or takes back, and go to its review."""
    if one.told is None:
        raise Http404
    if key := request.POST.get("take_back", ""):
        if key != EVERY and key not in one.keys:
            return redirect("rules:scenario", one.scenario.name)  # somebody was faster
        try:
            return _to_review(request, one, taken_back(one, key))
        except ScenarioError as refused:
            return _form(request, one, ChangeForm(one, one.present), str(refused), 422)
    form = ChangeForm(one, one.present, request.POST)
    if not form.is_valid() or form.proposal is None:
        return _form(request, one, form, "", 422)
    return _to_review(request, one, form.proposal)


def _to_review(request: HttpRequest, one: Known, proposal: Proposal) -> HttpResponse:
    name = one.scenario.name
    draft = drafts.keep(request, "rule", {"scenario": name, "keys": proposal.text})
    return redirect(reverse("rules:review", args=[name]) + draft)


@form_of("rules:scenario", "name")
@role_required("read", ADMINS)
def confirm(request: HttpRequest, name: str) -> HttpResponse:
    """Send a proposal to the job; what becomes of it is told on the scenario's page."""
    one = _known(name)
    if one.told is None:
        raise Http404
    try:
        proposal = propose(one, read_overlay(request.POST.get("keys", "")))
    except ScenarioError as refused:
        return _form(request, one, ChangeForm(one, one.present), str(refused), 422)
    form = ConfirmForm(one, data=request.POST)
    if not form.is_valid():
        return _review(request, one, proposal, 422, form)
    given = form.cleaned_data
    if given["base"] != one.told.version:
        again = ConfirmForm(one, proposal, reason=given["reason"])
        return _review(request, one, proposal, 409, again, moved=True)
    assert isinstance(request.user, User)
    try:
        outcome = send(
            one, proposal, given["base"], given["reason"], given["id"], request.user, now_ms()
        )
    except TooMany as error:
        form.add_error(None, str(error))
        return _review(request, one, proposal, 429, form)
    action = "rule.changed" if proposal.keys else "rule.reverted"
    facts = {"reason": given["reason"], "overlay": proposal.text}
    note(Actor.of(request), action, scenario=name, target=name, outcome=outcome, **facts)
    return redirect(reverse("rules:scenario", args=[name]) + "#changes-h")


# ---- what the pages are made of -------------------------------------------------------------


def _known(name: str) -> Known:
    if name not in scenarios():
        raise Http404
    return known(name, now_ms())


def _head(one: Known, now: int) -> dict[str, Any]:
    error = file_now().error
    return {"one": one, "scenario": one.scenario, "now": now, "troubles": troubles(one, error)}


def _states(one: Known) -> list[dict[str, Any]]:
    """Each state with what the present rule says of it, and whether the file says another."""
    now, file = one.present, one.configured
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
    request: HttpRequest, one: Known, form: ChangeForm, error: str, status: int = 200
) -> HttpResponse:
    context = _head(one, now_ms()) | {"form": form, "error": error}
    return render(request, "rules/change.html", context, status=status)


def _review(
    request: HttpRequest,
    one: Known,
    proposal: Proposal,
    status: int = 200,
    form: ConfirmForm | None = None,
    *,
    moved: bool = False,
) -> HttpResponse:
    three = descriptions.compared(one.configured, one.present, proposal.wanted)
    before, after = one.present.to_plain(), proposal.wanted.to_plain()
    changed = {each.key for each in three if before[each.key] != after[each.key]}
    name, text = one.scenario.name, change_text(one, proposal)
    context = _head(one, now_ms()) | {
        "proposal": proposal,
        "compared": [(each, each.key in changed) for each in three],
        "changed": changed or dict(one.keys) != proposal.keys,
        "form": form or ConfirmForm(one, proposal),
        "moved": MOVED if moved else "",
        "what_if": _what_if(name, text),
        "back": f"{reverse('rules:change', args=[name])}{_query(rule=text)}",
    }
    return render(request, "rules/review.html", context, status=status)


def _query(**parts: str) -> str:
    """The end of an address, empty where it would be too long for one."""
    found = urlencode(parts)
    return f"?{found}" if len(found) <= LONGEST_LINK else ""


def _what_if(name: str, text: str = "") -> str:
    """Where a proposal can be tried on the past, empty where there is no such page."""
    try:
        resolve(WHAT_IF)
    except Resolver404:
        return ""
    return WHAT_IF + _query(scenario=name, **({"rule": text} if text else {}))
