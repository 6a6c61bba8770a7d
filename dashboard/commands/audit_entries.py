"""Commands in the audit."""

from __future__ import annotations

from django.http import HttpRequest

from dashboard.audit.log import Actor, note
from domain.records import Command
from domain.scenario import Scenario


def note_command(request: HttpRequest, scenario: Scenario, command: Command, outcome: str) -> None:
    """Note what became of a command when it was to be sent; its answer stands with it."""
    note(
        Actor.of(request),
        f"command.{command.kind}",
        scenario=scenario.name,
        target=command.asset,
        outcome=outcome,
        state=command.state or None,
        until=command.until,
        reason=command.reason or None,
        if_version=str(command.if_version) if command.if_version else None,
        command=command.id,
    )
