"""The page of all agents, and the page of one: its figures, muting it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor
from dashboard.core.common.access import (
    OPERATORS,
    TooMany,
    form_of,
    is_fragment,
    may,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.forms import scenario_links
from dashboard.core.common.navigation import agent_path, render_page
from dashboard.core.common.scenarios import scenario_or_404, scenario_or_first
from dashboard.core.common.times import now_ms
from dashboard.watch.agents import mutes
from dashboard.watch.agents.forms import FORMS, MuteForm, MuteSeveralForm, UnmuteForm
from dashboard.watch.agents.models import MuteIdTaken, MuteRequest
from dashboard.watch.agents.statistics import (
    AGENTS,
    CAUSED,
    DIFFERING,
    MOST,
    caused,
    differing,
    listed,
    one,
)
from domain.names import USER_PREFIX, name_ok
from domain.records import MAX_MUTED
from domain.scenario import Scenario


@require_safe
@never_cache
@role_required("read", OPERATORS)
@takes("scenario")
def agents(request: HttpRequest) -> HttpResponse:
    """Return the page of a scenario's agents; scripts get only the part that refreshes."""
    return _list_page(request, scenario_or_first(request.GET.get("scenario", "")))


@form_of("agents:agents")
@role_required("command")
def mute_several(request: HttpRequest, scenario: str) -> HttpResponseBase:
    """Mute the chosen agents in every partition of the scenario."""
    known, user, now = scenario_or_404(scenario), user_of(request), now_ms()
    held = mutes.mutes(known, now)
    form = _several_form(known, held, now, request.POST)
    if not form.is_valid():
        return _list_page(request, known, form, 422)
    records = list(form.records(user.get_username(), now))
    if len(held.keys() | {each.agent for each in records}) > MAX_MUTED:
        form.add_error(None, f"At most {MAX_MUTED} agents of {known.title} are muted at once.")
        return _list_page(request, known, form, 422)
    try:
        for record in records:
            ask = MuteRequest.objects.keep(known.name, record, user, now)
            mutes.send(known, ask, Actor.of(request))
    except (TooMany, MuteIdTaken) as error:
        form.add_error(None, f"{record.agent} and those after it are not muted: {error}")
        return _list_page(request, known, form, 422)
    messages.success(request, f"Muted: {', '.join(each.agent for each in records)}.")
    return redirect(f"{reverse('agents:agents')}?scenario={known.name}")


def _several_form(
    scenario: Scenario, held: Collection[str], now: int, data: Any = None
) -> MuteSeveralForm:
    """Return the form with the listed agents that are not muted."""
    rows, _ = listed(scenario, mutes.mutes(scenario, now), now)
    return MuteSeveralForm([row.agent for row in rows if row.agent not in held], data)


def _list_page(
    request: HttpRequest, scenario: Scenario, form: MuteSeveralForm | None = None, status: int = 200
) -> HttpResponse:
    now = now_ms()
    held = mutes.mutes(scenario, now)
    rows, total = listed(scenario, held, now)
    address = f"{reverse('agents:agents')}?scenario={scenario.name}"
    context = {
        "now": now,
        "scenario": scenario,
        "choices": scenario_links(scenario),
        "table": AGENTS,
        "rows": rows,
        "more": total - len(rows),
        "most": MOST,
        "muted": len(held),
        "faulty": sum(bool(row.faults) for row in rows),
        "address": request.get_full_path() if request.method == "GET" else address,
        "form": form,
        "refused": form is not None,
    }
    if form is None and rows and may(request.user, "command") and not is_fragment(request):
        context["form"] = _several_form(scenario, held, now)
    return render_page(request, "agents/agents", context, status=status)


@require_safe
@never_cache
@role_required("read", OPERATORS)
@takes("do")
def agent(request: HttpRequest, scenario: str, agent: str) -> HttpResponse:
    """Return the page of one agent; scripts get only the part that refreshes."""
    return _page(request, scenario_or_404(scenario), agent)


@form_of("agents:agent", "scenario", "agent")
@role_required("command")
def mute(request: HttpRequest, scenario: str, agent: str) -> HttpResponseBase:
    """Mute an agent in every partition of the scenario."""
    return _ask(request, scenario_or_404(scenario), agent, MuteForm(request.POST))


@form_of("agents:agent", "scenario", "agent")
@role_required("command")
def unmute(request: HttpRequest, scenario: str, agent: str) -> HttpResponseBase:
    """Unmute an agent."""
    return _ask(request, scenario_or_404(scenario), agent, UnmuteForm(request.POST))


@form_of("agents:agent", "scenario", "agent")
@role_required("command")
def again(request: HttpRequest, scenario: str, agent: str) -> HttpResponseBase:
    """Send the newest request to the partitions that have not confirmed it.

    If it is another user's request, send it to all partitions, in this user's own name.
    """
    known = scenario_or_404(scenario)
    newest = MuteRequest.objects.newest_about(known.name, agent)
    if newest is None:
        raise Http404
    if not newest.is_sent:
        try:
            ask = newest.in_name_of(user_of(request), now_ms())
        except TooMany as error:
            messages.error(request, str(error))
            return redirect(agent_path(known.name, agent))
        mutes.send(known, ask, Actor.of(request))
    return redirect(f"{agent_path(known.name, agent)}#mute-request")


def _ask(
    request: HttpRequest, scenario: Scenario, agent: str, form: UnmuteForm
) -> HttpResponseBase:
    now, user = now_ms(), request.user
    if not form.is_valid():
        return _page(request, scenario, agent, form, 422)
    _check_muteable(scenario, agent, now)
    if form.do == "mute" and _full(scenario, agent, now):
        form.add_error(None, f"{MAX_MUTED} agents of {scenario.title} are muted already.")
        return _page(request, scenario, agent, form, 422)
    try:
        record = form.record(agent, user.get_username(), now)
        ask = MuteRequest.objects.keep(scenario.name, record, user, now)  # type: ignore[arg-type]
    except (TooMany, MuteIdTaken) as error:
        form.add_error(None, str(error))
        return _page(request, scenario, agent, form, 422)
    mutes.send(scenario, ask, Actor.of(request))
    return redirect(f"{agent_path(scenario.name, agent)}#mute-request")


def _full(scenario: Scenario, agent: str, now: int) -> bool:
    held = mutes.mutes(scenario, now)
    return agent not in held and len(held) >= MAX_MUTED


def _check_muteable(scenario: Scenario, agent: str, now: int) -> None:
    """Raise Http404 unless the agent is known, so that its name is one that can be muted."""
    if not name_ok(agent) or agent.startswith(USER_PREFIX):
        raise Http404
    if one(scenario, agent, mutes.mutes(scenario, now), now) is None:
        raise Http404


def _page(
    request: HttpRequest,
    scenario: Scenario,
    agent: str,
    form: UnmuteForm | None = None,
    status: int = 200,
) -> HttpResponse:
    now = now_ms()
    held = mutes.mutes(scenario, now) if name_ok(agent) else {}
    row = one(scenario, agent, held, now) if name_ok(agent) else None
    if row is None:
        raise Http404
    newest = MuteRequest.objects.newest_about(scenario.name, agent)
    context: dict[str, Any] = {
        "now": now,
        "scenario": scenario,
        "row": row,
        "differing": differing(scenario, agent),
        "differing_table": DIFFERING,
        "caused": caused(scenario, agent),
        "caused_table": CAUSED,
        "mute_request": newest,
        "muted": row.held or (newest and newest.mutes(now)),
        "partitions": scenario.partitions,
        "address": row.url,
    }
    if is_fragment(request):
        return render(request, "agents/_agent.html", context)
    if may(request.user, "command"):
        opened = form.do if form is not None else request.GET.get("do", "")
        forms = {
            do: form if form is not None and form.do == do else made() for do, made in FORMS.items()
        }
        if opened in forms:
            forms[opened].fields["reason"].widget.attrs["autofocus"] = True
        context |= {"forms": list(forms.values()), "open": opened}
    return render(request, "agents/agent.html", context, status=status)
