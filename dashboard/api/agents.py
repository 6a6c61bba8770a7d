"""The operations on agents: how they fare, which are muted, muting one and taking it back."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

import uuid
from typing import Any, Literal

from ninja import Header, Router, Schema, Status
from pydantic import ConfigDict, Field

from dashboard.agents import mutes as muting
from dashboard.agents.audit_entries import note_mute
from dashboard.agents.statistics import Row, listed
from dashboard.api.auth import ApiRequest, allow
from dashboard.api.problems import Problem, documented, invalid, too_many
from dashboard.api.schemas import NO_NUL
from dashboard.core.rate_limits import TooMany
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from domain.names import USER_PREFIX, name_ok
from domain.records import MAX_MUTED, Mute, Unmute
from domain.scenario import Scenario
from wire.source import MAX_REASON, MAX_TIME

router = Router()

_ASK = documented(400, 404, 409, 413, 415, 422, 503)
Key = Header(
    None,
    alias="Idempotency-Key",
    description="A UUID that names this ask: sent again, it goes to the partitions without it.",
)


class UnmuteIn(Schema):
    """Why an agent is heard again."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field("", max_length=MAX_REASON, pattern=NO_NUL)


class MuteIn(Schema):
    """Why an agent is muted, and until when (Unix ms); null until that is taken back."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=1, max_length=MAX_REASON, pattern=NO_NUL)
    until: int | None = Field(None, ge=0, le=MAX_TIME)


class LateOut(Schema):
    """Reports of the last day that came too late.

    `stale`: older than the scenario takes; `late`: older than the agent's newest, or than the
    asset's purge; `silent`: older than a vote lives, its agent's last word alone; `rare`: came when
    the agent's vote was silent already; `age_ms`: the smallest age of those stale and silent.
    """

    stale: int
    late: int
    silent: int
    rare: int
    age_ms: int | None


class AgentOut(Schema):
    """An agent. Times in Unix ms.

    `last_seen`: null where no record tells of it; `votes`, `differing`: live ones, and those among
    them that differ from what all votes make; `silent_votes`, `silent_since`: its silent ones, and
    the longest of them; `clock_ms`: how far its own clock is off, below 0: behind; `why`: why its
    reports came too late of late, empty where they did not.
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


class AgentsOut(Schema):
    """Those muted, seen last, or whose reports came too late; `known`: how many there are."""

    known: int
    items: list[AgentOut]


class MuteOut(Schema):
    """A mute in force. partitions: that tell it, of so many."""

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


@router.get(
    "scenarios/{scenario}/agents",
    response=AgentsOut,
    auth=allow("read"),
    openapi_extra=documented(404),
)
def list_agents(request: ApiRequest, scenario: str) -> Any:
    """The agents of a scenario: how steadily they report, and what comes too late to count."""
    known, now = _known(scenario), now_ms()
    rows, total = listed(known, muting.mutes(known, now), now)
    return {"known": total, "items": [_told(row) for row in rows]}


def _told(row: Row) -> dict[str, Any]:
    late = row.late
    return {
        "agent": row.agent,
        "last_seen": row.last_seen or None,
        "silent": row.silent,
        "muted": row.held is not None,
        "votes": row.votes,
        "differing": row.against,
        "changes": row.changes,
        "silent_votes": row.silent_on,
        "silent_since": row.silent_since,
        "clock_ms": row.clock,
        "late": {
            "stale": late.stale,
            "late": late.late,
            "silent": late.silent,
            "rare": late.rare,
            "age_ms": late.age or None,
        },
        "why": row.why,
    }


@router.get(
    "scenarios/{scenario}/mutes",
    response=list[MuteOut],
    auth=allow("read"),
    openapi_extra=documented(404),
)
def list_mutes(request: ApiRequest, scenario: str) -> Any:
    """The agents that are muted, as the job's heartbeats tell them."""
    known = _known(scenario)
    held = muting.mutes(known, now_ms())
    return [
        {
            "agent": agent,
            "until": each.mute.until,
            "user": each.mute.user,
            "reason": each.mute.reason,
            "id": each.mute.id,
            "partitions": len(each.partitions),
            "of": known.partitions,
        }
        for agent, each in sorted(held.items())
    ]


@router.post(
    "scenarios/{scenario}/mute/{asset:agent}",
    response={202: AskOut},
    auth=allow("command"),
    openapi_extra=_ASK,
)
def mute_agent(
    request: ApiRequest, scenario: str, agent: str, given: MuteIn, key: uuid.UUID | None = Key
) -> Any:
    """Let an agent's votes count nothing: one that has not reported yet may be muted too."""
    known, now = _known(scenario), now_ms()
    if given.until is not None and given.until <= now:
        raise invalid("until", "a time to come, Unix milliseconds")
    held = muting.mutes(known, now)
    if agent not in held and len(held) >= MAX_MUTED:
        raise Problem(409, "too-many-mutes", f"{MAX_MUTED} agents are muted already.")
    user = request.auth.get_username()
    record = Mute(agent, given.until, user, given.reason, str(key or uuid.uuid4()))
    return _send(request, known, record, now)


@router.post(
    "scenarios/{scenario}/unmute/{asset:agent}",
    response={202: AskOut},
    auth=allow("command"),
    openapi_extra=_ASK,
)
def unmute_agent(
    request: ApiRequest, scenario: str, agent: str, given: UnmuteIn, key: uuid.UUID | None = Key
) -> Any:
    """Let an agent's votes count again."""
    known, user = _known(scenario), request.auth.get_username()
    record = Unmute(agent, user, given.reason, str(key or uuid.uuid4()))
    return _send(request, known, record, now_ms())


def _known(name: str) -> Scenario:
    known = scenarios().get(name)
    if known is None:
        raise Problem(404, "unknown-scenario", f"{name!r} is none of: {', '.join(scenarios())}.")
    return known


def _send(request: ApiRequest, scenario: Scenario, record: Mute | Unmute, now: int) -> Any:
    """Send a request; 503 where no partition has confirmed it."""
    if not name_ok(record.agent) or record.agent.startswith(USER_PREFIX):
        raise invalid("agent", "an agent's name: 1 to 255 characters, not beginning with user:")
    try:
        ask = muting.write_down(scenario, record, request.auth, now)
    except TooMany as error:
        raise too_many(error) from error
    except muting.IdTaken as error:
        raise Problem(409, "id-taken", str(error)) from error
    note_mute(request, scenario, muting.send(scenario, ask))
    progress = muting.progress_of(scenario, ask)
    if not progress.sent:
        raise Problem(503, "unsent", ask.fault)
    answer = {"id": ask.pk, "agent": ask.agent, "kind": ask.kind}
    return Status(202, answer | {"sent": progress.sent, "taken": progress.taken, "of": progress.of})
