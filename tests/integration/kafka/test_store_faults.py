"""Store servers killed, stopped and added while clients ask: never a wrong answer."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from dashboard.core.common.scenarios import scenarios
from domain.version import Version
from stores.base import StoreProblem
from stores.server import SESSION_S
from support.kafka.order_records import OrderLog, state_record
from support.kafka.store_servers import SECRET, StoreServers, opening
from support.run.stack import EmbeddedBroker, wait_until
from wire.topics import Topics

ORDERS = [f"order-{number}" for number in range(30)]


@pytest.fixture
def servers(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[StoreServers]:
    """Servers with a topic of their own; none is started yet."""
    topics = Topics(f"faults-{uuid.uuid4().hex[:8]}.")
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs([scenarios()["orders"]]))
    servers = StoreServers(broker.bootstrap, topics.prefix, tmp_path)
    yield servers
    for process in servers.processes.values():
        process.send_signal(signal.SIGCONT)
    servers.stop()


class Client:
    """Moves orders on and asks for them, and holds every answer against what it has seen before:
    an answered order is never gone, never another, never at a lower version again."""

    def __init__(self, servers: StoreServers) -> None:
        self._servers, self._log = servers, OrderLog(servers.bus, servers.topic)
        self._stop = threading.Event()
        self._seen: dict[str, Version] = {}
        self.wrong: list[str] = []
        self.counted: Counter[str] = Counter()
        self.instances: set[str] = set()

    def move(self, offset: int) -> None:
        """Append the next record of every order."""
        for order in ORDERS:
            self._log.append(state_record(order, "picking", offset))

    def ask(self, order: str) -> None:
        """Ask for an order once."""
        try:
            one = self._servers.store.get(order)
        except StoreProblem as problem:
            self.counted[problem.reason] += 1
            return
        self.counted["answers"] += 1
        self.instances.add(one.instance)
        version = Version.parse(one.asset.version) if one.asset else None
        if version is None or version < self._seen.get(order, version):
            self.wrong.append(f"{order} {version} of {one.instance} after {self._seen.get(order)}")
        elif one.asset is not None and one.asset.name != order:
            self.wrong.append(f"{one.asset} for {order}")
        else:
            self._seen[order] = version

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Go on meanwhile, in threads."""
        threads = [threading.Thread(target=self._asks), threading.Thread(target=self._moves)]
        for thread in threads:
            thread.start()
        yield
        self._stop.set()
        for thread in threads:
            thread.join()
        self._log.close()

    def _asks(self) -> None:
        while not self._stop.is_set():
            for order in ORDERS:
                self.ask(order)

    def _moves(self) -> None:
        for offset in count(2):
            if self._stop.wait(0.05):
                return
            self.move(offset)


@pytest.fixture
def client(servers: StoreServers) -> Client:
    client = Client(servers)
    client.move(1)
    return client


def answered_by(servers: StoreServers) -> set[str]:
    """Who answers for something."""
    servers.directory.expire()
    return {each.address for each in servers.health() if each.partitions}


def test_another_server_takes_over_from_a_killed_one(servers: StoreServers, client: Client):
    first, second = servers.start(), servers.start()
    servers.wait(2)
    standby = {each.address: each.standby for each in servers.health()}
    wait_until(
        lambda: all(each.standby for each in servers.health()), 10, f"nobody is warm: {standby}"
    )
    with client.asking():
        wait_until(lambda: client.instances >= {first, second}, 20, "not both have answered")
        servers.processes[first].kill()
        killed = time.monotonic()
        wait_until(lambda: servers.store.health().ready, SESSION_S + 10, "nobody takes over")
        took_s = time.monotonic() - killed
        before = client.counted["answers"]
        wait_until(lambda: client.counted["answers"] > before + 100, 20, "no more answers")
    assert client.wrong == []
    assert answered_by(servers) == {second}
    assert took_s < SESSION_S + 4


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_store_faults.py::"
    "test_another_server_takes_over_from_a_killed_one"
)
def test_partitions_move_to_a_new_server_and_back(servers: StoreServers, client: Client):
    first = servers.start()
    servers.wait(1)
    with client.asking():
        second = servers.start()
        servers.wait(2)
        wait_until(lambda: second in client.instances, 20, "the new one has not answered")
        servers.processes[second].terminate()
        left = time.monotonic()
        servers.processes[second].wait()
        wait_until(lambda: answered_by(servers) == {first}, 20, "nobody takes over")
        wait_until(lambda: servers.store.health().ready, 20, "nobody takes over")
        took_s = time.monotonic() - left
    assert client.wrong == []
    assert client.counted["answers"] > 100
    assert answered_by(servers) == {first}
    assert took_s < SESSION_S, "one that leaves in order is not waited for"


@pytest.mark.extensive(
    guard="tests/unit/stores/test_stores.py::"
    "test_a_lease_ends_before_the_session_counted_from_the_question"
)
def test_a_server_that_was_stopped_does_not_answer_for_what_it_has_lost(
    servers: StoreServers, client: Client
):
    first, _ = servers.start(), servers.start()
    servers.wait(2)
    lost = {each.address: each.partitions for each in servers.health()}[first]
    assert lost
    with client.asking():
        servers.processes[first].send_signal(signal.SIGSTOP)
        wait_until(lambda: servers.store.health().ready, SESSION_S + 15, "nobody takes over")
        # A question that waits for it in its socket, and is the first thing that it reads.
        wanted = ",".join(map(str, lost))
        target = f"/orders?partitions={wanted}"
        statuses: list[int] = []

        def ask() -> None:
            answer = httpx.get(f"http://{first}{target}", headers=headers, timeout=20)
            statuses.append(answer.status_code)

        headers = opening(first, target) | {"Tallyboard-Forwarded": "1"}
        asker = threading.Thread(target=ask)
        asker.start()
        servers.processes[first].send_signal(signal.SIGCONT)
        asker.join()
        servers.wait(2)  # it joins again
    assert statuses == [421]
    assert client.wrong == []


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_store_faults.py::"
    "test_another_server_takes_over_from_a_killed_one"
)
def test_a_server_killed_again_and_again_comes_back_with_its_address(
    servers: StoreServers, client: Client
):
    first, second = servers.start(), servers.start()
    servers.wait(2)
    with client.asking():
        os.kill(servers.processes[first].pid, signal.SIGKILL)
        servers.processes[first].wait()
        assert servers.start(int(first.rpartition(":")[2])) == first
        wait_until(lambda: answered_by(servers) == {first, second}, 40, "it does not come back")
    assert client.wrong == []


@pytest.mark.extensive(
    guard="tests/unit/stores/test_store_proofs.py::test_what_is_no_ticket_opens_nothing"
)
def test_a_server_sends_its_client_to_the_owner_and_lets_nobody_else_in(
    servers: StoreServers, client: Client
):
    first, second = servers.start(), servers.start()
    servers.wait(2)
    owners = {order: servers.store.owner(order) for order in ORDERS}
    order = next(order for order in ORDERS if owners[order] == second)
    path, url = f"/orders/{order}", f"http://{first}/orders/{order}"
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers={"Authorization": f"Bearer {SECRET}"}).status_code == 401
    assert httpx.get(f"{url}?ticket=1.2").status_code == 401
    assert httpx.get(url, headers=opening(second, path)).status_code == 401
    assert httpx.get(url, headers=opening(first, "/orders")).status_code == 401
    wait_until(lambda: asked(first, path).status_code == 200, 20, asked(first, path).text)
    forwarded = asked(first, path).json()
    assert (forwarded["order"]["order"], forwarded["instance"]) == (order, second)
    sent = asked(first, f"{path}?redirect=1")
    assert sent.status_code == 307
    there = httpx.get(sent.headers["Location"])  # with the ticket alone
    assert (there.status_code, there.json()["instance"]) == (200, second)
    elsewhere = sent.headers["Location"].replace(second, first)
    assert httpx.get(elsewhere).status_code == 401
    assert httpx.get(f"{sent.headers['Location']}&local=1").status_code == 401
    naive = asked(first, f"{path}?local=1").json()
    assert (naive["order"], naive["complete"]) == (None, False)
    alone = servers.store.alone(first).all(limit=1000)
    assert not alone.complete
    assert {each.name for each in alone.assets} == {
        name for name, owner in owners.items() if owner == first
    }
    final = asked(first, path, {"Tallyboard-Forwarded": "1"})
    assert (final.status_code, final.json()["reason"]) == (421, "not-owner")
    for query in ("limit=0", "limit=x", "partitions=a", f"after={'x' * 300}"):
        assert asked(first, f"/orders?{query}").status_code == 422


def asked(address: str, target: str, headers: dict[str, str] | None = None) -> httpx.Response:
    """What a server answers whoever has a ticket."""
    return httpx.get(
        f"http://{address}{target}", headers=opening(address, target) | (headers or {})
    )


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_serve.py::test_taken_port_is_one_clear_message"
)
def test_an_address_that_is_taken_is_refused(servers: StoreServers, client: Client):
    first = servers.start()
    servers.wait(1)
    port = int(first.rpartition(":")[2])
    kept = servers.processes[first]
    servers.start(port)
    second = servers.processes[first]
    servers.processes[first] = kept
    assert second.wait(30) == 1
    assert (
        f"Cannot listen on 127.0.0.1:{port}" in (servers.folder / f"store-{port}.log").read_text()
    )
