"""Hostile texts in every field and address of the pages of batch queries."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.test import Client

from dashboard.core.common.times import now_ms
from dashboard.operate.requests.models import Reading, StoredRow, Trial
from support.histories.hostile import calm, text
from support.web.web_fixtures import make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

FORM_TYPE = "application/x-www-form-urlencoded"


@pytest.fixture
def client(world: World) -> Client:
    world.write()
    client = Client(raise_request_exception=False)
    client.force_login(make_user("admin"))
    return client


def parameter(text: str) -> str:
    return quote(text[:8000].encode(errors="surrogatepass"))


def post(client: Client, url: str, fields: dict[str, Any]) -> Any:
    return client.post(url, urlencode(fields, errors="surrogatepass"), content_type=FORM_TYPE)


@text
@pytest.mark.spread(2)
def test_the_fields_of_a_reading(client: Client, text: str) -> None:
    for field in ("scenario", "partition", "asset", "after"):
        calm(post(client, "/state-store/", {"scenario": "attack", field: text}), text)
    assert all(len(one.asset) <= 255 for one in Reading.objects.all())
    calm(client.get(f"/state-store/?scenario={parameter(text)}&asset={parameter(text)}"), text)


@text
@pytest.mark.spread(2)
def test_the_fields_of_a_trial(client: Client, text: str) -> None:
    good = {"scenario": "attack", "back": "6", "min_voters": "1"}
    for field in ("scenario", "back", "since", "vote_lifetime", "hold-0", "rule", "reason", "more"):
        calm(post(client, "/what-if/run/", {**good, field: text}), text)
    assert all(len(one.reason) <= 500 for one in Trial.objects.all())
    calm(client.get(f"/what-if/?scenario={parameter(text)}&rule={parameter(text)}"), text)


@text
@pytest.mark.spread(2)
def test_what_is_shown_of_a_result(client: Client, text: str) -> None:
    ask, name = uuid.uuid4(), text.replace("\0", "").encode(errors="replace").decode()[:200]
    reading = Reading.objects.create(
        id=ask, scenario="attack", query="kernel", asked_at=now_ms(), complete=True,
        received_at=now_ms(),
    )  # fmt: skip
    StoredRow.objects.create(
        reading=reading, asset=name, partition=0, state=name[:64], verdict="differs",
        board_state=name[:64], version="1.1.0", board_version="1.0.0",
    )  # fmt: skip
    calm(client.get(f"/state-store/{ask}/"), text)
    for field in ("verdict", "q", "sort", "page"):
        calm(client.get(f"/state-store/{ask}/?{field}={parameter(text)}"), text)
        rows = client.get(f"/state-store/{ask}/rows.ndjson?{field}={parameter(text)}")
        assert rows.status_code in (200, 400, 422)
        assert rows.getvalue().count(b"\n") <= 1
    trial = Trial.objects.create(
        id=uuid.uuid4(), scenario="attack", query="kernel", since=0, keys=name, reason=name,
        username="ada", asked_at=now_ms(),
    )  # fmt: skip
    calm(client.get(f"/what-if/{trial.pk}/?q={parameter(text)}&page={parameter(text)}"), text)
    calm(post(client, f"/batch-queries/{ask}/cancel/", {"back": text}), text)
