"""Reports of clients with another partitioner: on the board, and on the agent's page."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from dashboard.core.common.scenarios import topics
from dashboard.core.common.times import now_ms
from dashboard.core.states.models import AssetState
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.watch.agents.reports import of_the_day
from support.web.pages import text_of
from support.web.world import World
from wire.partitioner import partition_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("stopped_clock")]


def send(world: World, asset: str, agent: str, *, keyed: bool) -> None:
    """Say that an asset is under attack: on a partition of no meaning, or without a key."""
    report = {"type": "report", "asset": asset, "agent": agent, "state": "under-attack"}
    key = asset.encode() if keyed else None
    wrong = (partition_of(asset.encode(), world.job.scenarios["attack"].partitions) + 1) % 4
    topic = topics().reports("attack")
    value = json.dumps(report).encode()
    world.gateway.producer().send_and_wait(topic, key, value, partition=wrong)


def test_a_report_on_any_partition_or_without_a_key_is_on_the_board(
    world: World, client: Client
) -> None:
    for agent in ("waf-1", "waf-2", "waf-3"):
        send(world, "shop", agent, keyed=True)
        send(world, "café", agent, keyed=False)
    world.write()  # forwards them
    world.write()
    states = dict(AssetState.objects.values_list("asset", "state"))
    assert states == {"shop": "under-attack", "café": "under-attack"}
    assert not DeadLetter.objects.exists()


def test_the_agents_page_counts_what_was_forwarded(world: World, client: Client) -> None:
    send(world, "shop", "waf-1", keyed=True)
    send(world, "café", "waf-1", keyed=False)
    world.report("shop", "clear", "waf-2")
    world.write()
    world.write()
    counts = of_the_day(world.job.scenarios["attack"], None, now_ms())
    assert {agent: late.forwarded for agent, late in counts.items()} == {"waf-1": 2}
    page = text_of(client.get("/agents/attack/waf-1/").content.decode())
    assert "Forwarded 2" in page
    assert "Forwarded" not in text_of(client.get("/agents/attack/waf-2/").content.decode())
    agents = client.get("/api/v1/scenarios/attack/agents").json()["items"]
    assert {each["agent"]: each["late"]["forwarded"] for each in agents} == {"waf-1": 2, "waf-2": 0}
