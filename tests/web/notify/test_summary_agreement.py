"""A month of two scenarios with targets that differ is told alike by page, files, REST and mail, in
zones whose clocks change, as counted minute by minute."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import floor
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from dashboard.core.common import times
from dashboard.notify.summaries.calculation import summary
from dashboard.notify.summaries.digests import content_of
from dashboard.notify.summaries.figures import Question
from dashboard.notify.summaries.models import (
    Gap,
    ImpairedSpan,
    Presence,
    Progress,
    ReportingZone,
    Target,
)
from dashboard.notify.summaries.rollups import sum_up_day
from dashboard.watch.incidents.models import Incident
from domain.history.periods import containing

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TARGETS = {"attack": 97.5, "connectivity": 99.25}
TITLES = {"attack": "Attacks", "connectivity": "Connectivity"}
BAD = {"attack": "under-attack", "connectivity": "down"}
MARCH = "period=month&date=2026-03-01&scenario=attack&scenario=connectivity"


def at(text: str) -> int:
    """A time in UTC, Unix ms."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


BEGUN, NOW = at("2026-02-15T00:00"), at("2026-04-02T10:17")


@dataclass
class Past:
    """What happened to a scenario, as minutes, and as spans in ms."""

    present: set[tuple[str, int]] = field(default_factory=set)
    bad: set[tuple[str, int]] = field(default_factory=set)
    unseen: set[int] = field(default_factory=set)
    incidents: list[tuple[int, int, int | None]] = field(default_factory=list)


def minutes(begin: int, end: int) -> range:
    return range(begin, end, MINUTE)


def lived(name: str, seed: int) -> Past:
    """Store a scenario's past, made up at random; return what it was."""
    past, dice = Past(), random.Random(f"{name} {seed}")
    for n in range(3):
        asset = f"{name}-{n}"
        came = BEGUN + dice.randrange(20 * 1_440) * MINUTE
        left = came + dice.randrange(10, 25) * DAY + 7 * MINUTE if n == 0 else NOW
        for begin, end in ((came, left), (left + 3 * HOUR, NOW)):
            if begin < end:
                stay(past, name, asset, begin, end, dice)
    for _ in range(4):
        begin = BEGUN + dice.randrange(43 * 1_440) * MINUTE
        end = begin + dice.choice((7, 61, 600, 2_000)) * MINUTE
        Gap.objects.create(scenario=name, begin=begin, end=end)
        past.unseen |= set(minutes(begin, end))
    Progress.objects.mark({name: BEGUN})
    return past


def stay(past: Past, name: str, asset: str, begin: int, end: int, dice: random.Random) -> None:
    """Store a time of an asset on the board, with what was bad in it."""
    ended = {} if end == NOW else {"end": end, "end_place": f"{end:020}"}
    Presence.objects.create(scenario=name, asset=asset, place=f"{begin:020}", begin=begin, **ended)
    past.present |= {(asset, minute) for minute in minutes(begin, end)}
    low = begin + dice.randrange(1, 3_000) * MINUTE
    while low < end:
        high = min(end, low + dice.choice((1, 4, 30, 200, 3_000)) * MINUTE)
        answered = low + 2 * MINUTE if dice.random() < 0.5 else None
        Incident.objects.create(
            scenario=name, asset=asset, place=f"{low:020}", began_at=low, ended_at=high,
            acknowledged_at=answered, state=BAD[name], worst=BAD[name],
        )  # fmt: skip
        ImpairedSpan.objects.create(
            scenario=name, asset=asset, place=f"{low:020}", begin=low, end=high,
            end_place=f"{high:020}", state=BAD[name], unconfirmed=False,
        )  # fmt: skip
        past.bad |= {(asset, minute) for minute in minutes(low, high)}
        past.incidents.append((low, high, answered))
        low = high + dice.randrange(16, 4_000) * MINUTE


# ---- the count ----------------------------------------------------------------------------------


def rank(delays: list[int], percent: int) -> int | None:
    """The smallest delay that so many of 100 do not exceed."""
    for each in sorted(delays):
        if 100 * sum(other <= each for other in delays) >= percent * len(delays):
            return each
    return None


def counted(past: Past, name: str, begin: int, end: int) -> dict[str, Any]:
    """What a time adds up to, by the names of REST."""
    first = min(minute for _, minute in past.present)
    seen = {m for m in minutes(begin, end) if m >= first and m not in past.unseen}
    there = {each for each in past.present if each[1] in seen}
    bad = len(there & past.bad) * MINUTE
    good = len(there) * MINUTE - bad
    budget = round((100 - TARGETS[name]) / 100 * (good + bad))
    cleared = [high - low for low, high, _ in past.incidents if begin <= high < end]
    answered = [ack - low for low, _, ack in past.incidents if ack and begin <= low < end]
    return {
        "observed_ms": len(seen) * MINUTE,
        "observed_share": pytest.approx(len(seen) * MINUTE / (end - begin)),
        "good_ms": good,
        "bad_ms": bad,
        "availability": pytest.approx(good / (good + bad)),
        "target_percent": TARGETS[name],
        "target_met": bad <= budget,
        "budget_ms": pytest.approx(budget, abs=1),
        "budget_left_ms": pytest.approx(budget - bad, abs=1),
        "incidents": sum(low < end and high > begin for low, high, _ in past.incidents),
        "cleared": len(cleared),
        "cleared_median_ms": rank(cleared, 50),
        "cleared_p95_ms": rank(cleared, 95),
        "acknowledged_median_ms": rank(answered, 50),
        "acknowledged_p95_ms": rank(answered, 95),
    }


def burn_rate(past: Past, name: str, begin: int, end: int) -> float | None:
    own = counted(past, name, begin, end)
    whole = own["good_ms"] + own["bad_ms"]
    return own["bad_ms"] / whole / (1 - TARGETS[name] / 100) if whole else None


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is NOW."""
    now = datetime.fromtimestamp(NOW / 1000, UTC)
    monkeypatch.setattr(times, "timezone", SimpleNamespace(now=lambda: now))


@pytest.mark.spread(3)
@pytest.mark.parametrize("summed", [False, True], ids=["raw", "summed up"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"])
def test_a_month_is_told_alike_everywhere(client: Client, zone: str, summed: bool):
    ReportingZone.objects.choose(zone)
    pasts = {name: lived(name, len(zone)) for name in TARGETS}
    for name, percent in TARGETS.items():
        Target.objects.create(scenario=name, percent=percent)
        while summed and sum_up_day(name, NOW):
            pass
    begin, end = (
        int(datetime(2026, month, 1, tzinfo=ZoneInfo(zone)).timestamp() * 1000) for month in (3, 4)
    )
    expected = {name: counted(past, name, begin, end) for name, past in pasts.items()}
    rest = client.get(f"/api/v1/summary?{MARCH}").json()
    assert rest["zone"] == zone
    for group in rest["scenarios"]:
        own = expected[group["name"]]
        assert {key: group["now"][key] for key in own} == own
    for status in rest["targets"]:
        name = status["scenario"]
        assert status["line"][-1]["left_ms"] == expected[name]["budget_left_ms"]
        for burn, window in zip(status["burn"], (HOUR, 6 * HOUR, 3 * DAY), strict=True):
            rate = burn_rate(pasts[name], name, end - window, end)
            assert (burn["window_ms"], burn["rate"]) == (window, rate and pytest.approx(rate))
    assert rest["now"]["bad_ms"] == sum(own["bad_ms"] for own in expected.values())
    assert rest["now"]["target_met"] is None
    file: Any = client.get(f"/summary/scenarios.csv?{MARCH}")
    rows = list(csv.DictReader(io.StringIO(b"".join(file.streaming_content).decode())))
    for row in (row for row in rows if row["period"] == "now"):
        own = expected[row["scenario"]]
        assert {key: own_value(row[key]) for key in own} == own
    context = client.get(f"/summary/?{MARCH}").context
    for name, own in expected.items():
        verb = "met" if own["target_met"] else "missed"
        assert f"{TITLES[name]} {verb} " in context["sentence"]
        assert f"{TARGETS[name]:g} %, {verb}" in {row.target for row in context["target_rows"]}
        mail = content_of(
            summary(Question((name,), containing("month", date(2026, 3, 1))), NOW),
            TITLES[name], "every month", "https://x/end",
        )  # fmt: skip
        share = own["good_ms"] / (own["good_ms"] + own["bad_ms"])
        shown = f"{floor(share * 100_000 + 1e-6) / 1_000:.3f}".rstrip("0").rstrip(".")
        assert f"available {shown} %" in mail.subject
        figures = {each.name: each.now for each in mail.changes}
        assert figures["Incidents"] == str(own["incidents"])


def own_value(cell: str) -> Any:
    """What a cell of CSV means."""
    known = {"True": True, "False": False, "": None}
    if cell in known:
        return known[cell]
    return float(cell) if "." in cell else int(cell)
