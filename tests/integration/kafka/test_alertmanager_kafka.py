"""An alert that Alertmanager sends is a report in the log, where its asset belongs."""

from __future__ import annotations

import hashlib
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
from dashboard.core.job.models import BucketStatus
from domain.records import Report
from support.web.web_fixtures import bearer, make_user, sent
from wire.partitioner import partition_of
from wire.topics import Topics

pytestmark = pytest.mark.django_db

ASSETS = ("shop.example", "10.0.0.0/8", "Zürich · 東京", "mail.example")


@pytest.fixture
def to(broker: Any) -> Iterator[Gateway]:
    """The gateway to a real broker, with topics of its own."""
    cache.clear()
    bus = KafkaBus(broker.settings().kafka_options())
    topics = Topics(f"alerts-{uuid.uuid4().hex[:8]}.")
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs(scenarios().values()))
    with kafka.use(bus, topics) as gateway:
        yield gateway


def alert(asset: str, status: str) -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": "Flood", "severity": "critical", "instance": asset},
        "annotations": {"summary": "many requests"},
        "startsAt": "2025-10-09T08:53:20Z",
        "endsAt": "2025-10-09T08:54:20Z",
        "fingerprint": hashlib.sha256(asset.encode()).hexdigest()[:16],
    }


def test_alerts_are_reports_on_their_assets_partitions(to: Gateway):
    posts = [[alert(asset, "firing") for asset in ASSETS], [alert(ASSETS[0], "resolved")]]
    headers, items = bearer(make_user("operator"), "report"), []
    for alerts in posts:
        response = Client().post(
            "/api/v1/scenarios/attack/alertmanager?time=alert",
            json.dumps({"version": "4", "status": "firing", "alerts": alerts}),
            content_type="application/json",
            headers=headers,
        )
        assert response.status_code == 202, response.content
        items += response.json()["items"]
    partitions = scenarios()["attack"].partitions
    for asset, item in zip((*ASSETS, ASSETS[0]), items, strict=True):
        assert item["partition"] == partition_of(asset.encode(), partitions)
    records = [(asset, record) for asset, record in sent(to, "attack")]
    assert all(isinstance(record, Report) for _, record in records)
    reports = {(asset, record.agent, record.state, record.reported_at) for asset, record in records}
    assert reports == {
        (asset, "alertmanager/Flood", "under-attack", 1_760_000_000_000) for asset in ASSETS
    } | {(ASSETS[0], "alertmanager/Flood", "clear", 1_760_000_060_000)}
    of_shop = [record.state for asset, record in records if asset == ASSETS[0]]
    assert of_shop == ["under-attack", "clear"]


def test_partitions_tell_what_the_broker_holds(to: Gateway):
    producer = to.producer()
    for _ in range(3):
        producer.send_and_wait(to.topics.reports("attack"), None, b'{"type":"tick"}', partition=1)
    BucketStatus.objects.create(
        bucket="attack/1", scenario="attack", partition=1, epoch=1, executor="1", host="h",
        log_time=1_000, offset=0, assets=0, timers=0, records=0, dead_letters=0, stale=0,
        engine="kernel", at=1_000, received_at=1_000,
    )  # fmt: skip
    headers = bearer(make_user("operator"))
    payload = Client().get("/api/v1/partitions", headers=headers).json()
    assert payload["broker"] == "answers"
    (row,) = [
        row for row in payload["partitions"] if (row["scenario"], row["partition"]) == ("attack", 1)
    ]
    assert (row["topic"], row["begin"], row["end"]) == (to.topics.reports("attack"), 0, 3)
    assert (row["offset"], row["lag"]) == (0, 2)
    metrics = Client().get("/metrics", headers=headers).content.decode()
    assert 'tallyboard_bucket_lag_records{partition="1",scenario="attack"} 2.0' in metrics


def test_a_broker_that_cannot_be_reached_is_said_plainly(to: Gateway):
    nowhere = KafkaBus({"bootstrap.servers": "127.0.0.1:1"})
    with kafka.use(nowhere, to.topics):
        headers = bearer(make_user("operator"))
        payload = Client().get("/api/v1/partitions", headers=headers).json()
        metrics = Client().get("/metrics", headers=headers).content.decode()
    assert payload["broker"].startswith("Kafka does not answer: ")
    assert {row["end"] for row in payload["partitions"]} == {None}
    assert "tallyboard_broker_up 0.0" in metrics
