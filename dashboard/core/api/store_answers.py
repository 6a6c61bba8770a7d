"""Shared by the operations that query a store: the envelope of an answer, errors, and the answers
about the assets of any scenario."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from ninja import Schema
from pydantic import Field

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import check_asset
from dashboard.core.api.schemas import RecordOut
from dashboard.core.states.stores import DatabaseStore, Via, store
from domain.scenario import Scenario
from stores.base import SCENARIO, AssetStore, Many, NotRun, StoreProblem
from stores.envelopes import AssetsAnswer, answer_many, answer_one
from stores.transformation import whole

RETRY_S = 1
VIA = "Which store answers: the web process's copy, its owner, the cache, or the database."
VIA_OF_ASSETS = (
    f"{VIA} The answer is the state record in an envelope, which says whether it is complete, and "
    "as of when. By default the database answers with the bare record and its labels."
)

Find = Callable[[], tuple[list[tuple[str, str]], str | None]]
"""Finds assets with their records, and the name after which the next page starts, or None."""


class AnswerOut(Schema):
    """What one way answers. version, age_ms: of the record; took_ms: until the store had answered;
    as_of: when the instance last had all that the log had, Unix ms, null where it cannot tell;
    complete: whether the instance answers for this asset, and is not behind."""

    via: Via
    instance: str
    version: str | None
    age_ms: int | None
    took_ms: float
    as_of: int | None
    complete: bool


class AnswersOut(Schema):
    """What one way answers, by name. version: by partition, the next offset that is not in it;
    age_ms: of the newest of `items`; as_of, complete: as of one;
    next: give it as `after` for the next page, null on the last."""

    via: Via
    instance: str
    version: str
    age_ms: int | None
    took_ms: float
    as_of: int | None
    complete: bool
    following: str | None = Field(alias="next")


class RecordAnswerOut(AnswerOut):
    """An asset's state record by one way; null where the way does not have all, nor the asset."""

    asset: RecordOut | None


class RecordsAnswerOut(AnswersOut):
    """State records by one way. count: how many there are in all, null with a filter."""

    count: int | None
    items: list[RecordOut]


def one_by(via: Via, scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return a store's answer about one asset. Raises Problem 404, 422 or 503."""
    check_asset(asset)
    try:
        chosen = _chosen(via, scenario)
        answer = answer_one(whole(scenario.name), via, lambda: chosen.get(asset))
    except StoreProblem as problem:
        raise unavailable(problem) from problem
    if answer.asset is None and answer.complete:
        shown = f"{answer.instance} knows no {scenario.noun} {asset!r}."
        raise Problem(404, "unknown-asset", shown)
    return {**_head(answer), "asset": answer.asset and json.loads(bytes(answer.asset.record))}


def many_by(via: Via, scenario: Scenario, after: str, limit: int) -> dict[str, Any]:
    """Return a page of a store's answer about all assets. Raises Problem 404, 422 or 503."""
    try:
        chosen = _chosen(via, scenario)
        answer = answer_many(whole(scenario.name), via, limit, lambda: chosen.all(after, limit))
    except StoreProblem as problem:
        raise unavailable(problem) from problem
    return _listed(answer)


def filtered_by_database(scenario: Scenario, find: Find) -> dict[str, Any]:
    """Return the database's answer about the assets that a filter finds. Raises Problem."""
    kept = whole(scenario.name)
    chosen = DatabaseStore(kept)
    following: str | None = None

    def ask() -> Many:
        nonlocal following
        place = chosen.place()
        records, following = find()
        assets = [kept.asset(record) for _, record in records]
        return Many(assets, 0, place.positions, place.instance, place.complete, place.as_of)

    try:
        answer = answer_many(kept, "database", 0, ask)
    except StoreProblem as problem:
        raise unavailable(problem) from problem
    return {**_listed(answer), "next": following, "count": None}


def unavailable(problem: StoreProblem) -> Problem:
    """Return the problem of a store that does not answer: 404 if it is not run, otherwise 503."""
    if isinstance(problem, NotRun):
        return Problem(404, problem.reason, str(problem))
    return Problem(503, problem.reason, str(problem), headers={"Retry-After": str(RETRY_S)})


def _chosen(via: Via, scenario: Scenario) -> AssetStore:
    """Return the store to query. Raises Problem 422 for orders, whose records no store keeps."""
    if via == "database":
        return DatabaseStore(whole(scenario.name))
    if scenario.name == SCENARIO:
        raise invalid("via", "database; GET /api/v1/orders asks the other stores of orders")
    return store(via, scenario.name)


def _listed(answer: AssetsAnswer) -> dict[str, Any]:
    items = [json.loads(bytes(asset.record)) for asset in answer.assets]
    return {**_head(answer), "next": answer.following, "items": items}


def _head(answer: msgspec.Struct) -> dict[str, Any]:
    """Return the envelope without the assets."""
    fields = msgspec.structs.asdict(answer)
    return {name: value for name, value in fields.items() if name not in ("asset", "assets")}
