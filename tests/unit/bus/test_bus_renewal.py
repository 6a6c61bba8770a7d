"""A client that Kafka answers nothing any more is made anew, and no other is."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from bus import kafka_client
from bus.base import BusError, Unavailable
from bus.kafka import KafkaBus
from bus.kafka_client import _RENEW_S


class Cluster:
    """Plays librdkafka's admin clients and the time. silent: what those that are made meanwhile,
    and were made before, are never answered again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.made = 1000.0, list[Client]()
        monkeypatch.setattr(kafka_client, "AdminClient", lambda _options: self.client())
        monkeypatch.setattr(kafka_client.time, "monotonic", lambda: self.now)

    def client(self) -> Client:
        self.made.append(Client(self))
        return self.made[-1]

    def stand_still(self, *requests: str) -> None:
        """Have the clients that there are never be answered again."""
        for client in self.made:
            client.silent |= set(requests)


class Client:
    """An admin client. A request that is not answered takes three seconds."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.silent = cluster, set[str]()

    def _answer(self, request: str, value: object) -> Any:
        if request in self.silent:
            self._cluster.now += 3
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError._TIMED_OUT))
        return value

    def poll(self, _timeout_s: float) -> None:
        """Nothing: no error of a connection is reported."""

    def list_topics(self, *_: object, **__: object) -> Any:
        partition = SimpleNamespace(leader=1)
        topic = SimpleNamespace(error=None, partitions={0: partition})
        return self._answer("list_topics", SimpleNamespace(topics={"t": topic}))

    def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(self._answer("list_offsets", SimpleNamespace(offset=7)))
        except ck.KafkaException as error:
            future.set_exception(error)
        return dict.fromkeys(asked, future)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def ends(bus: KafkaBus) -> bool:
    """Whether offsets are answered."""
    try:
        return bus.ends([("t", 0)], 3) == {("t", 0): 7}
    except Unavailable:
        return False


@pytest.mark.parametrize("silent", [("list_offsets",), ("list_offsets", "list_topics")])
def test_a_client_that_is_never_answered_again_is_replaced(cluster: Cluster, silent):
    bus = KafkaBus({})
    assert ends(bus)
    cluster.stand_still(*silent)
    begun = cluster.now
    while not ends(bus):
        assert cluster.now < begun + _RENEW_S + 6
        assert "list_topics" in silent or bus.partitions("t") == 1, "what is answered does not help"
    assert len(cluster.made) == 2
    assert ends(bus)
    assert len(cluster.made) == 2


def test_a_client_that_is_answered_now_and_then_stays(cluster: Cluster):
    bus = KafkaBus({})
    assert ends(bus)
    for _ in range(10):
        cluster.stand_still("list_offsets")
        assert not ends(bus)
        assert not ends(bus)
        cluster.made[0].silent.clear()
        assert ends(bus)
    assert len(cluster.made) == 1


def test_while_nobody_answers_clients_are_made_no_oftener(cluster: Cluster):
    bus, begun = KafkaBus({}), cluster.now
    while cluster.now < begun + 90:
        if ends(bus):
            cluster.stand_still("list_offsets")
    assert len(cluster.made) <= 90 / _RENEW_S + 1


def test_what_kafka_refuses_is_an_answer(cluster: Cluster, monkeypatch):
    bus = KafkaBus({})
    assert ends(bus)

    def refused(*_: object, **__: object) -> None:
        cluster.now += _RENEW_S
        raise ck.KafkaException(ck.KafkaError(ck.KafkaError.INVALID_REQUEST))

    monkeypatch.setattr(Client, "list_topics", refused)
    for _ in range(3):
        with pytest.raises(BusError, match="INVALID_REQUEST"):
            bus.partitions("t")
    assert len(cluster.made) == 1
