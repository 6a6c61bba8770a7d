"""API operations on agents: list them and their mutes, mute and unmute one."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Any, Literal

from ninja import Header, Schema, Status
from pydantic import Field

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import SEND, ApiRequest, OperationRouter, known_scenario
from dashboard.core.api.schemas import NO_NUL, StrictSchema
from dashboard.core.audit.log import Actor
from dashboard.core.common.access import OPERATORS
from dashboard.core.common.times import now_ms
from dashboard.watch.agents import mutes
from dashboard.watch.agents.models import MuteIdTaken, MuteRequest
from dashboard.watch.agents.statistics import AgentFigures, listed
from domain.names import USER_PREFIX, name_ok
from domain.records import MAX_MUTED, Mute, Unmute
from domain.scenario import Scenario
from wire.source import MAX_REASON, MAX_TIME

router = OperationRouter()

Key = Header(
    None,
    alias="Idempotency-Key",
    description="A UUID of this request; sent again, it goes only to partitions that lack it.",
)


class UnmuteIn(StrictSchema):
    """Why an agent is unmuted."""

    reason: str = Field("", max_length=MAX_REASON, pattern=NO_NUL)


class MuteIn(StrictSchema):
    """Why an agent is muted, and until when (Unix ms); null until that is taken back."""

    reason: str = Field(min_length=1, max_length=MAX_REASON, pattern=NO_NUL)
    until: int | None = Field(None, ge=0, le=MAX_TIME)


class LateOut(Schema):
    """Reports of the last day that came too late, were refused, or were taken in doubt.

    `stale`: older than the scenario takes; `late`: older than the agent's newest, or than the
    asset's purge; `silent`: older than a vote lives, its agent's last word alone; `rare`: came when
    the agent's vote was silent already; `age_ms`: the smallest age of those stale and silent;
    `refused`: for their state or time; `doubtful`: taken in doubt, `ahead_ms`: the least time by
    which they were too far ahead; `detail`: taken without their detail; `forwarded`: by the job, to
    the partition of their asset.
    """

    stale: int
    late: int
    silent: int
    rare: int
    age_ms: int | None
    refused: int
    doubtful: int
    ahead_ms: int | None
    detail: int
    forwarded: int


class FaultOut(Schema):
    """Something wrong with an agent. `since`: Unix ms, null where it is not known."""

    kind: str
    text: str
    todo: str
    since: int | None


class AgentOut(Schema):
    """An agent. Times in Unix ms.

    `last_seen`: null where no record tells of it; `votes`, `differing`: live ones, and those among
    them that differ from what all votes make; `silent_votes`, `silent_since`: its silent ones, and
    the longest of them; `clock_ms`: how far its own clock is off, below 0: behind; `why`: why its
    reports came too late of late, empty where they did not; `faults`: what is wrong with it, the
    most important first.
    """

    agent: str
    last_seen: int | None
    silent: bool
    muted: bool
    votes: int
    differing: int
    changes: int
    silent_votes: int
    silent_since: int | None
    clock_ms: int | None
    late: LateOut
    why: str
    faults: list[FaultOut]


class AgentsOut(Schema):
    """Those muted, with which something is wrong, or seen last; `known`: how many there are."""

    known: int
    items: list[AgentOut]


class MuteOut(Schema):
    """A mute in force. partitions: how many report it, and how many there are."""

    agent: str
    until: int | None
    user: str
    reason: str
    id: str
    partitions: int
    of: int


class AskOut(Schema):
    """An ask. sent: partitions whose log has it; taken: where the job has come to it; of: all."""

    id: uuid.UUID
    agent: str
    kind: Literal["mute", "unmute"]
    sent: int
    taken: int
    of: int


@router.operation("GET scenarios/{scenario}/agents", AgentsOut, "read", 404, among=OPERATORS)
def list_agents(request: ApiRequest, scenario: str) -> Any:
    """The agents of a scenario: how steadily they report, and what comes too late to count."""
    known, now = known_scenario(scenario), now_ms()
    rows, total = listed(known, mutes.mutes(known, now), now)
    return {"known": total, "items": [_plain_agent(row) for row in rows]}


def _plain_agent(row: AgentFigures) -> dict[str, Any]:
    return {
        **row._asdict(),
        "last_seen": row.last_seen or None,
        "muted": row.held is not None,
        "differing": row.against,
        "silent_votes": row.silent_on,
        "clock_ms": row.clock,
        "late": {
            **row.late._asdict(),
            "age_ms": row.late.age or None,
            "ahead_ms": row.late.ahead or None,
        },
        "faults": [{**each._asdict(), "since": each.since or None} for each in row.faults],
    }


@router.operation("GET scenarios/{scenario}/mutes", list[MuteOut], "read", 404, among=OPERATORS)
def list_mutes(request: ApiRequest, scenario: str) -> Any:
    """The muted agents, as the job's heartbeats report them."""
    known = known_scenario(scenario)
    held = mutes.mutes(known, now_ms())
    return [
        asdict(each.mute) | {"partitions": len(each.partitions), "of": known.partitions}
        for _, each in sorted(held.items())
    ]


@router.operation("POST scenarios/{scenario}/mute/{asset:agent}", {202: AskOut}, "command", *SEND)
def mute_agent(
    request: ApiRequest, scenario: str, agent: str, given: MuteIn, key: uuid.UUID | None = Key
) -> Any:
    """Let an agent's votes count nothing: one that has not reported yet may be muted too."""
    known, now = known_scenario(scenario), now_ms()
    if given.until is not None and given.until <= now:
        raise invalid("until", "a future time, Unix milliseconds")
    held = mutes.mutes(known, now)
    if agent not in held and len(held) >= MAX_MUTED:
        raise Problem(409, "too-many-mutes", f"{MAX_MUTED} agents are muted already.")
    user = request.auth.get_username()
    record = Mute(agent, given.until, user, given.reason, str(key or uuid.uuid4()))
    return _send(request, known, record, now)


@router.operation("POST scenarios/{scenario}/unmute/{asset:agent}", {202: AskOut}, "command", *SEND)
def unmute_agent(
    request: ApiRequest, scenario: str, agent: str, given: UnmuteIn, key: uuid.UUID | None = Key
) -> Any:
    """Let an agent's votes count again."""
    known, user = known_scenario(scenario), request.auth.get_username()
    record = Unmute(agent, user, given.reason, str(key or uuid.uuid4()))
    return _send(request, known, record, now_ms())


def _send(request: ApiRequest, scenario: Scenario, record: Mute | Unmute, now: int) -> Any:
    """Send a request. Raises Problem 503 if no partition has confirmed it."""
    if not name_ok(record.agent) or record.agent.startswith(USER_PREFIX):
        raise invalid("agent", "an agent's name: 1 to 255 characters, not beginning with user:")
    try:
        ask = MuteRequest.objects.keep(scenario.name, record, request.auth, now)
    except MuteIdTaken as error:
        raise Problem(409, "id-taken", str(error)) from error
    mutes.send(scenario, ask, Actor.of(request))
    if not ask.sent:
        raise Problem(503, "unsent", ask.fault)
    answer = {"id": ask.pk, "agent": ask.agent, "kind": ask.kind}
    return Status(202, answer | {"sent": ask.sent, "taken": ask.taken, "of": ask.partitions})
