"""Runs in the audit."""

from __future__ import annotations

from typing import Any

from dashboard.audit.log import Actor, note
from dashboard.bulk.models import Run
from dashboard.bulk.run_progress import progress_of


def note_run(actor: Actor, run: Run, action: str, outcome: str, **facts: Any) -> None:
    """Log what was done to a run: who prepared it, in whose name it goes, how far it has come."""
    progress = progress_of(run)
    note(
        actor,
        action,
        scenario=run.scenario,
        target=str(run.pk),
        outcome=outcome,
        kind=run.kind,
        state=run.state or None,
        reason=run.reason,
        chosen=run.chosen,
        prepared_by=run.username,
        sent_as=run.sender_name,
        assets=progress.will,
        counts=dict(progress.counts),
        **facts,
    )
