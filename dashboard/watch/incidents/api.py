"""API operations on incidents and maintenance windows."""

# ruff: noqa: ARG001

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Annotated, Any, Literal

from django.contrib.auth.models import User
from ninja import Query, Schema
from pydantic import Field

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import (
    READ,
    WRITE,
    ApiRequest,
    Filtered,
    OperationRouter,
    filtered,
    known_scenario,
)
from dashboard.core.api.schemas import NO_NUL, StrictSchema, fields_of
from dashboard.core.audit.log import Actor
from dashboard.core.common.access import OPERATORS, role_of
from dashboard.core.common.times import HOUR_MS, now_ms, utc_datetime
from dashboard.core.states.filter_parser import MAX_TEXT
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.models import MAX_WORK
from dashboard.watch.incidents import cases, report
from dashboard.watch.incidents.models import (
    ALL,
    FILTER,
    LISTED,
    LONGEST_MS,
    MAX_ENTRY,
    MAX_TICKET,
    MAX_WHY,
    MOST_ASSETS,
    Case,
    Window,
    WindowRefused,
    messages_about,
)
from dashboard.watch.incidents.queries import (
    MOST_MEMBERS,
    CaseFilterForm,
    CaseList,
    IncidentFilterForm,
    IncidentList,
)
from dashboard.watch.incidents.windows import EVERY, WindowFilterForm, WindowForm, WindowList
from domain.names import MAX_NAME, MAX_STATE
from wire.source import MAX_TIME

# ---- incidents -----------------------------------------------------------------------------------
# Operations on incidents: their list, one with its assets and timeline, and each time of an asset.

# Each operation takes the request and declares its parameters in its signature.


MAX_NUMBER = 2**63 - 1

Asset = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=NO_NUL)]

router = OperationRouter()


class IncidentOut(Schema):
    """What people work on. number: as they say it, `INC-1042`; status: open, acknowledged or
    resolved; owner, ticket: empty without one; subject: its asset, or how many; going_on: how many
    of its assets' troubles have not ended; ended_at: null until all have; resolved_by: empty if all
    assets were good again. Times in Unix ms."""

    id: int
    number: str
    scenario: str
    status: str
    owner: str
    ticket: str
    subject: str
    assets: int
    going_on: int
    worst: str
    began_at: int
    ended_at: int | None
    acknowledged_at: int | None
    acknowledged_by: str
    resolved_at: int | None
    resolved_by: str


class AssetTimeOut(Schema):
    """An asset's unbroken time outside its good states. case_id: the incident that it is of; worst:
    the most severe state of it; state: the newest; ended_at, duration_ms: null while it goes on.
    Times in Unix ms."""

    id: int
    case_id: int | None
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


@fields_of(report.Moment)
class MomentOut(Schema):
    """A change of an asset's state, or what somebody did. at: Unix ms; asset: empty for all."""


@fields_of(report.WorstVote)
class WorstVoteOut(Schema):
    """A vote when its asset entered the worst of its states. figures: what the agent measured."""


class OneIncidentOut(IncidentOut):
    """An incident with its assets, those that began first, the votes at their worst, and what
    happened."""

    members: list[AssetTimeOut]
    worst_votes: list[WorstVoteOut]
    timeline: list[MomentOut]


class IncidentsOut(Schema):
    """Incidents, the newest first; next: `before` of the next page, or null."""

    items: list[IncidentOut]
    next: int | None


class AssetTimesOut(Schema):
    """Times of assets, the newest first; next: `before` of the next page, or null."""

    items: list[AssetTimeOut]
    next: int | None


Moment = Query(None, ge=0, le=MAX_TIME)


@router.operation("GET incidents", IncidentsOut, "read", *READ)
def list_incidents(
    request: ApiRequest,
    scenario: str = Query("", max_length=40, pattern=NO_NUL),
    status: Literal["", "unresolved", "open", "acknowledged", "resolved"] = "",
    owner: str = Query("", max_length=150, pattern=NO_NUL, description="- for nobody."),
    q: str = Query("", max_length=MAX_NAME, pattern=NO_NUL, description="Number, ticket or asset."),
    filter: str = Filtered,  # noqa: A002 - the parameter's name
    before: int | None = Query(None, ge=0, le=MAX_NUMBER, description="Only older ones."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:
    """Incidents as people work on them, the newest first."""
    if scenario:
        known_scenario(scenario)
    narrower = {"scenario": scenario, "status": status, "owner": owner, "word": q}
    rows = filtered(CaseFilterForm, filter, **narrower)
    return CaseList().answer(rows, limit, before)


@router.operation("GET incidents/assets", AssetTimesOut, "read", *READ)
def list_incidents_by_asset(
    request: ApiRequest,
    scenario: str = Query("", max_length=40, pattern=NO_NUL),
    status: Literal["", "open", "unacknowledged", "acknowledged", "ended"] = "",
    worst: str = Query("", max_length=MAX_STATE, pattern=NO_NUL),
    q: str = Query("", max_length=MAX_NAME, pattern=NO_NUL, description="A part of the name."),
    start: int | None = Moment,
    end: int | None = Moment,
    filter: str = Filtered,  # noqa: A002 - the parameter's name
    before: int | None = Query(None, ge=0, le=MAX_NUMBER, description="Only older ones."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:
    """Each time that an asset was in trouble between `start` and `end`, the newest first."""
    if scenario:
        known_scenario(scenario)
    narrower = {"scenario": scenario, "status": status, "worst": worst, "word": q}
    rows = filtered(IncidentFilterForm, filter, **narrower).within(start, end)
    return IncidentList().answer(rows, limit, before)


Text = Field("", max_length=MAX_WHY, pattern=NO_NUL)


class TicketClosedIn(StrictSchema):
    """A ticket that was closed elsewhere; text: what to note with it."""

    ticket: str = Field(min_length=1, max_length=MAX_TICKET, pattern=NO_NUL)
    text: str = Text


class NumbersOut(Schema):
    """The numbers of incidents."""

    numbers: list[str]


@router.operation("POST incidents/ticket-closed", NumbersOut, "command", 409, *WRITE)
def note_closed_ticket(request: ApiRequest, given: TicketClosedIn) -> Any:
    """Note on the timelines of the incidents with a ticket that it was closed elsewhere."""
    with _refusals():
        noted = cases.note_closed_ticket(given.ticket, request.auth, given.text, now_ms())
    for case in noted:
        cases.log(case, Actor.of(request), "ticket-closed", **given.dict())
    return {"numbers": [case.number for case in noted]}


@router.operation("GET incidents/{number}", OneIncidentOut, "read", *READ)
def get_incident(request: ApiRequest, number: int) -> Any:
    """One incident, with its assets and its timeline."""
    return _plain(_known_case(number), role_of(request.auth) in OPERATORS)


class AckAllIn(StrictSchema):
    """What is being done, and until when (Unix ms, within seven days); null for an hour."""

    reason: str = Text
    until: int | None = Field(None, ge=0, le=MAX_TIME)


class OwnerIn(StrictSchema):
    """Whom an incident is handed over to, empty for nobody; text: what to know."""

    owner: str = Field(max_length=150, pattern=NO_NUL)
    text: str = Text


class NoteIn(StrictSchema):
    """A note."""

    text: str = Field(min_length=1, max_length=MAX_ENTRY, pattern=NO_NUL)


class TicketIn(StrictSchema):
    """The reference of a ticket elsewhere; empty for none."""

    ticket: str = Field(max_length=MAX_TICKET, pattern=NO_NUL)


class MergeIn(StrictSchema):
    """The id of the incident that another one is merged into."""

    into: int = Field(ge=0, le=MAX_NUMBER)


class SplitIn(StrictSchema):
    """The assets that become an incident of their own."""

    assets: list[Asset] = Field(min_length=1, max_length=MOST_ASSETS)


class ResolutionIn(StrictSchema):
    """Why an incident is resolved, or opened again."""

    text: str = Text


@router.operation("POST incidents/{number}/acknowledge", IncidentOut, "command", 409, *WRITE)
def acknowledge_incident(request: ApiRequest, number: int, given: AckAllIn) -> Any:
    """Acknowledge all assets of an incident that are in trouble."""
    case, now = _known_case(number), now_ms()
    until = now + HOUR_MS if given.until is None else given.until
    if not now < until <= now + acknowledgements.LONGEST_MS:
        raise invalid("until", "a future time within seven days, Unix milliseconds")
    with _refusals():
        assets = cases.acknowledge(case, request.auth, given.reason, until, now)
    facts = {"until": until, "reason": given.reason, "assets": assets}
    return _changed(request, case, "acknowledged", facts)


@router.operation("PUT incidents/{number}/owner", IncidentOut, "command", 409, *WRITE)
def hand_incident_over(request: ApiRequest, number: int, given: OwnerIn) -> Any:
    """Hand an incident over to a colleague, or to nobody."""
    case = _known_case(number)
    with _refusals():
        cases.hand_over(case, request.auth, given.owner, given.text, now_ms())
    return _changed(request, case, "owner", given.dict())


@router.operation("POST incidents/{number}/notes", IncidentOut, "command", 409, *WRITE)
def write_incident_note(request: ApiRequest, number: int, given: NoteIn) -> Any:
    """Write a note on an incident."""
    case = _known_case(number)
    with _refusals():
        cases.write_note(case, request.auth, given.text, now_ms())
    return _changed(request, case, "note", given.dict())


@router.operation("PUT incidents/{number}/ticket", IncidentOut, "command", 409, *WRITE)
def set_incident_ticket(request: ApiRequest, number: int, given: TicketIn) -> Any:
    """Set the reference of an incident's ticket."""
    case = _known_case(number)
    with _refusals():
        cases.set_ticket(case, request.auth, given.ticket, now_ms())
    return _changed(request, case, "ticket", given.dict())


@router.operation("POST incidents/{number}/resolve", IncidentOut, "command", 409, *WRITE)
def resolve_incident(request: ApiRequest, number: int, given: ResolutionIn) -> Any:
    """Resolve an incident, whatever state its assets are in."""
    case = _known_case(number)
    with _refusals():
        cases.resolve(case, request.auth, given.text, now_ms())
    return _changed(request, case, "resolved", given.dict())


@router.operation("POST incidents/{number}/reopen", IncidentOut, "command", 409, *WRITE)
def reopen_incident(request: ApiRequest, number: int, given: ResolutionIn) -> Any:
    """Open a resolved incident again."""
    case = _known_case(number)
    with _refusals():
        cases.reopen(case, request.auth, given.text, now_ms())
    return _changed(request, case, "reopened", given.dict())


@router.operation("POST incidents/{number}/merge", IncidentOut, "command", 409, *WRITE)
def merge_incident(request: ApiRequest, number: int, given: MergeIn) -> Any:
    """Merge an incident into another one, which is returned."""
    case, into = _known_case(number), _known_case(given.into)
    with _refusals():
        cases.merge(case, request.auth, into, now_ms())
    cases.log(case, Actor.of(request), "merged", into=into.number)
    return CaseList().plain(_known_case(into.pk))


@router.operation("POST incidents/{number}/split", IncidentOut, "command", 409, *WRITE)
def split_incident(request: ApiRequest, number: int, given: SplitIn) -> Any:
    """Make some assets of an incident one of their own, which is returned."""
    case = _known_case(number)
    with _refusals():
        own = cases.split(case, request.auth, given.assets, now_ms())
    cases.log(case, Actor.of(request), "split", off=own.number, assets=given.assets)
    return CaseList().plain(_known_case(own.pk))


@contextmanager
def _refusals() -> Iterator[None]:
    """Answer what is refused within it with Problem 409."""
    try:
        yield
    except cases.CaseRefused as error:
        raise Problem(409, "not-now", str(error)) from error


def _changed(request: ApiRequest, case: Case, action: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Record a change in the audit, and return the incident as it is now."""
    cases.log(case, Actor.of(request), action, **facts)
    return CaseList().plain(_known_case(case.pk))


def _plain(case: Case, with_messages: bool) -> dict[str, Any]:
    members = list(case.members[:MOST_MEMBERS])
    notified = messages_about(members) if with_messages else ()
    return CaseList().plain(case) | {
        "members": [IncidentList().plain(each) for each in members],
        "worst_votes": report.worst_votes(members),
        "timeline": report.timeline(members, case, notified),
    }


def _known_case(number: int) -> Case:
    """Return an incident. Raises Problem 404."""
    row = Case.objects.shown().filter(pk=number).first() if _fits(number) else None
    if row is None:
        raise Problem(404, "unknown-incident", f"There is no incident {number}.")
    return row


def _fits(number: int) -> bool:
    return 0 <= number <= MAX_NUMBER


# ---- maintenance ---------------------------------------------------------------------------------
# Operations on maintenance windows: list, read, plan, end, cancel.

# Each operation takes the request and declares its parameters in its signature.


LATEST = 4_102_444_800_000
"""Latest time of a window, Unix ms; whether it is too far ahead is checked later."""


class WindowIn(StrictSchema):
    """A window. It covers what `filter` finds (names and labels alone), or `assets`, or `all`: one
    of them is given. begin: null for now; end: or `duration_ms` in its place. Times in Unix ms.
    weekly_until: with it, such windows begin every `weekly_every` weeks up to that day, by the
    clocks of `weekly_zone`, but not on the days of `weekly_without`."""

    name: str = Field(min_length=1, max_length=MAX_WORK, pattern=NO_NUL)
    scenario: str = Field("", max_length=40, pattern=NO_NUL)
    filter: str | None = Field(None, max_length=MAX_TEXT, pattern=NO_NUL)
    assets: list[Asset] | None = Field(None, max_length=MOST_ASSETS)
    all: Literal[True] | None = None
    begin: int | None = Field(None, ge=0, le=LATEST)
    end: int | None = Field(None, ge=0, le=LATEST)
    duration_ms: int | None = Field(None, ge=1, le=LONGEST_MS)
    why: str = Field("", max_length=MAX_WHY, pattern=NO_NUL)
    excluded: bool = True
    held: bool = True
    weekly_until: date | None = None
    weekly_every: int = Field(1, ge=1, le=12)
    weekly_zone: str = Field("", max_length=64, pattern=NO_NUL)
    weekly_without: list[date] = Field([], max_length=60)


class WindowOut(Schema):
    """A window. excluded: availability leaves its time out; held: notifications are held back while
    it runs; assets: those that it lists. Times in Unix ms."""

    id: int
    name: str
    why: str
    scenario: str
    covers: str
    filter: str
    assets: list[str]
    begin: int
    end: int
    planned_end: int
    excluded: bool
    held: bool
    status: str
    username: str
    created_at: int
    ended_by: str
    cancelled_at: int | None
    cancelled_by: str


class WindowsOut(Schema):
    """Windows, the newest entries first; next: `before` of the next page, or null."""

    items: list[WindowOut]
    next: int | None


@router.operation("GET maintenance", WindowsOut, "read", *READ)
def list_maintenance(
    request: ApiRequest,
    scenario: str = Query("", max_length=40, pattern=NO_NUL),
    status: Literal["", "running", "planned", "ended", "cancelled"] = "",
    q: str = Query("", max_length=MAX_WORK, pattern=NO_NUL, description="A part of the name."),
    filter: str = Filtered,  # noqa: A002 - the parameter's name
    before: int | None = Query(None, ge=0, le=MAX_NUMBER, description="Only older entries."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:
    """Maintenance windows, the newest entries first; those over all scenarios are among each."""
    if scenario:
        known_scenario(scenario)
    rows = filtered(WindowFilterForm, filter, scenario=scenario, word=q, status=status)
    return WindowList().answer(rows, limit, before)


@router.operation("GET maintenance/{number}", WindowOut, "read", *READ)
def get_maintenance(request: ApiRequest, number: int) -> Any:
    """One maintenance window."""
    return WindowList().plain(_known(number))


@router.operation("POST maintenance", WindowOut, "command", 409, *WRITE)
def plan_maintenance(request: ApiRequest, given: WindowIn) -> Any:
    """Plan maintenance, or begin it now. Of windows that recur the first is returned."""
    if given.scenario:
        known_scenario(given.scenario)
    form = WindowForm(now_ms(), _typed(given))
    saved = form.save(request.auth) if form.is_valid() else None
    if saved is None:
        raise _refusal(form)
    saved.log(Actor.of(request), "maintenance.planned")
    return WindowList().plain(saved)


@router.operation("POST maintenance/{number}/end", WindowOut, "command", 409, *READ)
def end_maintenance(request: ApiRequest, number: int) -> Any:
    """End a window that runs, now."""
    return _do(request, number, Window.end_early, "maintenance.ended")


@router.operation("DELETE maintenance/{number}", WindowOut, "command", 409, *READ)
def cancel_maintenance(request: ApiRequest, number: int, following: bool = False) -> Any:
    """Cancel a window: it counts as if it had never been. following: those planned with it that
    come after it, too."""
    change = Window.cancel_all if following else Window.cancel
    return _do(request, number, change, "maintenance.cancelled")


def _typed(given: WindowIn) -> dict[str, Any]:
    """Return a body as input for the page's form. Raises Problem 422."""
    if (given.end is None) is (given.duration_ms is None):
        raise invalid("end", "expected either end or duration_ms")
    covers = _covered(given)
    begin = now_ms() if given.begin is None else given.begin
    end = begin + given.duration_ms if given.duration_ms is not None else given.end
    assert end is not None
    others = {"all", "assets", "begin", "end", "duration_ms", "weekly_without", "filter"}
    typed = given.dict(exclude=others) | {"covers": covers, "filter": given.filter or ""}
    typed["scenario"] = given.scenario or EVERY
    typed["weekly_without"] = ", ".join(map(str, given.weekly_without))
    typed["assets"] = "\n".join(given.assets or ())
    return typed | {"begin": utc_datetime(begin), "end": utc_datetime(end)}


def _covered(given: WindowIn) -> str:
    """Return which assets a body covers. Raises Problem 422: nothing given is not everything."""
    named = {FILTER: given.filter, LISTED: given.assets, ALL: given.all}
    chosen = [covers for covers, value in named.items() if value is not None]
    if chosen == [FILTER] and not (given.filter or "").strip():
        raise invalid("filter", 'names and labels; "all": true covers all assets')
    if chosen == [LISTED] and not given.assets:
        raise invalid("assets", 'at least one name; "all": true covers all assets')
    if len(chosen) != 1:
        raise invalid("all", 'one of "filter", "assets" and "all": true')
    return chosen[0]


def _refusal(form: WindowForm) -> Problem:
    """Return what is wrong with a body, or why no window can be planned now."""
    for field, messages in form.errors.items():
        if field != "__all__":
            return invalid(field, str(messages[0]))
    return Problem(409, "not-now", str(form.non_field_errors()[0]))


def _do(
    request: ApiRequest,
    number: int,
    change: Callable[[Window, User, int], list[Window] | None],
    action: str,
) -> dict[str, Any]:
    row = _known(number)
    try:
        more = change(row, request.auth, now_ms()) or []
    except WindowRefused as error:
        raise Problem(409, "not-now", str(error)) from error
    for each in (row, *more):
        each.log(Actor.of(request), action)
    return WindowList().plain(row)


def _known(number: int) -> Window:
    """Return a window. Raises Problem 404."""
    row = Window.objects.shown().filter(pk=number).first() if _fits(number) else None
    if row is None:
        raise Problem(404, "unknown-window", f"There is no maintenance window {number}.")
    return row
