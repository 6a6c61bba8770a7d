"""Commands in the audit."""

from __future__ import annotations

from dashboard.audit.log import Actor, note
from domain.records import Command
from domain.scenario import Scenario


def note_command(actor: Actor, scenario: Scenario, command: Command, outcome: str) -> None:
    """Log what became of a command when it was to be sent; its answer stands with it."""
    note(
        actor,
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
