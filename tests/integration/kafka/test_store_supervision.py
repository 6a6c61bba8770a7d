"""The whole way through the supervised product: each store asked over REST, and one killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bus.base import BusError
from bus.kafka import KafkaBus
from ops.ports import PortProblem, free_port, require_free
from support.kafka.order_records import OrderLog, doubted_record, lives, purge_record
from support.kafka.store_servers import redis_server
from support.run.stack import Stack, wait_until

pytestmark = pytest.mark.extensive(
    guard="tests/web/core/test_assets_by_way.py::test_each_way_answers_with_the_record_of_the_board"
)

ACTIVE = 32
"""How many orders are active after sixty lives."""
SITES = [f"site-{number:02d}" for number in range(20)]
"""Sites with doubts in their records; the last of them is purged."""
VIAS = ("global", "owner", "cache", "database")
FIELDS = [
    "asset", "state", "previous", "since", "unconfirmed", "unconfirmed_reason", "disputed",
    "version", "cause", "votes", "pending", "override", "doubts", "tasks", "answer",
]  # fmt: skip

BESIDE = {"labels", "details", "links"}
"""What the board's own list adds to a record."""


@pytest.fixture(scope="module")
def stack(jars_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Broker, materialiser, web server and two store servers, and a Redis for the cache."""
    folder = tmp_path_factory.mktemp("stores")
    only = ("broker", "materialiser", "web", "store-1", "store-2")
    with redis_server(folder) as url:
        stack = Stack(folder / "data", only, stores=2, stores_port=free_pair(), redis_url=url)
        stack.start(wait=False)
        bus = KafkaBus(stack.settings.kafka_options())
        wait_until(lambda: topic_there(bus), 180, "there are no topics")
        log = OrderLog(bus)
        for record in lives(60):
            log.append(record)
        log.close()
        sites = OrderLog(bus, "attack.states")
        for number, name in enumerate(SITES):
            sites.append(doubted_record(name, 5))
            sites.append(doubted_record(name, 10 + number))
            sites.append(doubted_record(name, 5))  # a replay
        sites.append(purge_record(SITES[-1], 100))
        sites.close()
        yield stack
        stack.stop()


def free_pair() -> int:
    """The first of two neighbouring ports that are both free."""
    while True:
        port = free_port()
        try:
            require_free("127.0.0.1", port + 1, "")
        except PortProblem:
            continue
        return port


def topic_there(bus: KafkaBus) -> bool:
    """Whether the topic of orders is there."""
    try:
        return bus.partitions("orders.states") > 0
    except BusError:  # the broker is still starting
        return False


@pytest.fixture(scope="module")
def rest(stack: Stack) -> Iterator[httpx.Client]:
    """A client with an operator's token."""
    wait_until(lambda: stack.manage("token", "operator").returncode == 0, 60, "no operator")
    token = stack.manage("token", "operator").stdout.strip().splitlines()[-1]
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{stack.url}/api/v1", headers=headers, timeout=20) as client:
        yield client


def answer(rest: httpx.Client, path: str) -> Any:
    """What is answered, or None for a problem."""
    try:
        response = rest.get(path)
    except httpx.HTTPError:
        return None
    return response.json() if response.status_code == 200 else None


@pytest.mark.parametrize("via", VIAS)
def test_each_way_answers_the_same(rest: httpx.Client, via: str):
    def counted() -> bool:
        listed = answer(rest, f"/orders?via={via}&limit=1000")
        return listed is not None and listed["count"] == ACTIVE

    wait_until(counted, 60, f"{via}: {rest.get(f'/orders?via={via}&limit=1').text}")
    listed = answer(rest, f"/orders?via={via}&limit=1000")
    reference = answer(rest, "/orders?via=global&limit=1000")
    assert listed["items"] == reference["items"]
    assert listed["complete"]
    one = answer(rest, f"/orders/order-0001?via={via}")
    assert (one["order"]["location"], one["version"]) == ("bay 7", "1.11.0")


@pytest.mark.parametrize("via", VIAS)
def test_each_way_answers_with_every_field_of_a_sites_record(rest: httpx.Client, via: str):
    path = "/scenarios/attack/assets"

    def level() -> bool:
        known = answer(rest, f"{path}?via={via}&limit=1000")
        return known is not None and known["complete"] and known["count"] == len(SITES) - 1

    wait_until(level, 60, f"{via}: {rest.get(f'{path}?via={via}&limit=1').text}")
    wait_until(lambda: len(board(rest)) == len(SITES) - 1, 60, "the database has not all")
    listed = answer(rest, f"{path}?via={via}&limit=1000")
    assert listed["items"] == board(rest)
    for number, record in enumerate(listed["items"]):
        assert list(record) == FIELDS
        assert record["version"] == f"1.{10 + number}.0"
        one = answer(rest, f"{path}/{record['asset']}?via={via}")
        assert (one["asset"], one["complete"]) == (record, True)
        assert record["disputed"] == "under-attack"
        assert [doubt["agent"] for doubt in record["doubts"]] == ["waf-4"]
        assert [vote["silent"] is None for vote in record["votes"]] == [True, False, True]
        assert record["votes"][2]["doubt"] == "future"
        assert record["votes"][2]["flapping"]["state"] == "under-attack"
    purged = rest.get(f"{path}/{SITES[-1]}?via={via}")
    assert (purged.status_code, purged.json()["reason"]) == (404, "unknown-asset")


def board(rest: httpx.Client) -> list[Any]:
    """The sites as the board's own list has them, without what is in no record."""
    items = answer(rest, "/scenarios/attack/assets?limit=1000")["items"]
    return [{name: each[name] for name in each if name not in BESIDE} for each in items]


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_store_faults.py::"
    "test_another_server_takes_over_from_a_killed_one"
)
def test_a_killed_server_comes_back_and_its_orders_are_never_wrong(
    stack: Stack, rest: httpx.Client
):
    wait_until(lambda: shared(rest) == 2, 60, "the servers do not share")
    stack.kill("store-1")
    met = set()

    def back() -> bool:
        one = answer(rest, "/orders/order-0001?via=owner")
        if one is not None:
            met.add(one["version"])
        return shared(rest) == 2

    wait_until(back, 60, "it does not come back")
    wait_until(lambda: answer(rest, "/orders/order-0001?via=owner"), 20, "nobody answers")
    assert met <= {"1.11.0"}


def shared(rest: httpx.Client) -> int:
    """How many servers answer for something, while all partitions are answered for."""
    known = answer(rest, "/stores") or []
    owned = sorted(partition for each in known for partition in each["partitions"])
    return sum(bool(each["partitions"]) for each in known) if owned == [0, 1, 2, 3] else 0


def test_the_servers_are_listed_with_where_they_are_and_what_they_hold(rest: httpx.Client):
    listed = answer(rest, "/stores")
    assert len(listed) == 2
    for server in listed:
        assert {"instance", "address", "partitions", "records", "lag", "standby"} <= server.keys()
    assert sum(server["records"] for server in listed) > 0
    assert len({server["address"] for server in listed}) == 2


def test_a_redirect_leads_to_the_owner(rest: httpx.Client):
    sent = rest.get("/orders/order-0001?via=owner&redirect=1")
    assert sent.status_code == 307
    there = httpx.get(sent.headers["Location"])
    assert (there.status_code, there.json()["order"]["order"]) == (200, "order-0001")


def test_the_cache_is_rebuilt_by_a_command(stack: Stack, rest: httpx.Client):
    done = stack.manage("cache", "rebuild")
    assert done.returncode == 0, done.stderr
    assert f"orders: {ACTIVE} active, in " in done.stdout
    assert f"attack: {len(SITES) - 1} active, in " in done.stdout
    assert answer(rest, "/orders?via=cache")["count"] == ACTIVE
