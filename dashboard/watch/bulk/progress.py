"""A run as the audit and the history of an asset show it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q

from dashboard.core.audit.log import Actor, record
from dashboard.watch.bulk.models import (
    APPLIED,
    NO_CHANGE,
    REFUSED,
    REVIEW,
    SENDING,
    SENT,
    UNSENT,
    Item,
    ItemQuerySet,
    Run,
)
from dashboard.watch.commands.models import Command
from domain import records

# ---- audit ---------------------------------------------------------------------------------------


def log_run(actor: Actor, run: Run, action: str, outcome: str, **facts: Any) -> None:
    """Log what was done to a run: who prepared it, in whose name it goes, how far it has come."""
    record(
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
        assets=run.to_send,
        counts=dict(run.counts),
        **facts,
    )


# ---- asset history -------------------------------------------------------------------------------
# A run's commands in the history of one asset, in the form of commands that are given singly.

# Of a command that a run has given; its `form` holds the run's id.
SOURCE = "bulk"

_STATUS = {SENDING: "sending", SENT: "sent", UNSENT: "unsent"}
_OUTCOME = {APPLIED: records.APPLIED, NO_CHANGE: records.NO_CHANGE}


def commands_of(
    scenario: str, asset: str, before: int | None = None, most: int = 30
) -> list[Command]:
    """Return the runs' commands of an asset that have a place in the log, the newest first.

    before: an offset that they lie before. They are not rows of the table of commands.
    """
    items = _items(scenario, asset).filter(offset__isnull=False)
    if before is not None:
        items = items.filter(offset__lt=before)
    return [_command(item) for item in items.order_by("-offset")[:most]]


def _items(scenario: str, asset: str) -> ItemQuerySet:
    of_scenario = Q(asset=asset, run__scenario=scenario)
    return Item.objects.filter(of_scenario).exclude(run__status=REVIEW).select_related("run")


def _command(item: Item) -> Command:
    run = item.run
    refusal = records.REFUSED + item.text if item.outcome == REFUSED else item.text
    return Command(
        id=UUID(item.command),
        scenario=run.scenario,
        asset=item.asset,
        kind=run.kind,
        state=run.state,
        until=run.until,
        reason=run.reason,
        user=None,
        username=run.sender_of(item.number),
        source=SOURCE,
        created_at=run.started_at or run.created_at,
        status=_STATUS.get(item.outcome, "answered"),
        partition=item.partition,
        offset=item.offset,
        outcome=_OUTCOME.get(item.outcome, refusal),
        version=item.answered_version,
        form=str(run.pk),
    )
