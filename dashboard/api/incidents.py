"""The operations on incidents: their list, and one of them with its timeline."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

from typing import Any, Literal

from ninja import Query, Schema

from dashboard.api.auth import ApiRequest
from dashboard.api.problems import Problem
from dashboard.api.router import READ, OperationRouter, known_scenario
from dashboard.api.schemas import NO_NUL
from dashboard.core.scenarios import scenarios
from dashboard.incidents.models import real
from dashboard.incidents.queries import NEWEST, Wanted, entry_of, plain
from dashboard.incidents.timeline import timeline
from domain.names import MAX_NAME, MAX_STATE
from wire.source import MAX_TIME

MAX_NUMBER = 2**63 - 1

router = OperationRouter()


class IncidentOut(Schema):
    """An asset's unbroken time outside its good states. worst: the most severe state of it; state:
    the newest; ended_at, duration_ms: null while it goes on. Times in Unix ms."""

    id: int
    scenario: str
    asset: str
    worst: str
    state: str
    began_at: int
    ended_at: int | None
    duration_ms: int | None
    changes: int
    acknowledged_at: int | None
    acknowledged_by: str


class MomentOut(Schema):
    """A change of its state, an acknowledgement or a note. at: Unix ms; who: of the last two."""

    at: int
    kind: str
    state: str
    who: str
    text: str


class TimelineOut(IncidentOut):
    """An incident with what happened during it."""

    timeline: list[MomentOut]


class IncidentsOut(Schema):
    """Incidents, the newest first; next: `before` of the next page, or null."""

    items: list[IncidentOut]
    next: int | None


Moment = Query(None, ge=0, le=MAX_TIME)


@router.operation("GET incidents", IncidentsOut, "read", *READ)
def list_incidents(
    request: ApiRequest,
    scenario: str = Query("", max_length=40, pattern=NO_NUL),
    status: Literal["", "open", "unacknowledged", "acknowledged", "ended"] = "",
    worst: str = Query("", max_length=MAX_STATE, pattern=NO_NUL),
    q: str = Query("", max_length=MAX_NAME, pattern=NO_NUL, description="A part of the name."),
    start: int | None = Moment,
    end: int | None = Moment,
    before: int | None = Query(None, ge=0, le=MAX_NUMBER, description="Only older ones."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:
    """Incidents that were going on at some time between `start` and `end`, the newest first."""
    if scenario:
        known_scenario(scenario)
    rows = Wanted((scenario,) if scenario else (), q, worst, status, start, end).rows()
    ordered = NEWEST.of(rows) if before is None else NEWEST.after_number(rows, before)
    found = list(ordered[: limit + 1])
    following = found[limit - 1].pk if len(found) > limit else None
    return {"items": [plain(row) for row in found[:limit]], "next": following}


@router.operation("GET incidents/{number}", TimelineOut, "read", *READ)
def get_incident(request: ApiRequest, number: int) -> Any:
    """One incident, with its timeline."""
    row = real().filter(scenario__in=scenarios(), pk=number).first() if _fits(number) else None
    if row is None:
        raise Problem(404, "unknown-incident", f"There is no incident {number}.")
    moments = [moment._asdict() for moment in timeline(entry_of(row))]
    return plain(row) | {"timeline": moments}


def _fits(number: int) -> bool:
    return 0 <= number <= MAX_NUMBER
