"""Storing events of incidents and agents, and task runs that notify, for the rules, and changes of
incidents for the channels: nothing that is committed is missed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from django.db.models import Q

from dashboard.core.common.sql import insert_many
from dashboard.core.common.times import MINUTE_MS, now_ms
from dashboard.core.states.ingestion import BatchChanges
from dashboard.core.states.queries import listed
from dashboard.core.states.rows import ReadableRecord
from dashboard.notify.notifications.channels import CHANNELS
from dashboard.notify.notifications.models import (
    AgentEvent,
    Channel,
    Group,
    GroupIncident,
    TaskNotice,
)
from dashboard.notify.notifications.outbox import put, targets_of_channel
from dashboard.notify.notifications.texts import change_draft
from dashboard.watch.agents.models import AgentFinding
from dashboard.watch.annotations.row_marks import RowMark
from dashboard.watch.incidents.ingestion import IncidentChange
from dashboard.watch.incidents.models import Case
from domain.notifications.events import (
    AGENT_DOUBTED,
    AGENT_LATE,
    AGENT_REFUSED,
    AGENT_SILENT,
    BEGUN,
    ENDED,
    WITHDRAWN,
)
from wire.sink import StateValue

LATE_MS = 15 * MINUTE_MS
"""A change stored this long after it happened comes from a replay, or follows an outage."""
SETTLED_MS = 2 * MINUTE_MS
"""How long the rules wait with a late change: what a replay ends in that time is not reported."""
STORED = (
    *("kind", "scenario", "asset", "place", "incident", "at", "began_at", "state", "worst"),
    *("recorded_at", "due_at", "outcome"),
)
AGENT_KIND_OF: Mapping[str, str] = {
    "refused": AGENT_REFUSED,
    "silent": AGENT_SILENT,
    "contradiction": AGENT_DOUBTED,
    "ahead": AGENT_DOUBTED,
    "purged": AGENT_DOUBTED,
    "behind": AGENT_LATE,
    "late": AGENT_LATE,
}
"""The rules' name for each kind of finding about an agent."""
AGENT_PLACE = "agent/"
"""The prefix of the place of a finding about an agent; its number follows."""
_KNOWN = "ON CONFLICT (scenario, asset, place, kind) DO NOTHING"


def ingest_incidents(changes: Iterable[IncidentChange], now: int, **_: Any) -> None:
    """Store what happened to incidents, in the transaction that stores the incidents.

    Events already stored, which a rebuild brings again, are left as they are.
    """
    rows = [_row(change, now) for change in changes]
    insert_many("notifications_incidentevent", STORED, rows, _KNOWN)


def _row(change: IncidentChange, now: int) -> tuple[Any, ...]:
    return (
        change.kind,
        change.scenario,
        change.asset,
        change.place,
        change.incident,
        change.at,
        change.began_at,
        change.state,
        change.worst,
        now,
        due_at(change.kind, change.at, now),
        "",
    )


def due_at(kind: str, at: int, now: int) -> int:
    """Return when the rules handle an event of the time `at` that is stored at `now`, Unix ms."""
    if kind == WITHDRAWN:
        return now + LATE_MS
    return now + SETTLED_MS if kind != ENDED and is_late(at, now) else now


def is_late(at: int, stored_at: int) -> bool:
    """Return whether a change was stored long after it happened."""
    return stored_at - at > LATE_MS


def ingest_changes(changes: BatchChanges) -> None:
    """Store the task runs in a batch that notify."""
    ingest_task_runs(changes.tasks, changes.now)


def ingest_task_runs(records: Iterable[tuple[str, ReadableRecord]], now: int) -> None:
    """Store the task runs that notify, in the transaction that stores their records.

    records: those with tasks. Runs already stored, which a rebuild brings again, are left as they
    are.
    """
    notices = [notice for scenario, seen in records if (notice := _notice(scenario, seen, now))]
    TaskNotice.objects.bulk_create(notices, ignore_conflicts=True)


def _notice(scenario: str, seen: ReadableRecord, now: int) -> TaskNotice | None:
    """Return the task run in a record if it notifies, otherwise None."""
    shape = seen.shape
    if not isinstance(shape, StateValue) or not shape.notify:
        return None
    task = next((each for each in shape.tasks if each.id == shape.cause.command), None)
    if task is None:
        return None
    return TaskNotice(
        scenario=scenario,
        asset=seen.asset,
        place=seen.place,
        task=UUID(task.id),
        owner=task.user,
        reason=task.reason,
        state=seen.state,
        condition=task.condition or "",
        at=shape.cause.time,
        recorded_at=now,
        due_at=now,
    )


def ingest_findings(
    begun: Sequence[AgentFinding], ended: Sequence[AgentFinding], now: int, **_: Any
) -> None:
    """Store which findings about agents began and ended, in the transaction that stores the
    findings."""
    events = [agent_event(row, BEGUN, row.since, now) for row in begun]
    events += [agent_event(row, ENDED, row.ended_at or now, now) for row in ended]
    AgentEvent.objects.bulk_create(events, ignore_conflicts=True)


def agent_event(row: AgentFinding, kind: str, at: int, now: int) -> AgentEvent:
    """Return the begin or end event of a finding. at: when it was; now: when stored; Unix ms."""
    return AgentEvent(
        scenario=row.scenario,
        agent=row.agent,
        kind=kind,
        finding=AGENT_KIND_OF[row.kind],
        place=f"{AGENT_PLACE}{row.pk}",
        words=row.words,
        at=at,
        recorded_at=now,
    )


def finding_of_place(place: str) -> int | None:
    """Return the number of the finding that a place identifies; None for an incident's place."""
    number = place.removeprefix(AGENT_PLACE)
    return int(number) if number != place else None


def ingest_case_change(case: int, kind: str, by: str, text: str, now: int, **_: Any) -> None:
    """Store a message on what somebody did to a case for each channel that sends such changes, in
    the transaction that stores the change.

    Each message has an id of its own, as the conversation is that of all channels.
    """
    channels = list(Channel.objects.of_changes().filter(kind__in=CHANNELS))
    if not channels:
        return
    draft = change_draft(Case.objects.get(pk=case), kind, by, text, now)
    for target in (each for channel in channels for each in targets_of_channel(channel)):
        put(target, replace(draft, id=uuid4()), now)


def recheck_groups(scenario: str, marks: Iterable[RowMark], **_: Any) -> None:
    """Make the rules look at the open groups of these assets, as acknowledgements have changed."""
    assets = [mark.asset for mark in marks]
    if assets:
        members = GroupIncident.objects.filter(
            scenario=scenario, asset__in=listed(assets), group__closed_at=None
        )
        now = now_ms()
        groups = Group.objects.open().filter(pk__in=members.values("group"))
        groups.filter(Q(next_at=None) | Q(next_at__gt=now)).update(next_at=now)
