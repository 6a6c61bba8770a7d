"""The mutes in force, as the job's heartbeats say, and requests on their way into the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import uuid4

import msgspec
from django.contrib.auth.models import User

from bus.base import BusError
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import COMMANDS
from dashboard.core.common.kafka import REACH_S, gateway
from dashboard.core.job.models import BucketStatus
from dashboard.watch.agents.models import MuteRequest
from domain.records import Mute, Unmute
from domain.scenario import Scenario
from wire.source import encode_mute

# ---- mutes ---------------------------------------------------------------------------------------
# The mutes in force, as the job's heartbeats say, and requests on their way into the log.

MAX_FAULT = 300


class MuteIdTaken(ValueError):
    """The id belongs to another request."""


class ActiveMute(NamedTuple):
    """A mute in force. partitions: those whose heartbeats name it."""

    mute: Mute
    partitions: frozenset[int]


class MuteProgress(NamedTuple):
    """The progress of a request. sent: partitions whose log has it; taken: where the job has read
    it; of: how many there are."""

    request: MuteRequest
    sent: int
    taken: int
    of: int

    @property
    def all_sent(self) -> bool:
        """Return whether every partition's log has it."""
        return self.sent >= self.of

    def mutes(self, now: int) -> bool:
        """Return whether it mutes the agent at `now` (ms), once the job has it."""
        until = self.request.until
        return self.request.kind == "mute" and (until is None or until > now)

    @property
    def done(self) -> bool:
        """Return whether the job has read it everywhere."""
        return self.taken >= self.of


def mutes(scenario: Scenario, now: int) -> dict[str, ActiveMute]:
    """Return the mutes in force in some partition, by agent; a mute that has ended is left out."""
    active: dict[str, ActiveMute] = {}
    beats = BucketStatus.objects.filter(scenario=scenario.name).exclude(mutes="")
    for partition, text in beats.order_by("partition").values_list("partition", "mutes"):
        for mute in read(text):
            if mute.until is None or mute.until > now:
                known = active.get(mute.agent)
                others = known.partitions if known and known.mute == mute else frozenset[int]()
                active[mute.agent] = ActiveMute(mute, others | {partition})
    return active


def read(text: str) -> list[Mute]:
    """Return the mutes of a heartbeat, as they are kept."""
    return msgspec.json.decode(text, type=list[Mute])


def newest_progress(scenario: Scenario, agent: str) -> MuteProgress | None:
    """Return how far the newest request about an agent has come."""
    requests = MuteRequest.objects.filter(scenario=scenario.name, agent=agent)
    request = requests.order_by("-created_at").first()
    return None if request is None else progress_of(scenario, request)


def progress_of(scenario: Scenario, request: MuteRequest) -> MuteProgress:
    """Return how far a request has come."""
    places = places_of(request)
    reached = dict(
        BucketStatus.objects.filter(scenario=scenario.name).values_list("partition", "offset")
    )
    taken = sum(reached.get(partition, -1) >= offset for partition, offset in places.items())
    return MuteProgress(request, len(places), taken, scenario.partitions)


def places_of(request: MuteRequest) -> dict[int, int]:
    """Return the offset that a request has in each partition's log."""
    return msgspec.json.decode(request.places, type=dict[int, int])


def write_down(scenario: Scenario, record: Mute | Unmute, user: User, now: int) -> MuteRequest:
    """Keep a request. Returns its row; a form that is sent twice is one request.

    Raises IdTaken and rate_limits.TooMany.
    """
    COMMANDS.take(user.pk, now)
    kind = "mute" if isinstance(record, Mute) else "unmute"
    request, _ = MuteRequest.objects.get_or_create(
        pk=record.id,
        defaults={
            "scenario": scenario.name,
            "agent": record.agent,
            "kind": kind,
            "until": record.until if isinstance(record, Mute) else None,
            "reason": record.reason,
            "user": user,
            "username": user.get_username(),
            "created_at": now,
        },
    )
    if (request.scenario, request.agent, request.kind, request.user_id) != (
        scenario.name,
        record.agent,
        kind,
        user.pk,
    ):
        raise MuteIdTaken("This id belongs to another request; use a new one.")
    return request


def own(scenario: Scenario, request: MuteRequest, user: User, now: int) -> MuteRequest:
    """Return the request for this user to send: where it is another's, the same one in the user's
    own name.

    Raises limits.TooMany.
    """
    if request.user_id == user.pk:
        return request
    record = replace(_record(request), user=user.get_username(), id=str(uuid4()))
    return write_down(scenario, record, user, now)


def send(scenario: Scenario, request: MuteRequest, actor: Actor) -> MuteRequest:
    """Produce a request to every partition that does not have it yet, until one does not confirm.

    The audit notes how far it was sent, by whom. The same record twice changes nothing, so it may
    be sent again at any time.
    """
    places = places_of(request)
    missing = [each for each in range(scenario.partitions) if each not in places]
    fault = _produce(scenario, request, missing, places) if missing else ""
    request.places, request.fault = msgspec.json.encode(places).decode(), fault[:MAX_FAULT]
    request.save(update_fields=["places", "fault"])
    record(
        actor,
        f"agent.{request.kind}d",
        scenario=scenario.name,
        target=request.agent,
        outcome="sent" if not fault else f"sent to {len(places)} of {scenario.partitions}",
        id=str(request.pk),
        reason=request.reason,
        until=request.until,
    )
    return request


def _produce(
    scenario: Scenario, request: MuteRequest, missing: list[int], places: dict[int, int]
) -> str:
    """Store in `places` what was confirmed. Returns why not all was; empty where all was."""
    to, value = gateway(), encode_mute(_record(request))
    topic = to.topics.reports(scenario.name)
    try:
        to.bus.wait(REACH_S)
        for partition in missing:
            place = to.command(topic, None, value, partition)
            places[partition] = place.offset
    except BusError as error:
        return f"Kafka has confirmed {len(places)} of {scenario.partitions} partitions: {error}"
    return ""


def _record(request: MuteRequest) -> Mute | Unmute:
    if request.kind == "mute":
        return Mute(request.agent, request.until, request.username, request.reason, str(request.pk))
    return Unmute(request.agent, request.username, request.reason, str(request.pk))


Mutes = Mapping[str, ActiveMute]
