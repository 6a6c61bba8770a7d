"""Who is on call, and whom a stage of a rule reaches through channels and rotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.contrib.auth.models import User

from dashboard.notifications.channels import CHANNELS
from dashboard.notifications.models import Channel, Rota
from dashboard.notifications.outbox import Target, targets_of_channel, targets_of_user
from dashboard.notifications.rota_shifts import shift_at
from domain.notifications.rule import Stage

NOBODY, SWITCHED_OFF, NO_ADDRESS = "nobody is on call", "switched off", "no address"
REASONS = {
    NOBODY: "nobody is on call in the rota, or who is is not active any more",
    SWITCHED_OFF: "the channel or the rota is switched off, retired, or of a kind that is unknown",
    NO_ADDRESS: "who is on call has no address of the kinds that the rota uses",
}
"""Why a stage reaches nobody through a channel or a rota."""


def on_call(rota: Rota, at: int) -> User | None:
    """Return who is on call at a time, Unix ms; None where nobody is."""
    shift = shift_at(rota, at)
    return shift.user if shift else None


class Reached(NamedTuple):
    """Whom some stages reach, each once and with the first stage that does; and through what they
    reach nobody, and why."""

    targets: list[tuple[int, Target]]
    missed: list[tuple[int, str, str]]


def reach(stages: Iterable[tuple[int, Stage]], at: int) -> Reached:
    """Return whom these stages, with their numbers, reach at a time, Unix ms."""
    reached = Reached([], [])
    known: set[tuple[str, str]] = set()
    for number, stage in stages:
        for name, targets, why in (*_channels(stage), *_rotas(stage, at)):
            if why:
                reached.missed.append((number, name, why))
            for target in targets:
                if (place := target[:2]) not in known:
                    known.add(place)
                    reached.targets.append((number, target))
    return reached


def _channels(stage: Stage) -> Iterator[tuple[str, list[Target], str]]:
    rows = Channel.objects.in_bulk(stage.channels)
    for number in stage.channels:
        row = rows.get(number)
        if row is None or row.retired_at or not row.enabled or row.kind not in CHANNELS:
            yield row.name if row else f"channel {number}", [], SWITCHED_OFF
        else:
            yield row.name, targets_of_channel(row), ""


def _rotas(stage: Stage, at: int) -> Iterator[tuple[str, list[Target], str]]:
    rows = Rota.objects.in_bulk(stage.rotas)
    for number in stage.rotas:
        row = rows.get(number)
        if row is None or row.retired_at:
            yield row.name if row else f"rota {number}", [], SWITCHED_OFF
            continue
        user = on_call(row, at)
        targets = targets_of_user(user, row.kinds, row) if user else []
        yield row.name, targets, "" if targets else NO_ADDRESS if user else NOBODY
