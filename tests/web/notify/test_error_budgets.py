"""Rules report error budgets that burn too fast, by rates counted minute by minute."""

from __future__ import annotations

import random

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.models import AgentEvent, Channel, Message, Rule
from dashboard.notify.notifications.rule_forms import create_rule
from dashboard.notify.summaries.budgets import watch
from dashboard.notify.summaries.calculation import burns_of
from dashboard.notify.summaries.models import Gap, ImpairedSpan, Presence, Progress, Target
from domain.notifications.rule_parser import rule_from_plain
from support.web.clocks import at
from support.web.pages import text_of
from support.web.summaries import sum_up

pytestmark = [pytest.mark.django_db, pytest.mark.role("admin")]

BEGUN = at("2026-03-02")
NOON = BEGUN + 6 * DAY_MS + 12 * HOUR_MS
SITES = ("shop", "bank")
FIVE, THIRTY = 5 * MINUTE_MS, 30 * MINUTE_MS
WINDOWS = (FIVE, THIRTY, HOUR_MS, 6 * HOUR_MS, 3 * DAY_MS)


@pytest.fixture(autouse=True)
def board() -> None:
    """Two sites, of whose time one percent may be bad."""
    for asset in SITES:
        Presence.objects.create(scenario="attack", asset=asset, place="0", begin=BEGUN)
    Progress.objects.mark({"attack": BEGUN})
    Target.objects.create(scenario="attack", percent=99)


def bad(begin: int, end: int | None, asset: str = "shop") -> None:
    ImpairedSpan.objects.create(
        scenario="attack", asset=asset, place=f"{begin:020}", begin=begin, end=end,
        end_place="" if end is None else f"{end:020}", state="under-attack", unconfirmed=False,
    )  # fmt: skip


def events() -> list[tuple[str, str, int]]:
    return list(AgentEvent.objects.order_by("pk").values_list("kind", "finding", "at"))


@pytest.mark.spread(1)
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_budgets_burn_too_fast_as_counted_minute_by_minute(seed: int):
    dice = random.Random(seed)
    minutes: set[tuple[str, int]] = set()
    for asset in SITES:
        at = NOON - 3 * DAY_MS
        while at < NOON + 6 * HOUR_MS:
            at += dice.choice((10, 45, 120, 600)) * MINUTE_MS
            end = at + dice.choice((2, 7, 15)) * MINUTE_MS
            bad(at, end, asset)
            minutes |= {(asset, minute) for minute in range(at, end, MINUTE_MS)}
            at = end
    sum_up(NOON)
    burning: dict[str, bool] = {"budget-fast": False, "budget-slow": False}
    expected: list[tuple[str, str, int]] = []
    for now in range(NOON, NOON + 4 * HOUR_MS, 13 * MINUTE_MS):
        rates = {
            window: sum(
                (asset, minute) in minutes
                for asset in SITES
                for minute in range(now - window, now, MINUTE_MS)
            )
            * MINUTE_MS
            / (2 * window)
            / 0.01
            for window in WINDOWS
        }
        assert burns_of("attack", 99, WINDOWS, now) == pytest.approx(rates)
        fast = min(rates[HOUR_MS], rates[FIVE]) > 14.4
        fast = fast or min(rates[6 * HOUR_MS], rates[THIRTY]) > 6
        slow = min(rates[3 * DAY_MS], rates[6 * HOUR_MS]) > 1
        for kind, is_so in (("budget-fast", fast), ("budget-slow", slow)):
            if burning[kind] != is_so:
                burning[kind] = is_so
                expected.append(("begun" if is_so else "ended", kind, now))
        watch(now)
        watch(now)
    assert events() == expected
    assert expected


def test_a_short_outage_wakes_nobody_and_what_is_over_is_soon_over():
    bad(NOON - 4 * MINUTE_MS, None)
    watch(NOON)  # 4 of 120 minutes, 3.3 times; half of the last five
    assert events() == []
    watch(NOON + 15 * MINUTE_MS)
    assert events() == [("begun", "budget-fast", NOON + 15 * MINUTE_MS)]
    ImpairedSpan.objects.update(end=NOON + 15 * MINUTE_MS, end_place="z")
    watch(NOON + 18 * MINUTE_MS)
    assert len(events()) == 1
    watch(NOON + 21 * MINUTE_MS)
    assert events()[1:] == [("ended", "budget-fast", NOON + 21 * MINUTE_MS)]


def test_what_nobody_observes_neither_begins_nor_ends():
    bad(NOON - HOUR_MS, NOON)
    watch(NOON)
    assert [each[:2] for each in events()] == [("begun", "budget-fast")]
    Gap.objects.create(scenario="attack", begin=NOON, end=NOON + DAY_MS)
    watch(NOON + 6 * MINUTE_MS)
    assert len(events()) == 1
    watch(NOON + DAY_MS + 10 * MINUTE_MS)
    assert [each[:2] for each in events()[1:]] == [("ended", "budget-fast")]


def test_a_target_that_is_taken_away_ends_what_was_reported():
    bad(NOON - HOUR_MS, NOON)
    watch(NOON)
    Target.objects.choose("attack", None)
    watch(NOON + MINUTE_MS)
    assert [each[0] for each in events()] == ["begun", "ended"]


# ---- what a rule sends --------------------------------------------------------------------------


def rule(author: User, channel: Channel, name: str, **more: object) -> Rule:
    plain = {"incidents": False, "window_ms": 0, "stages": [{"channels": [channel.pk]}], **more}
    return create_rule(author, name, rule_from_plain(plain), True, 1)


def test_a_rule_with_budgets_sends_begin_and_end(user: User, channel: Channel, client: Client):
    own = rule(user, channel, "Budgets", budgets=True)
    rule(user, channel, "Agents", agents=["agent-silent"])
    rule(user, channel, "Networks", budgets=True, scenarios=["connectivity"])
    bad(NOON - 20 * MINUTE_MS, NOON)
    watch(NOON)
    decide(lambda: NOON)
    opened = Message.objects.get()
    assert opened.rule == own
    words = "burns 16.7 times as fast as the target of 99 % allows, over the last 60 min"
    assert opened.subject == f"Error budget of Attacks: {words}"
    assert "/summary/?period=month&scenario=attack" in opened.text
    assert "Acknowledge" not in opened.text
    assert '<th align="left">Error budget</th>' in opened.html
    assert opened.payload["agents"] == opened.payload["incidents"] == []
    assert opened.payload["budgets"][0]["finding"] == "budget-fast"
    group = opened.group
    assert group is not None
    page = text_of(client.get(f"/notifications/ack/{group.token}/").content.decode())
    assert "An error budget is burning too fast" in page
    assert "It still burns" in page
    assert "error budget of Attacks" in page
    watch(NOON + 6 * MINUTE_MS)
    decide(lambda: NOON + 6 * MINUTE_MS)
    ended = Message.objects.exclude(pk=opened.pk).get()
    was = f"Over: Error budget of Attacks, 6 min (was: {words})"
    assert (ended.kind, ended.subject) == ("resolved", was)
    page = text_of(client.get(f"/notifications/ack/{group.token}/").content.decode())
    assert "It no longer burns so fast" in page
    shown = text_of(client.get(f"/notifications/rules/{own.pk}/").content.decode())
    assert "reported when they burn too fast" in shown
    form = client.get("/notifications/rules/new/").content.decode()
    assert "Error budgets that burn too fast" in form
