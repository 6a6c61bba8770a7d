"""The demo's rule: made once, where the mail catcher is; its channel is off where it is not."""

from __future__ import annotations

from functools import partial

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from dashboard.core.common.scenarios import scenarios
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.models import Channel, Message, Rule
from dashboard.notify.notifications.rule_forms import checked
from domain.notifications.events import BEGUN, ENDED, Event
from domain.notifications.machine import Send, Summary, World
from domain.notifications.rehearsal import Rehearsal
from support.web.world import World as PlayedWorld

pytestmark = pytest.mark.django_db

SECOND, MINUTE = 1_000, 60_000


def played(*attacks: tuple[int, int], tier: str = "gold") -> list[tuple[int, int]]:
    """When the demo's rule sends by attacks that begin and last so long (s): the time (s), and how
    many messages by then."""
    call_command("demo_notifications")
    events = []
    for number, (begin, length) in enumerate(attacks):
        asset, place, end = f"site-{number}", str(number), begin + length
        events += [
            Event(BEGUN, "attack", asset, begin * SECOND, place, "under-attack", {"tier": tier}),
            Event(ENDED, "attack", asset, end * SECOND, place, "clear"),
        ]
    events.sort(key=lambda each: each.at)
    rehearsal = Rehearsal(checked(Rule.objects.get().definition), World(scenarios()))
    sent = [
        at // SECOND
        for at, action in rehearsal.play(events, 13 * MINUTE)
        if isinstance(action, Send | Summary)
    ]
    return list(zip(sent, range(1, len(sent) + 1), strict=True))


def test_a_lasting_attack_is_told_with_its_end():
    assert played((20, 90)) == [(50, 1), (110, 2)]


def test_what_flares_up_is_told_to_nobody():
    assert played(*((at, 15) for at in range(0, 600, 40))) == []


def test_others_than_gold_customers_are_told_to_nobody():
    assert played((20, 90), tier="silver") == []


@pytest.mark.parametrize("every", [10, 45, 150])
def test_waves_of_attack_are_three_mails_in_a_quarter_of_an_hour(every: int):
    assert 1 <= len(played(*((at, 60) for at in range(0, 720, every)))) <= 3


def reported(world: PlayedWorld, scenario: str, asset: str, state: str, *agents: str) -> None:
    """Report this for half a minute."""
    for _ in range(7):
        world.report(asset, state, *agents, scenario=scenario)
        world.write()
        world.later(5 * SECOND)
    world.write()


def test_a_site_behind_a_network_that_is_down_is_told_to_nobody(
    world: PlayedWorld, client: Client
) -> None:
    call_command("demo_notifications")
    call_command("demo_labels")
    network, watchers = "203.0.113.0/28", ("waf-1", "waf-2", "scrubber-1")
    reported(world, "connectivity", network, "up", "monitor-east")
    reported(world, "attack", "shop.example", "clear", *watchers)
    reported(world, "connectivity", network, "down", "monitor-east")
    reported(world, "attack", "shop.example", "under-attack", *watchers)
    reported(world, "attack", "pay.example", "under-attack", *watchers)
    now = world.bus._clock()
    for at in (now, now + 15 * SECOND):
        decide(partial(int, at))
    texts = dict(Message.objects.values_list("subject", "text"))
    assert texts.keys() == {f"{network} down", "pay.example under attack"}
    assert f"Behind {network}: 1 site, 1 of them not well." in texts[f"{network} down"]
    page = client.get("/?scenario=attack").content.decode()
    assert f'title="lies behind {network}, which is Down"' in page


def test_it_is_made_once_and_is_not_made_again():
    for _ in range(2):
        call_command("demo_notifications")
    rule = checked(Rule.objects.get().definition)
    assert rule.stages[0].channels == (Channel.objects.get().pk,)
    Rule.objects.all().delete()
    call_command("demo_notifications")
    assert not Rule.objects.exists()


def test_without_the_catcher_its_channel_is_off(monkeypatch: pytest.MonkeyPatch):
    call_command("demo_notifications")
    own = Channel.objects.create(name="SOC", kind="mail", address="a@example.org", changed_at=1)
    given = settings.TALLYBOARD.model_copy(update={"smtp_host": "mail.example.org"})
    monkeypatch.setattr(settings, "TALLYBOARD", given)
    call_command("demo_notifications")
    assert list(Channel.objects.filter(enabled=True)) == [own]


def test_an_address_that_somebody_gave_it_is_their_own(monkeypatch: pytest.MonkeyPatch):
    call_command("demo_notifications")
    Channel.objects.update(address="soc@example.org")
    given = settings.TALLYBOARD.model_copy(update={"demo": False})
    monkeypatch.setattr(settings, "TALLYBOARD", given)
    call_command("demo_notifications")
    assert Channel.objects.get().enabled
