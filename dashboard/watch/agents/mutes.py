"""Mutes in force, as the job's heartbeats report them, and requests on their way to the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from bus.base import BusError
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.kafka import REACH_S, gateway
from dashboard.core.job.models import BucketStatus
from dashboard.watch.agents.models import MuteRequest
from domain.records import Mute
from domain.scenario import Scenario
from wire.source import encode_mute

# ---- mutes ---------------------------------------------------------------------------------------
# Mutes in force, as the job's heartbeats report them, and requests on their way to the log.

MAX_FAULT = 300


class ActiveMute(NamedTuple):
    """A mute in force. partitions: those whose heartbeats name it."""

    mute: Mute
    partitions: frozenset[int]


def mutes(scenario: Scenario, now: int) -> dict[str, ActiveMute]:
    """Return the mutes in force in some partition, by agent, without those that have ended."""
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
    """Return the mutes in a heartbeat's stored JSON."""
    return msgspec.json.decode(text, type=list[Mute])


def send(scenario: Scenario, request: MuteRequest, actor: Actor) -> MuteRequest:
    """Produce a request to the partitions that do not have it yet, until one does not confirm.

    The audit records how far it was sent, and by whom. The same record twice changes nothing, so it
    may be sent again at any time.
    """
    places = request.offsets
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
    """Add what was confirmed to `places`. Returns why something was not, or ""."""
    to, value = gateway(), encode_mute(request.record)
    topic = to.topics.reports(scenario.name)
    try:
        to.bus.wait(REACH_S)
        for partition in missing:
            place = to.command(topic, None, value, partition)
            places[partition] = place.offset
    except BusError as error:
        return f"Kafka has confirmed {len(places)} of {scenario.partitions} partitions: {error}"
    return ""


Mutes = Mapping[str, ActiveMute]
