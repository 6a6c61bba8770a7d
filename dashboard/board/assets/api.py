"""The operations on boards: the scenarios, and the assets of one."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001, B008

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from django.db import transaction
from ninja import Query, Schema
from pydantic import Field

from dashboard.board.assets.scenario_tabs import FilterTab, counted_tab, filter_tabs
from dashboard.board.live.page_filter import unknown_states, with_states
from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import READ, WRITE, ApiRequest, OperationRouter, known_scenario
from dashboard.core.api.schemas import NO_NUL, AssetsOut, ScenarioOut, StrictSchema
from dashboard.core.api.store_answers import (
    VIA_OF_ASSETS,
    RecordsAnswerOut,
    filtered_by_database,
    many_by,
)
from dashboard.core.audit.log import Actor
from dashboard.core.common.access import ADMINS
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.board_rows import plain_record
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError
from dashboard.core.states.filter_terms import Filter, doubt_term
from dashboard.core.states.queries import counts, doubt_counts
from dashboard.core.states.stores import Via
from dashboard.watch.annotations.labels import labels_of
from dashboard.watch.annotations.row_marks import handled
from dashboard.watch.filters.models import (
    MAX_TITLE,
    FilterRefused,
    FirstBoard,
    SavedFilter,
    whole_filter,
)
from dashboard.watch.filters.search import by_name
from dashboard.watch.filters.views import FirstBoardForm, record_filter, withdraw
from domain.names import MAX_NAME, MAX_STATE
from domain.scenario import Scenario

MAX_PAGE = 1000

router = OperationRouter()

MAX_STATES = 50
"""Most states in one filter."""

DoubtName = Literal["disputed", "unconfirmed", "silent", "doubt"]
StateName = Annotated[str, Field(max_length=MAX_STATE, pattern=NO_NUL)]


@router.operation("GET scenarios", list[ScenarioOut], "read")
def list_scenarios(request: ApiRequest) -> Any:
    """Every scenario, with how many assets are in each state, and how many there is a doubt of."""
    return [_scenario_out(scenario) for scenario in scenarios().values()]


@router.operation(
    "GET scenarios/{scenario}/assets", AssetsOut | RecordsAnswerOut, "read", *READ, 503
)
def list_assets(
    request: ApiRequest,
    scenario: str,
    state: list[StateName] = Query(
        [], max_length=MAX_STATES, description="Only these states, by name or label."
    ),
    doubt: list[DoubtName] = Query(
        [], max_length=4, description="Only assets with all of these doubts."
    ),
    q: str = Query(
        "", max_length=MAX_TEXT, pattern=NO_NUL, description="Only what this filter finds."
    ),
    after: str = Query(
        "", max_length=MAX_NAME, pattern=NO_NUL, description="Only names past this one."
    ),
    limit: int = Query(100, ge=1, le=MAX_PAGE),
    via: Via | None = Query(
        None, description=f"{VIA_OF_ASSETS} Only the database takes state, doubt and q."
    ),
) -> Any:
    """Assets on the board, by name, a page at a time.

    A page may hold fewer than `limit`, even none, and more follow: `next` alone says so.
    """
    known, now = known_scenario(scenario), now_ms()
    filtered = bool(state or doubt or q)
    if via is not None and not filtered:
        return many_by(via, known, after, limit)
    if via not in (None, "database"):
        raise invalid("via", "database beside state, doubt or q: other stores find names alone")
    if unknown_states(known, state):
        raise invalid("state", f"one of {', '.join(spec.name for spec in known.states)}")
    try:
        criteria = with_states(known, state, q, now)
    except FilterError as error:
        raise invalid("q", f"{error} (characters {error.start} to {error.end})") from error
    criteria = Filter((*criteria.terms, *map(doubt_term, doubt)))
    find = partial(by_name, known, criteria, now, after=after, limit=limit)
    if via == "database":
        return filtered_by_database(known, find)
    records, more = find()
    labels = labels_of(known.name, [asset for asset, _ in records])
    items = [plain_record(known, record, labels.get(asset, {})) for asset, record in records]
    return {"items": items, "next": more}


def _scenario_out(scenario: Scenario) -> dict[str, Any]:
    plain = scenario.to_plain()
    known, doubts = counts(scenario.name), doubt_counts(scenario.name)
    unhandled = handled(scenario, {}, now_ms()).left(scenario, known)
    return {**plain, "counts": known, "doubts": doubts, "unhandled": unhandled}


# ---- boards of teams -----------------------------------------------------------------------------
# Filters that an admin has made tabs beside everybody's boards, and the board that a user begins
# with.


class BoardIn(StrictSchema):
    """A filter that is to be a tab. title: its name; filter: in the language of filters."""

    scenario: str = Field(max_length=40, pattern=NO_NUL)
    title: str = Field(min_length=1, max_length=MAX_TITLE, pattern=NO_NUL)
    filter: str = Field(min_length=1, max_length=MAX_TEXT, pattern=NO_NUL)


class BoardOut(BoardIn):
    """A tab that is a filter. unhandled: how many assets are; worst: the label of their worst
    state, null without any; at: when it was saved, Unix ms."""

    number: int
    unhandled: int
    worst: str | None
    at: int


class FirstBoardIn(StrictSchema):
    """The board that a user begins with: of a scenario, or a filter by its number; with neither,
    none is chosen."""

    read_only = ("address",)

    scenario: str | None = Field(None, max_length=40, pattern=NO_NUL)
    number: int | None = Field(None, ge=1)


class FirstBoardOut(Schema):
    """The board that the user begins with, and its address; empty where none is chosen."""

    scenario: str | None
    number: int | None
    address: str


@router.operation("GET boards", list[BoardOut], "read")
def list_boards(request: ApiRequest) -> Any:
    """The filters that are tabs beside the boards, with how many assets are unhandled there."""
    return [_board_out(tab) for tab in filter_tabs()]


@router.operation("POST boards", BoardOut, "command", *WRITE, among=ADMINS)
def publish_board(request: ApiRequest, given: BoardIn) -> Any:
    """Make a filter a tab beside everybody's boards. One of your own of the same name is
    replaced."""
    scenario, now = known_scenario(given.scenario), now_ms()
    try:
        text = whole_filter(scenario, (), given.filter, now)
        with transaction.atomic():  # what cannot be a tab is not saved either
            saved, _ = SavedFilter.objects.keep(request.auth, scenario, given.title, text, now)
            saved.publish()
    except FilterRefused as error:
        field = "title" if error.field == "name" else error.field
        raise invalid(field, error.message) from error
    record_filter(Actor.of(request), "filter.published", saved)
    return _board_out(counted_tab(saved))


@router.operation("DELETE boards/{number}", BoardOut, "command", *READ, among=ADMINS)
def withdraw_board(request: ApiRequest, number: int) -> Any:
    """Make a filter no tab any more. It stays shared."""
    saved = next((each for each in SavedFilter.objects.tabs() if each.pk == number), None)
    if saved is None:
        raise Problem(404, "unknown-board", f"No filter with the number {number} is a tab.")
    withdraw(Actor.of(request), saved)
    return _board_out(counted_tab(saved))


@router.operation("GET first-board", FirstBoardOut, "read")
def get_first_board(request: ApiRequest) -> Any:
    """The board that you begin with."""
    row = FirstBoard.objects.of(request.auth)
    if row is None:
        return {"scenario": None, "number": None, "address": ""}
    saved = row.visible_filter
    number = saved.pk if saved else None
    return {"scenario": row.scenario, "number": number, "address": row.get_absolute_url()}


@router.operation("PUT first-board", FirstBoardOut, "read", *WRITE)
def put_first_board(request: ApiRequest, given: FirstBoardIn) -> Any:
    """Choose the board that you begin with: the page after the login."""
    chosen: dict[str, Any] = get_first_board(request)
    if chosen == chosen | given.dict():
        return chosen
    form = FirstBoardForm(request.auth, {"board": str(given.number or given.scenario or "")})
    if not form.is_valid():
        raise invalid("number" if given.number else "scenario", "a board or a filter that you see")
    form.save(Actor.of(request), request.auth)
    return get_first_board(request)


def _board_out(tab: FilterTab) -> dict[str, Any]:
    saved, badge = tab.saved, tab.badge
    worst = badge.label if badge.n else None
    fields = {"number": saved.pk, "scenario": saved.scenario, "title": saved.title}
    return {**fields, "filter": saved.text, "unhandled": badge.n, "worst": worst, "at": saved.at}
