"""What a rule sends and nobody gets is an alarm to the channels of last resort, not a loop."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.core.common.times import HOUR_MS, MINUTE_MS, now_ms
from dashboard.notify.notifications import delivery
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.delivery import MERGED, NO_LAST_RESORT, REACH_MS, alarm
from dashboard.notify.notifications.models import (
    FAILED,
    GIVEN_UP,
    HELD,
    NOT_SENT,
    SENT,
    Channel,
    Message,
    Rule,
)
from support.web.rotas import make_rota, put_on_call
from support.web.world import World

pytestmark = pytest.mark.django_db


def channel(address: str, **more: Any) -> Channel:
    return Channel.objects.create(
        name=address, kind="mail", address=address, changed_at=1, username="olga", **more
    )


def rule(**stage: Any) -> None:
    definition = {"window_ms": 0, "stages": [stage]}
    Rule.objects.create(name="Attacks", definition=definition, changed_at=1, username="olga")


def attacked(world: World, asset: str = "shop") -> None:
    world.report(asset, "under-attack")
    world.write()
    decide()


def alarms() -> list[Message]:
    return list(Message.objects.filter(kind=delivery.UNREACHED))


def look(ms: int = 0) -> None:
    alarm(lambda: now_ms() + ms)


def test_a_stage_with_nobody_on_call_is_an_alarm_at_once(world: World):
    channel("boss@example.org", last_resort=True)
    rota = make_rota()
    rule(rotas=[rota.pk])
    attacked(world)
    look()
    look(MINUTE_MS)
    [message] = alarms()
    assert message.recipient == "boss@example.org"
    assert message.subject == "Nobody was reached: shop under attack"
    assert "Night: nobody is on call in the rota who is active" in message.text
    assert "/notifications/ack/" in message.text
    assert Message.objects.get(status=HELD).unreached_at is not None


def test_what_is_tried_in_vain_is_an_alarm_after_some_tries(world: World):
    channel("boss@example.org", last_resort=True)
    rule(channels=[channel("soc@example.org, night@example.org").pk])
    attacked(world)
    Message.objects.filter(recipient="soc@example.org").update(status=GIVEN_UP, reason="550 no")
    Message.objects.filter(recipient="night@example.org").update(status=FAILED, reason="refused")
    look(REACH_MS - MINUTE_MS)
    assert alarms() == []
    look(REACH_MS + MINUTE_MS)
    [message] = alarms()
    assert "soc@example.org: 550 no" in message.text
    assert "night@example.org: refused" in message.text


@pytest.mark.parametrize("change", [{"status": SENT}, {"status": NOT_SENT, "reason": MERGED}])
def test_whoever_was_reached_is_enough(world: World, change: dict[str, str]):
    channel("boss@example.org", last_resort=True)
    rule(channels=[channel("soc@example.org, night@example.org").pk])
    attacked(world)
    Message.objects.filter(recipient="soc@example.org").update(**change)
    Message.objects.filter(recipient="night@example.org").update(status=GIVEN_UP, reason="550 no")
    look(REACH_MS + MINUTE_MS)
    assert alarms() == []


def test_what_reached_somebody_is_not_looked_at_again(world: World):
    rule(channels=[channel("soc@example.org, night@example.org").pk])
    attacked(world)
    Message.objects.filter(recipient="night@example.org").update(status=GIVEN_UP, reason="550 no")
    assert Message.objects.without_reader(0).count() == 2
    Message.objects.filter(recipient="soc@example.org").update(status=SENT)
    assert not Message.objects.without_reader(0).exists()


def test_what_is_given_up_after_a_day_is_an_alarm_too(world: World):
    channel("boss@example.org", last_resort=True)
    rule(channels=[channel("soc@example.org").pk])
    attacked(world)
    Message.objects.update(status=GIVEN_UP, reason="refused")
    look(24 * HOUR_MS + MINUTE_MS)
    assert len(alarms()) == 1


def test_an_alarm_that_fails_is_no_alarm_again(world: World):
    channel("boss@example.org", last_resort=True)
    rule(channels=[channel("soc@example.org").pk])
    attacked(world)
    Message.objects.update(status=GIVEN_UP, reason="550 no")
    look()
    Message.objects.filter(kind=delivery.UNREACHED).update(status=GIVEN_UP, reason="550 no")
    for minutes in range(30):
        look(minutes * MINUTE_MS)
    assert len(alarms()) == 1


def test_a_last_resort_that_has_failed_itself_is_left_out_and_none_is_said(world: World):
    resort = channel("boss@example.org", last_resort=True)
    rule(channels=[resort.pk])
    attacked(world)
    Message.objects.update(status=GIVEN_UP, reason="550 no")
    look()
    [message] = alarms()
    assert (message.status, message.reason) == (NOT_SENT, NO_LAST_RESORT)


def test_without_a_last_resort_the_list_of_messages_says_so(world: World, client: Client):
    rota = make_rota()
    rule(rotas=[rota.pk])
    attacked(world)
    look()
    assert alarms() == []
    assert "Nobody was reached" in client.get("/notifications/messages/").content.decode()


def test_several_are_one_alarm(world: World):
    channel("boss@example.org", last_resort=True)
    rota = make_rota()
    rule(rotas=[rota.pk])
    Rule.objects.update(definition=Rule.objects.get().definition | {"group_by": ["asset"]})
    attacked(world, "shop")
    attacked(world, "forum")
    look()
    [message] = alarms()
    assert message.subject == "Nobody was reached: 2 messages"
    assert "shop under attack" in message.text
    assert "forum under attack" in message.text


def test_who_is_on_call_and_reached_raises_none(world: World):
    channel("boss@example.org", last_resort=True)
    rota = make_rota()
    put_on_call(rota, "nina")
    rule(rotas=[rota.pk])
    attacked(world)
    Message.objects.update(status=SENT)
    look(REACH_MS + MINUTE_MS)
    look(2 * HOUR_MS)
    assert alarms() == []
