"""Whoever joins the servers' group, on a real broker: no secret, no forgery, no redirect."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from dashboard.core.common.scenarios import scenarios
from stores.base import NotReady, NotRun, Order, StoreProblem, Unreachable
from stores.owner_store import OwnerStore
from stores.proofs import TICKET
from stores.transformation import ORDERS
from support.kafka.impostors import FORGED, Impostor, impostor, joined
from support.kafka.order_records import OrderLog, state_record
from support.kafka.store_servers import SECRET, StoreServers
from support.run.stack import EmbeddedBroker, wait_until
from wire.topics import Topics

pytestmark = pytest.mark.extensive(
    guard="tests/unit/stores/test_store_proofs.py::test_only_members_that_prove_themselves_are_servers"
)

NAMES = [f"order-{number}" for number in range(30)]


@pytest.fixture
def servers(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[StoreServers]:
    """Servers of a topic with orders of their own; none is started yet."""
    topics = Topics(f"impostors-{uuid.uuid4().hex[:8]}.")
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs([scenarios()["orders"]]))
    servers = StoreServers(broker.bootstrap, topics.prefix, tmp_path)
    log = OrderLog(bus, servers.topic)
    for order in NAMES:
        log.append(state_record(order, "picking", 1))
    log.close()
    yield servers
    servers.stop()


@pytest.fixture
def liar() -> Iterator[Impostor]:
    with impostor() as made:
        yield made


@pytest.fixture
def store(servers: StoreServers) -> Iterator[OwnerStore]:
    """A store that asks once."""
    made = OwnerStore(servers.directory, SECRET, ORDERS, patience_s=0)
    yield made
    made.close()


def names(servers: StoreServers) -> list[str]:
    """The names of the group's members."""
    return [each.name for each in servers.bus.members(servers.directory.group)]


def test_who_proves_nothing_is_asked_nothing(
    servers: StoreServers, store: OwnerStore, liar: Impostor
):
    with joined(servers.bus, servers.directory.group, servers.topic, liar.address) as held:
        wait_until(lambda: len(held) == 4, 30, "it is assigned nothing")
        servers.directory.expire()
        for ask in (store.get, store.redirection):
            with pytest.raises(NotRun):
                ask("order-1")
        with pytest.raises(NotRun):
            store.all()
        assert store.servers() == []
        assert servers.directory.unproved() == (liar.address,)
    assert liar.asked == []


def test_beside_a_true_server_an_impostor_gets_no_question_and_nobody_is_sent_to_it(
    servers: StoreServers, store: OwnerStore, liar: Impostor
):
    true = servers.start()
    servers.wait(1)
    with joined(servers.bus, servers.directory.group, servers.topic, liar.address) as held:
        wait_until(lambda: held, 30, "it is assigned nothing")
        wait_until(lambda: owned(servers) == {true}, 30, "the true server owns nothing")
        assert outcomes(store) == {true, "store-not-ready"}
    assert liar.asked == []


def test_a_copied_proof_leads_to_the_true_server_alone(servers: StoreServers, store: OwnerStore):
    true = servers.start()
    servers.wait(1)
    [name] = names(servers)
    with joined(servers.bus, servers.directory.group, servers.topic, name) as held:
        wait_until(lambda: held, 30, "it is assigned nothing")
        wait_until(lambda: len(names(servers)) == 2, 30, "it is not in the group")
        servers.directory.expire()
        assert {each.address for each in servers.directory.servers()} == {true}
        assert outcomes(store) == {true, "store-not-ready"}


def owned(servers: StoreServers) -> set[str]:
    """The addresses that own a partition."""
    servers.directory.expire()
    return {each.address for each in servers.health() if each.partitions}


def outcomes(store: OwnerStore) -> set[str]:
    """Who answers for the orders, and where a client is sent, or why neither is so."""
    met = set[str]()
    for order in NAMES:
        try:
            one = store.get(order)
            assert isinstance(one.asset, Order)
            assert one.asset.state == "picking"
            met |= {one.instance, httpx.URL(store.redirection(order)).netloc.decode()}
        except StoreProblem as problem:
            met.add(problem.reason)
    return met


def test_who_answers_at_the_address_of_a_server_that_has_gone_learns_and_forges_nothing(
    servers: StoreServers, store: OwnerStore
):
    gone = servers.start()
    servers.wait(1)
    [name] = names(servers)
    servers.processes[gone].terminate()
    servers.processes[gone].wait(15)
    with (
        impostor(int(gone.rpartition(":")[2])) as liar,
        joined(servers.bus, servers.directory.group, servers.topic, name) as held,
    ):
        wait_until(lambda: len(held) == 4, 30, "it is assigned nothing")
        servers.directory.expire()
        for ask in (store.get, store.redirection):
            with pytest.raises(Unreachable, match="without the stores' signature"):
                ask("order-1")
        with pytest.raises(Unreachable, match="without the stores' signature"):
            store.all()
        assert liar.asked
        assert all(SECRET not in f"{question}" for question in liar.asked)
    question = next(each for each in liar.asked if each.target == "/orders/order-1")
    caught = {TICKET: question.headers[TICKET]}
    other = servers.start()
    servers.wait(1)
    for target in (question.target, "/orders", "/_health/orders", "/orders/order-2"):
        assert httpx.get(f"http://{other}{target}", headers=caught).status_code == 401
    answer = store.get("order-1").asset
    assert isinstance(answer, Order)
    assert answer.state != FORGED.state


def test_a_relay_to_a_true_server_passes_for_nobody(servers: StoreServers, store: OwnerStore):
    """Who has the address of a server that has gone asks another one, and passes its answer on."""
    gone, true = servers.start(), servers.start()
    servers.wait(2)
    name = next(name for name in names(servers) if name.startswith(gone))
    servers.processes[gone].terminate()
    servers.processes[gone].wait(15)
    servers.wait(1)
    with (
        impostor(int(gone.rpartition(":")[2])) as liar,
        joined(servers.bus, servers.directory.group, servers.topic, name) as held,
    ):
        liar.relays_to = true
        wait_until(lambda: held, 30, "it is assigned nothing")
        wait_until(lambda: owned(servers) == {true}, 30, "the true server owns nothing")
        assert outcomes(store) == {true, "store-unreachable"}
        assert liar.asked
        with pytest.raises((Unreachable, NotReady)):
            store.all()
