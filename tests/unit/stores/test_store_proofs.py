"""What the stores' secret proves: members of the group, questions, answers; and what not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import msgspec
import pytest

from bus.base import GroupMember, TopicSpec, Unavailable
from bus.memory import MemoryBus
from stores import owner_store
from stores.base import NotRun, Unreachable
from stores.directory import LOGGED, Directory, Server, Unlisted
from stores.envelopes import OrderAnswer
from stores.owner_store import MAX_ANSWER, OwnerStore
from stores.proofs import NONCE, SIGNATURE, TICKET, Announced, announced, announcement, signature
from stores.tickets import LASTS_MS, opens, ticket
from stores.transformation import ORDERS
from support.kafka.impostors import FORGED, PARTITIONS, Impostor, Question, impostor

SECRET = "a secret of the tests alone, 0123456789"
GROUP, TOPIC, HERE, THERE = "orders.stores", "orders.states", "10.0.0.1:9001", "10.0.0.2:9001"
NOW = 1_790_000_000_000


# ---- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", [HERE, "store-1.example:80", "[::1]:9001"])
def test_a_server_proves_where_it_answers_and_since_when(address: str):
    name = announcement(SECRET, GROUP, address, NOW)
    assert announced(SECRET, GROUP, name) == Announced(address, NOW)


def test_a_name_that_the_secret_did_not_make_proves_nothing():
    name = announcement(SECRET, GROUP, HERE, NOW)
    address, started, mark = name.split("/")
    for given in (
        HERE, "", "rdkafka", f"{THERE}/{started}/{mark}", f"{address}/{NOW + 1}/{mark}",
        f"{address}/{started}/{mark[:-1]}", f"{address}/{started}/{'0' * 64}", f"{name}\n",
        f"x/{name}", announcement("another secret", GROUP, HERE, NOW),
        announcement(SECRET, "b.orders.stores", HERE, NOW),
    ):  # fmt: skip
        assert announced(SECRET, GROUP, given) is None, given


# ---- the directory ------------------------------------------------------------------------------


class Group(MemoryBus):
    """A bus whose group has these members. faults: how often Kafka does not answer."""

    def __init__(self, *members: tuple[str, list[int]]) -> None:
        super().__init__(clock=lambda: NOW)
        self.ensure_topics([TopicSpec(TOPIC, len(PARTITIONS), {})])
        self.listed, self.asked, self.faults = list(members), 0, 0

    def members(self, group: str, timeout_s: float = 5) -> list[GroupMember]:
        self.asked += 1
        if self.faults:
            self.faults -= 1
            raise Unavailable("_TIMED_OUT")
        return [GroupMember(name, tuple((TOPIC, at) for at in own)) for name, own in self.listed]


def directory(*members: tuple[str, list[int]]) -> Directory:
    return Directory(Group(*members), GROUP, TOPIC, SECRET)


def test_only_members_that_prove_themselves_are_servers():
    true = announcement(SECRET, GROUP, HERE, NOW)
    known = directory((true, [0, 1]), (THERE, [2]), ("rdkafka", [3]))
    assert known.servers() == [Server(HERE, frozenset({0, 1}))]
    assert known.owners() == {0: HERE, 1: HERE}
    assert known.unproved() == (THERE, "rdkafka")


def test_an_old_proof_counts_no_more_once_its_server_has_started_anew():
    old, new = (announcement(SECRET, GROUP, HERE, NOW + at) for at in (0, 1))
    known = directory((old, [0]), (new, [1]))
    assert known.owners() == {1: HERE}
    assert known.unproved() == (old,)


def test_a_proof_that_is_copied_leads_to_the_true_server_alone():
    true = announcement(SECRET, GROUP, HERE, NOW)
    known = directory((true, [0, 1]), (true, [2, 3]))
    assert known.servers() == [Server(HERE, frozenset({0, 1, 2, 3}))]


def test_a_flood_of_members_is_logged_a_few_times_and_shown_short(capsys):
    known = directory(*((f"{at}-{'x' * 30_000}", []) for at in range(3 * LOGGED)))
    for _ in range(2):
        known.servers()
        known.expire()
    assert capsys.readouterr().out.count("proves no server") == LOGGED
    assert max(map(len, known.unproved())) < 200


def test_kafka_that_does_not_answer_is_not_waited_for_by_each_question():
    bus = Group()
    bus.faults = 1_000
    store = OwnerStore(Directory(bus, GROUP, TOPIC, SECRET), SECRET, ORDERS, patience_s=60)
    for ask in (lambda: store.get("a"), store.all, store.servers, lambda: store.redirection("a")):
        with pytest.raises(Unlisted, match="_TIMED_OUT"):
            ask()
    assert bus.asked == 1


# ---- tickets ------------------------------------------------------------------------------------


def test_a_ticket_opens_one_target_at_one_address_for_a_while():
    target = "/orders?local=1&limit=5"
    made = ticket(SECRET, HERE, target, NOW)
    assert opens(made, SECRET, HERE, target, NOW)
    assert opens(made, SECRET, HERE, target, NOW + LASTS_MS)
    assert opens(made, SECRET, HERE, target, NOW - LASTS_MS), "clocks differ"
    assert not opens(made, SECRET, HERE, target, NOW + LASTS_MS + 1)
    assert not opens(made, SECRET, HERE, target, NOW - LASTS_MS - 1)
    assert not opens(made, SECRET, THERE, target, NOW), "another server"
    assert not opens(made, SECRET, HERE, "/orders?local=1&limit=6", NOW)
    assert not opens(made, SECRET, HERE, "/orders", NOW)
    assert not opens(made, "another", HERE, target, NOW)


@pytest.mark.parametrize("given", ["", ".", "1.2", "x.y", f"{NOW}.", f"{NOW * 10}.00", "²3.ab"])
def test_what_is_no_ticket_opens_nothing(given: str):
    assert not opens(given, SECRET, HERE, "/orders/A-1", NOW)


# ---- answers ------------------------------------------------------------------------------------


@pytest.fixture
def liar() -> Iterator[Impostor]:
    """Who answers at the address of a server that has proved itself."""
    with impostor() as made:
        yield made


def store_at(address: str) -> OwnerStore:
    """The store of which the server at an address owns everything."""
    name = announcement(SECRET, GROUP, address, NOW)
    return OwnerStore(directory((name, PARTITIONS)), SECRET, ORDERS, patience_s=0)


@pytest.fixture
def store(liar: Impostor) -> Iterator[OwnerStore]:
    """The store that asks this one."""
    made = store_at(liar.address)
    yield made
    made.close()


def signed(address: str, *, secret: str = SECRET, nonce: str = "", target: str = "",
           status: int = 0, suffix: bytes = b""):  # fmt: skip
    """Signs answers; what is given here is signed in place of what is so."""

    def sign(question: Question, sent: int, body: bytes) -> dict[str, str]:
        parts = (nonce or question.headers[NONCE], target or question.target, status or sent)
        return {SIGNATURE: signature(secret, address, *parts, body + suffix)}

    return sign


def test_an_answer_that_is_signed_for_the_question_is_believed(liar: Impostor, store: OwnerStore):
    liar.sign = signed(liar.address)
    assert store.get("order-1").asset == FORGED
    assert store.redirection("order-1").startswith(f"http://{liar.address}/orders/")


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": "a guess at the secret, 9876543210"},
        {"address": HERE},
        {"nonce": "0" * 32},
        {"target": "/orders/another"},
        {"status": 503},
        {"suffix": b" "},
    ],
)
def test_an_answer_that_is_signed_for_something_else_is_none(
    liar: Impostor, store: OwnerStore, changes: dict
):
    liar.sign = signed(changes.pop("address", liar.address), **changes)
    with pytest.raises(Unreachable, match="without the stores' signature"):
        store.get("order-1")


@pytest.mark.parametrize("status", [200, 307, 401, 404, 421, 500, 503])
def test_an_answer_without_a_signature_is_none(liar: Impostor, store: OwnerStore, status: int):
    liar.status = status
    asks = (lambda: store.get("a"), lambda: store.redirection("a"),
            lambda: store.alone().get("a"), lambda: store.alone().all(), store.all)  # fmt: skip
    for ask in asks:
        with pytest.raises(
            Unreachable, match=f"{liar.address} answers {status} without the stores"
        ):
            ask()
    assert isinstance(store.servers()[0], Unreachable)
    assert len(liar.asked) == 6


def test_no_question_carries_the_secret_and_each_its_own_ticket(liar: Impostor, store: OwnerStore):
    for ask in (lambda: store.get("a"), lambda: store.alone().all(), store.all):
        with pytest.raises(Unreachable):
            ask()
    store.servers()
    assert len(liar.asked) == 4
    for question in liar.asked:
        assert SECRET not in f"{question}"
        given = question.headers[TICKET].removeprefix("Ticket ")
        now = int(given.partition(".")[0]) - LASTS_MS
        assert opens(given, SECRET, liar.address, question.target, now)
        assert not opens(given, SECRET, HERE, question.target, now)
    assert len({question.headers[NONCE] for question in liar.asked}) == 4


def test_a_server_whose_clock_differs_is_named_as_such(liar: Impostor, store: OwnerStore):
    liar.status, liar.sign = 401, signed(liar.address)
    with pytest.raises(Unreachable, match="clock"):
        store.get("order-1")


def test_an_answer_that_is_too_long_is_read_no_further(liar: Impostor, store: OwnerStore):
    liar.sign, liar.padding = signed(liar.address), MAX_ANSWER
    with pytest.raises(Unreachable, match="more than"):
        store.get("order-1")


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_answer_that_comes_drop_by_drop_is_not_waited_for(head: bytes, monkeypatch):
    monkeypatch.setattr(owner_store, "ANSWER_S", 0.7)
    line = head or b"HTTP/1.1 200 OK\r\n"
    with dripping(line) as address, closing(store_at(address)) as asking:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer"):
            asking.get("order-1")
        assert time.monotonic() - begun < 3


@contextmanager
def dripping(line: bytes) -> Iterator[str]:
    """The address of a server that begins an answer so, and goes on a letter at a time."""
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        with suppress(OSError), listening.accept()[0] as connection:
            connection.sendall(line)
            while not ended.wait(0.1):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


def test_a_forgery_is_of_the_right_form(liar: Impostor):
    """Else the tests above would not show that the signature is what is missing."""
    _, _, body = liar.answer(Question("/orders/order-1", {}))
    assert msgspec.json.decode(body, type=OrderAnswer).asset == FORGED


def test_without_a_proved_server_nobody_is_asked(liar: Impostor):
    store = OwnerStore(directory((liar.address, PARTITIONS)), SECRET, ORDERS, patience_s=0)
    asks = (lambda: store.get("a"), lambda: store.redirection("a"), store.all, store.alone)
    for ask in asks:
        with pytest.raises(NotRun):
            ask()
    assert store.servers() == []
    assert liar.asked == []
