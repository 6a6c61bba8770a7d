"""The mutes in force, as the job's heartbeats tell them, and asks on their way into the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import uuid4

import msgspec
from django.contrib.auth.models import User

from bus.base import BusError
from dashboard.agents.models import MuteAsk
from dashboard.core.kafka import REACH_S, gateway
from dashboard.core.rate_limits import COMMANDS
from dashboard.job.models import BucketStatus
from domain.records import Mute, Unmute
from domain.scenario import Scenario
from wire.source import encode_mute

MAX_FAULT = 300


class IdTaken(ValueError):
    """The id belongs to another ask."""


class Held(NamedTuple):
    """A mute in force. partitions: whose heartbeats tell it."""

    mute: Mute
    partitions: frozenset[int]


class Standing(NamedTuple):
    """How far an ask has come. sent: partitions whose log has it; taken: where the job has read
    it; of: how many there are."""

    ask: MuteAsk
    sent: int
    taken: int
    of: int

    @property
    def all_sent(self) -> bool:
        """Whether every partition's log has it."""
        return self.sent >= self.of

    def mutes(self, now: int) -> bool:
        """Whether it mutes the agent at `now` (ms), once the job has it."""
        return self.ask.kind == "mute" and (self.ask.until is None or self.ask.until > now)

    @property
    def done(self) -> bool:
        """Whether the job has read it everywhere."""
        return self.taken >= self.of


def mutes(scenario: Scenario, now: int) -> dict[str, Held]:
    """The mutes that are in force in some partition, by agent; one that has ended is none."""
    found: dict[str, Held] = {}
    told = BucketStatus.objects.filter(scenario=scenario.name).exclude(mutes="")
    for partition, text in told.order_by("partition").values_list("partition", "mutes"):
        for mute in read(text):
            if mute.until is None or mute.until > now:
                known = found.get(mute.agent)
                others = known.partitions if known and known.mute == mute else frozenset[int]()
                found[mute.agent] = Held(mute, others | {partition})
    return found


def dump(held: tuple[Mute, ...]) -> str:
    """A heartbeat's mutes as they are kept; empty where there are none."""
    return msgspec.json.encode(held).decode().replace("\\u0000", "\ufffd") if held else ""


def read(text: str) -> list[Mute]:
    """Read what `dump` wrote."""
    return msgspec.json.decode(text, type=list[Mute])


def standing(scenario: Scenario, agent: str) -> Standing | None:
    """The newest ask about an agent, and how far it has come."""
    ask = (
        MuteAsk.objects.filter(scenario=scenario.name, agent=agent).order_by("-created_at").first()
    )
    return None if ask is None else standing_of(scenario, ask)


def standing_of(scenario: Scenario, ask: MuteAsk) -> Standing:
    """How far an ask has come."""
    places = places_of(ask)
    reached = dict(
        BucketStatus.objects.filter(scenario=scenario.name).values_list("partition", "offset")
    )
    taken = sum(reached.get(partition, -1) >= offset for partition, offset in places.items())
    return Standing(ask, len(places), taken, scenario.partitions)


def places_of(ask: MuteAsk) -> dict[int, int]:
    """The offset that an ask has in each partition's log."""
    return msgspec.json.decode(ask.places, type=dict[int, int])


def write_down(scenario: Scenario, record: Mute | Unmute, user: User, now: int) -> MuteAsk:
    """The ask's row; the same one where the form is sent twice. Raises IdTaken, limits.TooMany."""
    COMMANDS.take(user.pk, now)
    kind = "mute" if isinstance(record, Mute) else "unmute"
    ask, _ = MuteAsk.objects.get_or_create(
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
    if (ask.scenario, ask.agent, ask.kind, ask.user_id) != (
        scenario.name,
        record.agent,
        kind,
        user.pk,
    ):
        raise IdTaken("This id belongs to another ask; use a new one.")
    return ask


def own(scenario: Scenario, ask: MuteAsk, user: User, now: int) -> MuteAsk:
    """The ask, to be sent by this user: where it is another's, the same one in the own name.

    Raises limits.TooMany.
    """
    if ask.user_id == user.pk:
        return ask
    record = replace(_record(ask), user=user.get_username(), id=str(uuid4()))
    return write_down(scenario, record, user, now)


def send(scenario: Scenario, ask: MuteAsk) -> MuteAsk:
    """Produce an ask to every partition that does not have it yet, until one does not confirm.

    The same record twice changes nothing, so it may be sent again at any time.
    """
    places = places_of(ask)
    missing = [each for each in range(scenario.partitions) if each not in places]
    fault = _produce(scenario, ask, missing, places) if missing else ""
    ask.places, ask.fault = msgspec.json.encode(places).decode(), fault[:MAX_FAULT]
    ask.save(update_fields=["places", "fault"])
    return ask


def _produce(scenario: Scenario, ask: MuteAsk, missing: list[int], places: dict[int, int]) -> str:
    """Notes in `places` what was confirmed; says why not all was."""
    to, value = gateway(), encode_mute(_record(ask))
    topic = to.topics.reports(scenario.name)
    try:
        to.bus.wait(REACH_S)
        for partition in missing:
            place = to.command(topic, None, value, partition)
            places[partition] = place.offset
    except BusError as error:
        return f"Kafka has confirmed {len(places)} of {scenario.partitions} partitions: {error}"
    return ""


def _record(ask: MuteAsk) -> Mute | Unmute:
    if ask.kind == "mute":
        return Mute(ask.agent, ask.until, ask.username, ask.reason, str(ask.pk))
    return Unmute(ask.agent, ask.username, ask.reason, str(ask.pk))


Mutes = Mapping[str, Held]
