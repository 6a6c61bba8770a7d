"""What is asked about agents, in the audit."""

from __future__ import annotations

from django.http import HttpRequest

from dashboard.agents.models import MuteAsk
from dashboard.agents.mutes import places_of
from dashboard.audit.log import Actor, note
from domain.scenario import Scenario


def note_ask(request: HttpRequest, scenario: Scenario, ask: MuteAsk) -> None:
    """Note how far an ask was sent; what came of it stands on the agent's page."""
    sent, of = len(places_of(ask)), scenario.partitions
    note(
        Actor.of(request),
        f"agent.{ask.kind}d",
        scenario=scenario.name,
        target=ask.agent,
        outcome="sent" if sent == of else f"sent to {sent} of {of}",
        id=str(ask.pk),
        reason=ask.reason,
        until=ask.until,
    )
