"""Requests about agents in the audit."""

from __future__ import annotations

from django.http import HttpRequest

from dashboard.agents.models import MuteRequest
from dashboard.agents.mutes import places_of
from dashboard.audit.log import Actor, note
from domain.scenario import Scenario


def note_mute(request: HttpRequest, scenario: Scenario, ask: MuteRequest) -> None:
    """Log how far a request was sent; its progress stands on the agent's page."""
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
