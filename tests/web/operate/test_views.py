"""The pages and operations of views: what they show, of whatever bytes, and when they do not."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.core.cache import cache
from django.test import Client

from dashboard.core.common.times import now_ms
from dashboard.operate.console.topic_copies import STALE_MS, copies, missing_views
from dashboard.serve.api import health
from support.histories.hostile import calm, text
from support.web.web_fixtures import bearer, known_view, logged_in, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    cache.clear()
    return logged_in(make_user("operator"))


def page(client: Client, path: str = "/views/orders/") -> str:
    response = client.get(path)
    assert response.status_code == 200, response.content[:500]
    return response.content.decode()


def keys_of(shown: str) -> list[str]:
    """The keys that a page shows, in its order."""
    return re.findall(r'<th scope="row" class="wrap"><bdi>(.*?)</bdi>', shown)


def api(client: Client, path: str, status: int = 200) -> Any:
    response = client.get(f"/api/v1/{path}")
    assert response.status_code == status, response.content[:500]
    return response.json()


# ---- rows ---------------------------------------------------------------------------------------


def test_a_page_of_rows_by_key(client):
    known_view((b"order-2", b'{"state": "new"}'), (b"order-1", b"x"), (b"order-2", b"1"))
    shown = page(client)
    assert shown.index("order-1") < shown.index("order-2")
    assert "2 rows" in shown
    rows = api(client, "views/orders")
    assert [(row["key"], row["value"], row["value_form"]) for row in rows["items"]] == [
        ("order-1", "x", "text"),
        ("order-2", 1, "json"),
    ]
    assert rows["next"] is None
    row = api(client, "views/orders/order-2")
    assert (row["partition"], row["offset"], row["as_of"] <= now_ms()) == (0, 2, True)


def test_a_deleted_key_is_not_there(client):
    known_view((b"order-1", b"1"), (b"order-1", None))
    assert api(client, "views/orders")["items"] == []
    assert api(client, "views/orders/order-1", 404)["reason"] == "unknown-key"
    assert "No row yet" in page(client)


def test_filters_by_pattern_of_keys_and_by_value(client):
    known_view((b"order-1", b"1"), (b"order-2", b"{}"), (b"other", b"1"))
    answer = api(client, "views/orders?key=order-*&not_empty=true")
    assert [row["key"] for row in answer["items"]] == ["order-1"]
    assert keys_of(page(client, "/views/orders/?key=order-*&not_empty=on")) == ["order-1"]
    assert "Nothing matches" in page(client, "/views/orders/?key=nobody")


def test_filters_by_a_regular_expression_of_keys(client):
    known_view((b"order-1", b"1"), (b"order-2", b"{}"), (b"order-12", b"1"))
    text = "order-(1%7C2)"
    answer = api(client, f"views/orders?matches={text}")
    assert [row["key"] for row in answer["items"]] == ["order-1", "order-2"]
    assert keys_of(page(client, f"/views/orders/?expression={text}&not_empty=on")) == ["order-1"]
    body = client.get("/views/orders/?expression=(a").content.decode()
    assert "Expected a regular expression as RE2 has them: missing ): (a" in body


def test_pages_follow_each_other_whatever_the_keys_are(client):
    keys = [b"%03d" % number for number in range(119)] + [b"\xff\x00"]
    known_view(*((key, b"") for key in keys))
    after, read_keys = "", []
    while after is not None:
        part = api(client, f"views/orders?limit=50&after={after}")
        read_keys += [row["key"] for row in part["items"]]
        after = part["next"]
    assert read_keys == [key.decode() for key in keys[:-1]] + ["_wA="]
    assert keys_of(first := page(client)) == [key.decode() for key in keys[:100]]
    assert "data-refresh" in first
    second = keys_of(page(client, f"/views/orders/?after={keys[99].hex()}"))
    assert second == [*(key.decode() for key in keys[100:-1]), "\\xff\\u0000"]


def test_a_key_that_is_no_text_is_asked_for_in_base64(client):
    known_view((b"\xff\x00", b"\x00\xfe"), (b"a/b", b"1"))
    row = api(client, "views/orders/_wA=?key_form=base64")
    assert (row["key"], row["key_form"], row["value"], row["value_form"]) == (
        "_wA=", "base64", "AP4=", "base64",
    )  # fmt: skip
    assert api(client, "views/orders/a/b")["value"] == 1
    assert api(client, "views/orders/a%2Fb")["value"] == 1
    assert api(client, "views/orders/!?key_form=base64", 404)["reason"] == "unknown-key"
    assert api(client, "views/orders/abc?key_form=base64", 422)["errors"][0]["field"] == "key"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=%C3%A4", "after"),
        ("after=abc", "after"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        (f"key={'x' * 256}", "key"),
        (f"matches={'x' * 256}", "matches"),
        ("matches=(a", "matches"),
        ("not_empty=perhaps", "not_empty"),
    ],
)
def test_what_is_asked_wrongly_is_told_by_field(client, query, field):
    known_view()
    assert api(client, f"views/orders?{query}", 422)["errors"][0]["field"] == field


@pytest.mark.parametrize("query", ["after=xyz", f"key={'x' * 256}", "expression=(order"])
def test_a_filter_with_a_fault_is_told_on_the_page(client, query):
    known_view((b"order-1", b"1"))
    response = client.get(f"/views/orders/?{query}")
    assert response.status_code == 422
    assert "order-1" not in response.content.decode()


@text
@pytest.mark.spread(6)
def test_hostile_keys_and_values_are_shown_as_text(client, text):
    data = text.encode(errors="surrogatepass")
    known_view((data, data), (b"json", json.dumps({"text": text}).encode()))
    calm(client.get("/views/orders/"), text)
    assert len(api(client, "views/orders")["items"]) == 2


@text
@pytest.mark.spread(6)
def test_hostile_filters_are_taken_or_refused(client, text):
    known_view((b"order-1", b"1"))
    for field in ("key", "expression", "after", "not_empty"):
        query = f"{field}={quote(text, errors='surrogatepass')}"
        calm(client.get(f"/views/orders/?{query}"), text)


def test_a_long_value_is_cut_on_the_page_and_whole_by_rest(client):
    known_view((b"long", b"x" * 5_000))
    shown = page(client)
    assert "more by REST" in shown
    assert "x" * 401 not in shown
    assert len(api(client, "views/orders/long")["value"]) == 5_000


# ---- when there is no answer --------------------------------------------------------------------


def not_ready(status: str) -> None:
    copies.cache_clear()
    table = copies()["orders"]
    if status == "catching-up":
        table.begin({0: (10, 60)}, now_ms())
        table.reach({0: 25})
    if status == "topic-absent":
        table.lose_topic()
    if status == "too-large":
        known_view(*((b"%d" % number, b"1") for number in range(3)))
        copies()["orders"]._status = "too-large"


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("not-followed", "only `manage.py serve` does"),
        ("catching-up", "15 of 50 records of orders.states are read"),
        ("topic-absent", "There is no topic orders.states"),
        ("too-large", "raise max_records or max_bytes of [orders]"),
    ],
)
def test_a_copy_that_is_not_ready_says_why_and_answers_nothing(client, status, why):
    not_ready(status)
    for path in ("views/orders", "views/orders/order-1"):
        response = client.get(f"/api/v1/{path}")
        assert (response.status_code, response["Retry-After"]) == (503, "1")
        answer = response.json()
        assert (answer["reason"], why in answer["detail"]) == (f"view-{status}", True)
    for path in ("/views/", "/views/orders/"):
        assert why in page(client, path)
    listed = {each["name"]: each["status"] for each in api(client, "views")}
    assert listed["orders"] == status


def test_readiness_waits_for_a_copy_that_catches_up_and_for_no_other():
    for status in ("not-followed", "topic-absent", "too-large"):
        not_ready(status)
        assert missing_views() == []
    not_ready("catching-up")
    assert missing_views() == ["view orders: 15 of 50 records read"]
    assert health.missing_copies() == missing_views()


def test_a_copy_that_nothing_was_compared_with_for_long_says_so(client, monkeypatch):
    known_view((b"order-1", b"1"))
    assert "out of date" not in page(client)
    late = now_ms() + STALE_MS + 1
    monkeypatch.setattr("dashboard.operate.console.topic_copies.now_ms", lambda: late)
    assert "This may be out of date" in page(client)
    assert "is the broker up?" in page(client, "/views/")


def test_without_a_declared_view_the_page_says_how_to_declare_one(client, monkeypatch):
    monkeypatch.setattr("dashboard.operate.console.views.copies", dict)
    assert "Declare one in" in page(client, "/views/")


def test_a_view_that_is_not_declared(client):
    assert client.get("/views/nobodys/").status_code == 404
    answer = api(client, "views/nobodys", 404)
    assert (answer["reason"], "orders" in answer["detail"]) == ("unknown-view", True)


def test_metrics_tell_how_a_copy_fares(client):
    known_view((b"order-1", b"1"), (b"order-2", b"1"))
    copies()["orders"].apply([])
    metrics = client.get("/metrics", headers=bearer(make_user("admin"), "metrics")).content.decode()
    assert 'tallyboard_view_status{status="ready",view="orders"} 1.0' in metrics
    assert 'tallyboard_view_rows{view="orders"} 2.0' in metrics
    assert 'tallyboard_view_refused_records_total{reason="no-key",view="orders"} 0.0' in metrics
