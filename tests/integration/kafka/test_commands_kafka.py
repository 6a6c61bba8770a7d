"""Commands and reports of the web process through a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from dashboard.core.common import kafka
from dashboard.core.common.kafka import Gateway
from dashboard.core.common.scenarios import scenarios
from dashboard.watch.commands.models import Command as Row
from domain.records import Report
from support.web.web_fixtures import bearer, commands_sent, make_user, sent
from wire.partitioner import partition_of
from wire.topics import Topics

pytestmark = pytest.mark.django_db

ASSETS = ("shop.example", "10.0.0.0/8", "Zürich · 東京", "a", "bb", "100% sure")


@pytest.fixture
def to(broker) -> Iterator[Gateway]:
    """The gateway to a real broker, with topics of its own."""
    cache.clear()
    bus = KafkaBus(broker.settings().kafka_options())
    topics = Topics(f"commands-{uuid.uuid4().hex[:8]}.")
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs(scenarios().values()))
    with kafka.use(bus, topics) as gateway:
        yield gateway


def put(asset: str, headers: dict[str, str]) -> Any:
    from urllib.parse import quote

    return Client().put(
        f"/api/v1/scenarios/attack/assets/{quote(asset, safe='')}",
        json.dumps({"state": "clear", "reason": "a drill"}),
        content_type="application/json",
        headers=headers,
    )


def test_a_command_lands_where_its_asset_belongs(to: Gateway):
    headers = bearer(make_user("operator"))
    partitions = scenarios()["attack"].partitions
    for asset in ASSETS:
        body = put(asset, headers).json()
        assert body["phase"] == "sent"
        assert body["partition"] == partition_of(asset.encode(), partitions)
    assert {command.asset for command in commands_sent(to, "attack")} == set(ASSETS)
    places = {(row.partition, row.offset) for row in Row.objects.all()}
    assert len(places) == len(ASSETS)


def test_reports_land_where_their_assets_belong(to: Gateway):
    reports = [{"asset": f"site-{n}", "agent": "waf-1", "state": "clear"} for n in range(500)]
    response = Client().post(
        "/api/v1/scenarios/attack/reports",
        json.dumps(reports),
        content_type="application/json",
        headers=bearer(make_user("operator")),
    )
    body = response.json()
    assert body["accepted"] == 500
    partitions = scenarios()["attack"].partitions
    for report, item in zip(reports, body["items"], strict=True):
        assert item["partition"] == partition_of(report["asset"].encode(), partitions)
    read = {asset for asset, record in sent(to, "attack") if isinstance(record, Report)}
    assert read == {report["asset"] for report in reports}


def test_a_broker_that_cannot_be_reached_leaves_the_command_unsent(
    to: Gateway, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kafka, "REACH_S", 0.5)
    nowhere = KafkaBus({"bootstrap.servers": "127.0.0.1:1"})
    with kafka.use(nowhere, to.topics):
        response = put("shop.example", bearer(make_user("operator")))
    assert response.status_code == 503
    assert response.json()["reason"] == "unsent"
    assert Row.objects.get().status == "unsent"
    assert commands_sent(to, "attack") == []
