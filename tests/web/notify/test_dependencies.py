"""What lies behind something in trouble pages nobody, and is told of once it outlives that."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.board.live.live_view import live_view
from dashboard.board.live.snapshots import causes
from dashboard.core.states.models import EventCount
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.models import Channel, Group, Message, Rule
from dashboard.watch.annotations.models import AGENT, PERSON, Label
from dashboard.watch.incidents.models import Incident
from domain.records import Report
from support.web.pages import text_of
from support.web.world import World

pytestmark = pytest.mark.django_db

MINUTE = 60_000
NETWORK = "192.0.2.0/25"


@pytest.fixture(autouse=True)
def rule() -> Rule:
    """A rule about everything, which sends at once."""
    channel = Channel.objects.create(name="SOC", kind="mail", address="s@a.org", changed_at=1)
    plain = {"window_ms": 0, "group_by": ["asset"], "stages": [{"channels": [channel.pk]}]}
    return Rule.objects.create(name="All", definition=plain, changed_at=1)


def behind(asset: str = "shop", source: str = PERSON) -> None:
    Label.objects.create(
        scenario="attack", asset=asset, key="network", value=NETWORK, source=source, name="x", at=1
    )


def network(world: World, state: str, **detail: Any) -> None:
    """The network is in this state: five minutes of reports, as its hold asks."""
    for _ in range(6):
        report = Report(NETWORK, "probe-1", state, detail=json.dumps(detail) if detail else None)
        world.job.put("connectivity", report)
        world.write()
        world.later(MINUTE)
    world.write()


def attacked(world: World, state: str = "under-attack") -> None:
    world.report("shop", state, "waf-1", "waf-2")
    world.write()


def subjects(at: int) -> list[str]:
    """What has been sent by then, in order."""
    decide(lambda: at)
    return list(Message.objects.order_by("created_at", "pk").values_list("subject", flat=True))


def test_what_lies_behind_a_network_that_is_down_pages_nobody(world: World) -> None:
    behind()
    network(world, "up")
    network(world, "down")
    attacked(world)
    now = world.bus._clock()
    assert subjects(now) == [f"{NETWORK} down"]
    assert subjects(now + 30 * MINUTE) == [f"{NETWORK} down"], "as long as that lasts"


def test_the_message_of_the_cause_counts_what_lies_behind_it(world: World) -> None:
    behind()
    behind("pay")
    network(world, "up")
    world.report("pay", "clear")
    attacked(world)
    network(world, "down")
    decide(world.bus._clock)
    message = Message.objects.get(subject=f"{NETWORK} down")
    assert f"Behind {NETWORK}: 2 sites, 1 of them not well." in message.text
    assert message.why.startswith("Rule All, stage 1 of 1."), "which comes first, as it may be cut"


def test_what_outlives_its_cause_by_the_grace_is_told_of(world: World) -> None:
    behind()
    network(world, "up")
    network(world, "down")
    attacked(world)
    assert subjects(world.bus._clock()) == [f"{NETWORK} down"]
    network(world, "up")
    [ended_at] = Incident.objects.filter(asset=NETWORK).values_list("ended_at", flat=True)
    assert ended_at is not None
    begun, over = subjects(ended_at + MINUTE)
    assert begun == f"{NETWORK} down"
    assert re.fullmatch(rf"Over: {NETWORK}, \d+ min \(was down\)", over)
    assert subjects(ended_at + 3 * MINUTE) == [begun, over, "shop under attack"]


def test_what_is_well_again_with_its_cause_is_dropped_and_the_reason_kept(world: World) -> None:
    behind()
    network(world, "up")
    network(world, "down")
    attacked(world)
    decide(world.bus._clock)
    for _ in range(3):
        world.report(NETWORK, "down", "probe-1", scenario="connectivity")
        attacked(world, "clear")
        world.later(MINUTE)
    attacked(world, "clear")
    assert not [each for each in subjects(world.bus._clock()) if each.startswith("shop")]
    group = Group.objects.get(key__contains="shop")
    assert group.reason == "behind another"


def test_the_rule_of_the_cause_may_tell_networks_apart_by_what_agents_add(
    world: World, rule: Rule
) -> None:
    Rule.objects.filter(pk=rule.pk).update(definition=rule.definition | {"scenarios": ["attack"]})
    slow = rule.definition | {"scenarios": ["connectivity"], "labels": ["latency_ms=>100"]}
    Rule.objects.create(name="Slow networks", definition=slow, changed_at=1)
    behind()
    network(world, "up", latency_ms=20)
    network(world, "down", latency_ms=900)
    attacked(world)
    assert subjects(world.bus._clock()) == [f"{NETWORK} down"]


def test_a_rule_that_cannot_be_read_is_counted_once(world: World) -> None:
    Rule.objects.create(name="Odd", definition={"stages": "none"}, changed_at=1)
    behind()
    network(world, "up")
    network(world, "down")
    network(world, "up")
    network(world, "down")
    attacked(world)
    decide(world.bus._clock)
    [count] = EventCount.objects.filter(topic="unreadable rule").values_list("n", flat=True)
    assert count == 1


@pytest.mark.parametrize("source", [AGENT, None])
def test_no_agent_puts_an_asset_where_nobody_is_called_for_it(
    world: World, source: str | None
) -> None:
    if source:
        behind(source=source)
    network(world, "up")
    network(world, "down")
    attacked(world)
    assert "shop under attack" in subjects(world.bus._clock())


def test_where_no_rule_tells_of_the_cause_nothing_is_held_back(world: World, rule: Rule) -> None:
    Rule.objects.filter(pk=rule.pk).update(definition=rule.definition | {"scenarios": ["attack"]})
    behind()
    network(world, "up")
    network(world, "down")
    attacked(world)
    assert subjects(world.bus._clock()) == ["shop under attack"]


def test_the_panel_says_behind_what_an_asset_lies(world: World, client: Client) -> None:
    behind()
    network(world, "up")
    network(world, "down")
    attacked(world)
    world.tail()
    read = text_of(client.get("/s/attack/a/shop/").content.decode())
    assert f"Behind {NETWORK} , which is Down" in read


def test_where_nothing_lies_behind_anything_no_network_is_looked_at(
    world: World, django_assert_num_queries: Any
) -> None:
    network(world, "up")
    network(world, "down")
    with django_assert_num_queries(1):
        assert causes("attack", live_view()) == {}


def marks_of_shop(world: World, client: Client) -> str:
    """What the row of the shop says beside its state."""
    world.tail()
    page = html.unescape(client.get("/?scenario=attack").content.decode())
    [cell] = re.findall(r'data-asset="shop".*?col-state">(.*?)</td>', page, re.DOTALL)
    return str(cell)


def test_the_row_says_so_while_what_it_lies_behind_is_not_well(
    world: World, client: Client
) -> None:
    behind()
    network(world, "up")
    attacked(world)
    assert "badge behind" not in marks_of_shop(world, client)
    network(world, "down")
    assert f'title="lies behind {NETWORK}, which is Down"' in marks_of_shop(world, client)
    assert f'<bdi class="said">{NETWORK}</bdi>' in marks_of_shop(world, client)
