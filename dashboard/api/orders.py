"""The operations on orders: the same questions, answered by each of the ways."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001, B008

from __future__ import annotations

from typing import Any

import msgspec
from django.http import HttpResponse
from ninja import Query, Schema
from pydantic import Field

from dashboard.api.auth import ApiRequest
from dashboard.api.problems import Problem, invalid
from dashboard.api.router import OperationRouter, check_asset, known_scenario
from dashboard.api.schemas import NO_NUL
from dashboard.core.roles import OPERATORS
from dashboard.orders.ways import Via, owner_store, store
from domain.names import MAX_NAME
from stores.base import SCENARIO, NotRun, OrderStore, StoreProblem
from stores.envelopes import answer_many, answer_one
from stores.owner_store import LocalStore, ServerHealth

MAX_PAGE = 1000
RETRY_S = 1

router = OperationRouter()


class OrderOut(Schema):
    """An order and where it is. station: the agent of its latest vote; location: what that vote's
    detail says; active: it is neither delivered nor purged. Times in Unix ms."""

    order: str
    state: str
    station: str | None
    location: str | None
    active: bool
    version: str
    changed_at: int


class OrderAnswerOut(Schema):
    """An order by one way. version, age_ms: of its record; took_ms: until the store had answered;
    complete: whether the instance answers for this order."""

    via: Via
    instance: str
    version: str | None
    age_ms: int | None
    took_ms: float
    complete: bool
    order: OrderOut | None


class OrdersAnswerOut(Schema):
    """Active orders by one way, by name. version: by partition, the next offset that is not in
    them; age_ms: of the newest of them; count: how many are active in all."""

    via: Via
    instance: str
    version: str
    age_ms: int | None
    took_ms: float
    complete: bool
    count: int
    items: list[OrderOut]
    following: str | None = Field(alias="next")


class StoreOut(Schema):
    """A store server. partitions: those that it answers for; standby: those that it keeps warm for
    others; records: active orders of its partitions; lag: records that it has not read of them;
    refused: requests by reason."""

    instance: str
    address: str
    partitions: list[int]
    standby: list[int]
    ready: bool
    records: int
    lag: int | None
    keeps: str
    refused: dict[str, int]


ORDER_OUT = {200: OrderAnswerOut, 307: None}


@router.operation("GET orders", OrdersAnswerOut, "read", 404, 422, 503)
def list_orders(
    request: ApiRequest,
    via: Via = Query("database", description="Which way is asked."),
    after: str = Query(
        "", max_length=MAX_NAME, pattern=NO_NUL, description="Only names past this one."
    ),
    limit: int = Query(100, ge=1, le=MAX_PAGE),
    local: bool = Query(False, description="Ask one store server alone: naively."),
) -> Any:
    """Active orders by name, a page at a time, and how many there are."""
    known_scenario(SCENARIO)
    try:
        chosen = _chosen(via, local)
        answer = answer_many(via, limit, lambda: chosen.all(after, limit))
    except StoreProblem as problem:
        raise _unavailable(problem) from problem
    return msgspec.to_builtins(answer)


@router.operation("GET orders/{asset:order}", ORDER_OUT, "read", 404, 422, 503)
def get_order(
    request: ApiRequest,
    order: str,
    via: Via = Query("database", description="Which way is asked."),
    local: bool = Query(False, description="Ask one store server alone: naively."),
    redirect: bool = Query(False, description="Answer where its owner answers, for 10 s."),
) -> Any:
    """One order, a delivered one too until it is purged."""
    known_scenario(SCENARIO)
    check_asset(order, "order")
    try:
        chosen = _chosen(via, local or redirect)
        if redirect:
            return _redirection(owner_store().redirection(order))
        answer = answer_one(via, lambda: chosen.get(order))
    except StoreProblem as problem:
        raise _unavailable(problem) from problem
    if answer.order is None and answer.complete:
        raise Problem(404, "unknown-order", f"{answer.instance} knows no order {order!r}.")
    return msgspec.to_builtins(answer)


@router.operation("GET stores", list[StoreOut], "read", 404, 503, among=OPERATORS)
def list_stores(request: ApiRequest) -> Any:
    """The store servers: where each answers, what it owns, and what it keeps warm for others."""
    known_scenario(SCENARIO)
    try:
        known = owner_store().servers()
    except NotRun:
        return []
    except StoreProblem as problem:
        raise _unavailable(problem) from problem
    return [msgspec.to_builtins(each) for each in known if isinstance(each, ServerHealth)]


def _chosen(via: Via, of_servers: bool) -> OrderStore | LocalStore:
    """Return who is asked. Raises Problem 422 for what store servers alone can do."""
    if not of_servers:
        return store(via)
    if via != "owner":
        raise invalid("via", "owner, with local or redirect")
    return owner_store().alone()


def _redirection(url: str) -> HttpResponse:
    """Return a 307: the same request, there."""
    return HttpResponse(status=307, headers={"Location": url})


def _unavailable(problem: StoreProblem) -> Problem:
    if isinstance(problem, NotRun):
        return Problem(404, problem.reason, str(problem))
    return Problem(503, problem.reason, str(problem), headers={"Retry-After": str(RETRY_S)})
