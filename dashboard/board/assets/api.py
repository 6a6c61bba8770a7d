"""The operations on boards: the scenarios, and the assets of one."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001, B008

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from ninja import Query
from pydantic import Field

from dashboard.board.live.page_filter import unknown_states, with_states
from dashboard.core.api.problems import invalid
from dashboard.core.api.router import READ, ApiRequest, OperationRouter, known_scenario
from dashboard.core.api.schemas import (
    NO_NUL,
    AssetsOut,
    ScenarioOut,
)
from dashboard.core.api.store_answers import (
    VIA_OF_ASSETS,
    RecordsAnswerOut,
    filtered_by_database,
    many_by,
)
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.board_rows import plain_record
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError
from dashboard.core.states.filter_terms import Filter, doubt_term
from dashboard.core.states.queries import counts, doubt_counts
from dashboard.core.states.stores import Via
from dashboard.watch.annotations.labels import labels_of
from dashboard.watch.annotations.row_marks import handled
from dashboard.watch.filters.search import by_name
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
        wanted = with_states(known, state, q, now)
    except FilterError as error:
        raise invalid("q", f"{error} (characters {error.start} to {error.end})") from error
    wanted = Filter((*wanted.terms, *map(doubt_term, doubt)))
    find = partial(by_name, known, wanted, now, after=after, limit=limit)
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
