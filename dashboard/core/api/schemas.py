"""Schemas of the API's requests and responses, and bodies read strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

import msgspec
from django.http import HttpRequest
from ninja import Schema
from ninja.parser import Parser
from pydantic import ConfigDict, create_model, model_validator

from dashboard.core.api.problems import Problem
from domain.scenario import StateSpec

# ---- bodies --------------------------------------------------------------------------------------
# JSON bodies, parsed strictly and within limits.
#
# If a key is repeated, its last value counts, as in the log: what is checked is what is sent on.

JSON = "application/json"


class JsonParser(Parser):
    """The parser for bodies that django-ninja reads itself."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the decoded body. Raises Problem 400 or 415."""
        require_json(request)
        return decode(request.body)


def require_json(request: HttpRequest) -> None:
    """Raise Problem 415 unless the request's Content-Type is JSON."""
    if request.content_type != JSON:
        content_type = repr(request.content_type or "none")
        raise Problem(
            415, "unsupported-media-type", f"Content-Type: expected {JSON}, got {content_type}."
        )


def read_json(request: HttpRequest, limit: int) -> Any:
    """Return the decoded body, of at most `limit` bytes. Raises Problem 400, 413 or 415."""
    require_json(request)
    body = request.read(limit + 1)
    if len(body) > limit:
        raise Problem(413, "too-large", f"Expected at most {limit} bytes.")
    return decode(body)


def decode(body: bytes) -> Any:
    """Return the data in a JSON text. Raises Problem 400."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "bad-request", f"Expected JSON: {error}") from error


# ---- schemas -------------------------------------------------------------------------------------
# Schemas of the API's requests and responses, as its OpenAPI document shows them.

NO_NUL = r"^[^\x00]*$"
"""The pattern of a text to be stored: PostgreSQL accepts no NUL."""


class StrictSchema(Schema):
    """A body, in which a field that is not known is a fault.

    read_only: fields that are ignored, since what was read may be written back as it is.
    """

    model_config = ConfigDict(extra="forbid")
    read_only: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def leave_out_read_only(cls, data: Any) -> Any:
        """Return the data without the fields that can only be read."""
        given = getattr(data, "_obj", data)
        if not cls.read_only or not isinstance(given, Mapping):
            return data
        return {name: value for name, value in given.items() if name not in cls.read_only}


S = TypeVar("S", bound=Schema)


def fields_of(record: type) -> Callable[[type[S]], type[S]]:
    """Return a decorator that gives a schema the fields of a record, all of them required.

    record: a dataclass, a NamedTuple or a Struct; the schema can read its instances.
    """
    fields: Any = {name: (hint, ...) for name, hint in get_type_hints(record).items()}

    def decorate(schema: type[S]) -> type[S]:
        return create_model(schema.__name__, __base__=schema, __doc__=schema.__doc__, **fields)

    return decorate


@fields_of(StateSpec)
class StateOut(Schema):
    """One state of a scenario, as it is shown."""


class DoubtsOut(Schema):
    """How many assets of a scenario there is each doubt of."""

    disputed: int
    unconfirmed: int
    silent: int
    doubt: int


class ScenarioOut(Schema):
    """One kind of thing watched; `states` from most to least severe, or with `severity` "none" in
    their order, `counts` by state, `unhandled`: how many of them are, by state, `doubts`: how many
    assets are disputed, unconfirmed, have silent votes, or have agents in doubt."""

    name: str
    title: str
    noun: str
    vocabulary: Literal["open", "closed"]
    severity: Literal["order", "none"]
    states: list[StateOut]
    counts: dict[str, int]
    unhandled: dict[str, int]
    doubts: DoubtsOut


class FlapOut(Schema):
    """How a vote turned worse twice within its lifetime: to what, when last, and until when that
    state counts for a dispute. Times in Unix ms."""

    state: str
    time: int
    until: int


class VoteOut(Schema):
    """An agent's vote on an asset. Times in Unix ms.

    `expires`: when it falls silent, null for never; `muted`: until when and by whom its agent is
    muted, of others not there; `silent`: since when its agent has been silent, null for a live
    vote: a silent vote counts against an all-clear and never for it; `doubt`: why it is in doubt by
    its own report, else null: such a vote may raise a state, and gives no all-clear;
    `detail_fault`: why its detail was left out; `flapping`: that its agent goes to and fro.
    """

    model_config = ConfigDict(extra="allow")

    agent: str
    state: str
    reported_at: int
    time: int
    offset: int
    expires: int | None = None
    weight: int
    detail: dict[str, Any] | None = None
    silent: int | None = None
    doubt: str | None = None
    detail_fault: str | None = None
    flapping: FlapOut | None = None


class DoubtOut(Schema):
    """Why an agent is doubted on an asset, with a vote or without one. Times in Unix ms.

    `said`: the worst that it said, null where nobody can read it; `time`, `offset`: of the last
    record that gave cause; `until`: when the doubt ends; `muted`: as in a vote.
    """

    model_config = ConfigDict(extra="allow")

    agent: str
    reason: str
    said: str | None
    time: int
    offset: int
    until: int
    weight: int


class RecordOut(Schema):
    """An asset's state record as it stands on the states topic. Times in Unix ms.

    `unconfirmed_reason`: why it is unconfirmed, in words, null where it is confirmed; `disputed`:
    the worst that a vote or an agent in doubt says, live or silent, where that is worse than
    `state`, else null; `doubts`: of agents in doubt, beside their votes; `tasks`: what is scheduled
    for it, as in the topic.
    """

    asset: str
    state: str
    previous: str | None = None
    since: int
    unconfirmed: bool
    unconfirmed_reason: str | None = None
    disputed: str | None = None
    version: str
    cause: dict[str, Any]
    votes: list[VoteOut] = []
    pending: dict[str, Any] | None = None
    override: dict[str, Any] | None = None
    doubts: list[DoubtOut] = []
    tasks: list[dict[str, Any]] = []
    answer: dict[str, str] | None = None


class LinkOut(Schema):
    """A link of an asset to another program."""

    title: str
    url: str


class AssetOut(RecordOut):
    """An asset's state record, its labels, its links, and what agents add of the scenario's
    details: all of one vote, by key."""

    labels: dict[str, str] = {}
    details: dict[str, str | float] = {}
    links: list[LinkOut] = []


class AssetsOut(Schema):
    """Assets by name. `next`: give it as `after` for the next page; null on the last."""

    items: list[AssetOut]
    next: str | None
