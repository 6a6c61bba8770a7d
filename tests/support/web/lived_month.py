"""A month of a few assets as records of a states topic, the same at each call, and its independent
count.
"""

from __future__ import annotations

import json
import random
from typing import Any

from bus.base import ConsumerRecord
from dashboard.core.common.scenarios import topics
from dashboard.notify.summaries.models import ReportingZone, Target
from dashboard.watch.annotations.models import Label
from support.web.clocks import at
from support.web.independent_summary import History, read

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
STATES = ("under-attack", "suspicious", "clear")
ZONE = "Europe/Berlin"
ASSETS = ("shop", "bank", "press", "gone", "late", "still")
TIERS = {"shop": "gold", "bank": "gold", "press": "silver", "late": "silver"}
SERVICE = [list(range(8, 18))] * 5 + [[], [10]]
"""Working days from 8 to 18, and an hour on Sundays."""


BEGUN, ENDED = at("2026-02-20T00:00"), at("2026-04-02T00:00")


class Topic:
    """A states topic that is written record by record, as the job would."""

    def __init__(self, epoch: int = 1) -> None:
        self.epoch = epoch
        self.messages: list[ConsumerRecord] = []
        self._offset = 0
        self._state: dict[str, tuple[str, str | None, int]] = {}
        """Of each asset its state, the one before, and since when."""

    def put(self, time: int, asset: str, state: str, **more: Any) -> None:
        """Append a record; an empty state is a purge."""
        self._offset += 1
        cause = {"type": "report", "partition": 0, "offset": self._offset, "time": time}
        version = f"{self.epoch}.{self._offset}.0"
        if not state:
            self._state.pop(asset, None)
            headers = (("version", version.encode()), ("cause", json.dumps(cause).encode()))
            self._append(time, asset, None, headers)
            return
        last, previous, since = self._state.get(asset, (None, None, time))
        if state != last:
            previous, since = last, time
        self._state[asset] = state, previous, since
        record: dict[str, Any] = {
            "asset": asset, "state": state, "previous": previous, "since": since,
            "unconfirmed": False, "version": version, "cause": cause, "votes": [],
            "pending": None, "override": None, "answer": None,
        }  # fmt: skip
        value = json.dumps(record | more).encode()
        self._append(time, asset, value, (("version", version.encode()),))

    def _append(self, time: int, asset: str, value: bytes | None, headers: Any) -> None:
        topic = topics().states("attack")
        key = asset.encode()
        self.messages.append(ConsumerRecord(topic, 0, self._offset, time, key, value, headers))


def pending(state: str, since: int) -> dict[str, Any]:
    return {"pending": {"state": state, "since": since, "due": since + DAY}}


def lived(topic: Topic, first: int, last: int, seed: int) -> None:
    """Fill a topic with the lives of assets, minute by minute at random."""
    dice = random.Random(seed)
    moments: list[tuple[int, str]] = []
    for asset in ASSETS[:-1]:
        time = first + dice.randrange(0, 5 * 24 * 60) * MINUTE
        while time < last:
            moments.append((time, asset))
            time += dice.choice((1, 5, 14, 15, 16, 60, 600, 3000)) * MINUTE
    now: dict[str, tuple[str, bool]] = {}
    topic.put(first - 3 * DAY, "still", "under-attack")
    for time, asset in sorted(moments):
        state, unconfirmed = now.get(asset, ("", False))
        happens = dice.random()
        if state and happens < 0.05:
            topic.put(time, asset, "")
            now[asset] = ("", False)
        elif state and happens < 0.25:
            worse = STATES[: STATES.index(state)]
            more = pending(dice.choice(worse), time) if worse else {}
            topic.put(time, asset, state, unconfirmed=unconfirmed, **more)
        else:
            if not state or happens < 0.85:
                state = dice.choice(STATES)
            unconfirmed = dice.random() < 0.2
            topic.put(time, asset, state, unconfirmed=unconfirmed)
            now[asset] = (state, unconfirmed)


def history(messages: list[ConsumerRecord], changed_at: int | None = None) -> History:
    """The same, as the independent count reads it."""

    def good(time: int, state: str) -> bool:
        late = changed_at is not None and time >= changed_at
        return state == "clear" or (late and state == "suspicious")

    records = (read(m.key or b"", m.value, dict(m.headers)) for m in messages)
    return History(records, STATES, good)


def set_up() -> None:
    """A zone whose clock changes, a target, service hours, and a label of most assets."""
    ReportingZone.objects.choose(ZONE)
    Target.objects.choose("attack", 99.5, SERVICE)
    Label.objects.bulk_create(
        Label(scenario="attack", asset=asset, key="tier", value=tier, source="person", at=1)
        for asset, tier in TIERS.items()
    )
