"""Orders over REST and on their page: each way, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pydantic import SecretStr

from bus.base import GroupMember
from bus.memory import MemoryBus
from dashboard.core.common.times import now_ms
from dashboard.retail import views as retail_orders
from domain.records import Report
from support.web.web_fixtures import bearer, copied, logged_in_as, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(world: World) -> World:
    """Three orders, of which one is delivered, in the database and in the log."""
    for name, state, location in (
        ("A-1", "picking", "bay 7"),
        ("A-2", "delivered", "the door"),
        ("A-3", "shipped", "gate 2"),
    ):
        detail = f'{{"location": "{location}"}}'
        world.job.put("orders", Report(name, "dock-1", state, now_ms(), detail))
    world.write()
    return world


def got(path: str, status: int = 200) -> Any:
    """What the API answers a manager."""
    response = Client().get(f"/api/v1/{path}", headers=bearer(make_user("manager")))
    assert response.status_code == status, response.content
    return response.json()


@pytest.mark.parametrize("via", ["database", "global"])
def test_an_order_is_told_with_where_it_is(orders: World, via: str):
    with copied():
        answer = got(f"orders/A-1?via={via}")
    assert answer["order"] | {"changed_at": 0, "version": ""} == {
        "order": "A-1", "state": "picking", "station": "dock-1", "location": "bay 7",
        "active": True, "version": "", "changed_at": 0,
    }  # fmt: skip
    assert answer["via"] == via
    assert answer["complete"]
    assert answer["version"] == answer["order"]["version"]
    assert 0 <= answer["age_ms"] < 60_000
    assert 0 < answer["took_ms"] < 5_000


@pytest.mark.parametrize("via", ["database", "global"])
def test_active_orders_are_listed_and_counted(orders: World, via: str):
    with copied():
        answer = got(f"orders?via={via}&limit=1")
        assert [order["order"] for order in answer["items"]] == ["A-1"]
        assert (answer["count"], answer["next"]) == (2, "A-1")
        user = make_user("operator")
        rest = Client().get(f"/api/v1/orders?via={via}&after=A-1", headers=bearer(user)).json()
    assert [order["order"] for order in rest["items"]] == ["A-3"]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("orders/nobody", 404, "unknown-order"),
        ("orders/A-1?via=cache", 404, "store-not-run"),
        ("orders/A-1?via=owner", 404, "store-not-run"),
        ("orders/A-1?via=global", 503, "store-not-ready"),
        ("orders/A-1?via=database&local=1", 422, "invalid"),
        ("orders/A-1?via=elsewhere", 422, "invalid"),
        ("orders?via=owner&local=1", 404, "store-not-run"),
    ],
)
def test_what_cannot_be_answered_says_why(orders: World, path: str, status: int, reason: str):
    with copied() as copy:
        if "global" in path:
            copy.feed.table.set_level(0, False)
        assert got(path, status)["reason"] == reason


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups of which Kafka was asked; in each is a member that looks like a server."""
    asked: list[str] = []

    def members(_bus: MemoryBus, group: str, _timeout_s: float = 5) -> list[GroupMember]:
        asked.append(group)
        return [GroupMember("10.0.0.1:9001", (("orders.states", 0),))]

    monkeypatch.setattr(MemoryBus, "members", members)
    return asked


def where() -> str:
    """The page, for an order."""
    with copied():
        return logged_in_as("manager").get("/orders/where/?order=A-1").content.decode()


PATHS = ("orders/A-1?via=owner", "orders/A-1?via=owner&redirect=1", "orders?via=owner&local=1")


@pytest.mark.parametrize("configured", [{"stores": 1}, {"stores_secret": SecretStr("x" * 32)}])
def test_a_member_without_a_proof_is_named_and_asked_nothing(
    orders: World, asked: list[str], settings, configured: dict[str, object]
):
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update=configured)
    page, operator = where(), bearer(make_user("operator"))
    assert "<strong>1 in the servers' group, unproved</strong>" in page
    assert "<bdi>10.0.0.1:9001</bdi>" in page
    with copied():
        for path in PATHS:
            refused = Client().get(f"/api/v1/{path}", headers=operator)
            assert (refused.status_code, refused.json()["reason"]) == (404, "store-not-run")
        assert Client().get("/api/v1/stores", headers=operator).json() == []
    assert set(asked) == {"orders.stores"}


def test_where_no_server_is_configured_nobody_is_asked(orders: World, asked: list[str]):
    page, operator = where(), bearer(make_user("operator"))
    assert "No store server is configured" in page
    assert "10.0.0.1" not in page
    for path in PATHS:
        refused = Client().get(f"/api/v1/{path}", headers=operator)
        assert refused.status_code == 404
        assert "No store server is configured" in refused.json()["detail"]
    assert Client().get("/api/v1/stores", headers=operator).json() == []
    assert asked == []


def test_no_store_server_is_an_empty_list(orders: World):
    assert Client().get("/api/v1/stores", headers=bearer(make_user("operator"))).json() == []


def test_the_page_shows_each_way(orders: World):
    with copied():
        page = logged_in_as("manager").get("/orders/where/?order=A-1").content.decode()
    for title in retail_orders.TITLES.values():
        assert title in page
    assert page.count("bay 7") == 2, "the copy and the database"
    assert "No cache is configured" in page
    assert "No store server answers" in page


def test_the_page_says_that_an_order_is_unknown(orders: World):
    with copied():
        page = logged_in_as("manager").get("/orders/where/?order=nobody").content.decode()
    assert page.count("No such order.") == 2


def test_a_name_that_no_order_has_is_refused(orders: World):
    response = logged_in_as("manager").get("/orders/where/?order=%07")
    assert response.status_code == 422
    assert "control characters" in response.content.decode()
