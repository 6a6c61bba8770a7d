"""Pins of colleagues among a run's assets: named at the review, left unless requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from django.db.models import Count, Exists, F, OuterRef, QuerySet, Value
from django.db.models.functions import Concat, Left

from dashboard.bulk.models import READY, SKIPPED, Item, Run
from dashboard.states.models import AssetState

# Pins that a review lists; the others stand among its assets.
LISTED = 10
# The commands that a pin does not outlive.
ENDS_PINS = ("set", "release", "purge")
SINCE = "pinned since the review"


class Pin(msgspec.Struct, frozen=True):
    """A pin of an asset; until: Unix ms, None without an end."""

    state: str
    until: int | None
    reason: str


class Pinned(NamedTuple):
    """An asset of a run, and how it was pinned at the review."""

    item: Item
    pin: Pin


class Pins(NamedTuple):
    """The pins of colleagues: how many, by whom, the most first, and the first few."""

    n: int
    by: Sequence[tuple[str, int]]
    listed: Sequence[Pinned]


_PIN = msgspec.json.Decoder(Pin)


def pin_of(item: Item) -> Pin | None:
    """Return how an asset was pinned at the review."""
    return _PIN.decode(item.pin) if item.pin else None


def colleagues(run: Run, name: str) -> QuerySet[Item]:
    """Return what is to be sent and would end a pin that others than this user have set."""
    pinned = Item.objects.filter(run=run, fate=READY).exclude(pinned_by="")
    return pinned.exclude(pinned_by=name)


def pins(run: Run, name: str) -> Pins:
    """Return the pins of others than this user that a run would end."""
    items = colleagues(run, name)
    by = items.values_list("pinned_by").annotate(n=Count("pk")).order_by("-n", "pinned_by")
    counts = list(by)
    listed = [Pinned(item, _PIN.decode(item.pin)) for item in items.order_by("number")[:LISTED]]
    return Pins(sum(n for _, n in counts), counts, listed)


def leave(run: Run, name: str) -> int:
    """Leave the pins of others than this user as they are. Returns how many."""
    why = Left(Concat(Value("pinned by "), F("pinned_by")), 200)
    return colleagues(run, name).update(fate=SKIPPED, text=why)


def leave_new(run: Run, name: str) -> int:
    """Leave what others than this user have pinned since the review, as nobody confirmed that.
    Returns how many.

    Where commands carry the version of the review, the job refuses these anyway.
    """
    if run.unchanged or run.kind not in ENDS_PINS:
        return 0
    rows = AssetState.objects.filter(scenario=run.scenario, asset=OuterRef("asset"))
    newer = rows.filter(overridden=True, override_since__gt=run.created_at)
    newer = newer.exclude(override_user=name)
    items = Item.objects.filter(Exists(newer), run=run, fate=READY)
    return items.update(fate=SKIPPED, text=SINCE)
