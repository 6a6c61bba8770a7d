"""The page that a message links to: the incidents it told of, and a form to acknowledge them, or
what is wrong with agents."""

from __future__ import annotations

from typing import NamedTuple

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard.agents.models import AgentFinding
from dashboard.annotations.acknowledgements import acknowledge
from dashboard.annotations.forms import AckForm
from dashboard.annotations.shifts import shift_ends
from dashboard.audit.log import Actor, note
from dashboard.core.access import refusal, role_required, user_of
from dashboard.core.navigation import OPERATORS
from dashboard.core.paths import agent_path
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import ALLOWED, role_of
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Table
from dashboard.core.times import now_ms
from dashboard.incidents.models import Incident
from dashboard.incidents.queries import Entry, entry_of
from dashboard.notifications.ingestion import finding_of_place
from dashboard.notifications.message_list import MESSAGES, Wanted, page_of_messages
from dashboard.notifications.models import STATUSES, Group
from dashboard.states.queries import listed

MEMBERS = Table("", "Asset", "Scenario", "Began", "Worst", "Now", "Acknowledged")
AGENTS = Table("", "Agent", "Scenario", "Since", "What is wrong", "Now")
MOST_LISTED = 500
"""Most incidents that the page lists, and that are acknowledged at once."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read", among=OPERATORS)
def acknowledge_group(request: HttpRequest, token: str) -> HttpResponse:
    """Return the page of a group; acknowledge those of its incidents that go on."""
    group, user, now = get_object_or_404(Group, token=token), user_of(request), now_ms()
    entries = incidents_of(group, now)
    data = request.POST if request.method == "POST" else None
    form = AckForm(now, shift_ends(user, now), data)
    if data is not None:
        role = role_of(user)
        if role is None or "command" not in ALLOWED[role]:
            return refusal(request, role, "command")
        if form.is_valid() and _acknowledged(request, form, entries):
            return redirect("notifications:acknowledge", token)
    context = {
        "now": now,
        "group": group,
        "form": form,
        "entries": entries,
        "table": MEMBERS,
        "running": sum(entry.row.ended_at is None for entry in entries),
        "agents": [] if entries else agents_of(group),
        "agents_table": AGENTS,
        "found": page_of_messages(Wanted(group=token).rows(), None),
        "messages_table": MESSAGES,
        "statuses": STATUSES,
    }
    status = 422 if form.errors else 200
    return render(request, "notifications/group.html", context, status=status)


def incidents_of(group: Group, now: int) -> list[Entry]:
    """Return the incidents of a group, the newest first, as at a time, Unix ms."""
    members = group.members.order_by("-pk")[:MOST_LISTED]
    found = []
    for member in members:
        row = Incident.objects.filter(
            scenario=member.scenario, asset=member.asset, place=member.place
        ).first()
        if row and row.scenario in scenarios():
            found.append(entry_of(row, now))
    return found


class AgentEntry(NamedTuple):
    """A finding about an agent as the page lists it. title: of its scenario."""

    row: AgentFinding
    title: str
    url: str


def agents_of(group: Group) -> list[AgentEntry]:
    """Return the findings about agents of a group, the newest first."""
    places = group.members.order_by("-pk").values_list("place", flat=True)[:MOST_LISTED]
    numbers = [number for place in places if (number := finding_of_place(place)) is not None]
    rows = AgentFinding.objects.filter(pk__in=listed(numbers), scenario__in=scenarios())
    return [
        AgentEntry(row, scenarios()[row.scenario].title, agent_path(row.scenario, row.agent))
        for row in rows.order_by("-pk")
    ]


def _acknowledged(request: HttpRequest, form: AckForm, entries: list[Entry]) -> bool:
    """Acknowledge what goes on. Returns whether that was possible; else the form says why not."""
    user, data = user_of(request), form.cleaned_data
    assets: dict[str, list[str]] = {}
    for entry in entries:
        if entry.row.ended_at is None:
            assets.setdefault(entry.row.scenario, []).append(entry.row.asset)
    taken: list[str] = []
    try:
        for name, of_scenario in assets.items():
            outcome = acknowledge(
                scenarios()[name], of_scenario, user, data["reason"], data["until"], form.now
            )
            taken += outcome.taken
            _note(request, name, outcome.taken, data["until"], data["reason"])
    except TooMany as why:
        form.add_error(None, str(why))
        return False
    count = len(taken)
    if count:
        messages.success(request, f"Acknowledged: {', '.join(taken[:5])}{_more(count - 5)}.")
    else:
        messages.info(request, "Nothing to acknowledge: it is over.")
    return True


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _note(request: HttpRequest, scenario: str, assets: list[str], until: int, reason: str) -> None:
    if assets:
        target = assets[0] if len(assets) == 1 else f"{len(assets)} assets"
        note(
            Actor.of(request), "asset.acknowledged", scenario=scenario, target=target,
            assets=assets, until=until, reason=reason, by="a notification's link",
        )  # fmt: skip
