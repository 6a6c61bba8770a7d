"""A broker that stands still and goes on, as a machine that swaps does: no process ends of it, and
each is answered soon afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bus.kafka import KafkaBus
from stores.base import BEHIND_MS, NotRun, Unreachable, now_ms
from stores.directory import Directory
from stores.global_store import GlobalStore
from stores.owner_store import OwnerStore
from stores.transformation import ORDERS
from support.kafka.bus_contract import made
from support.kafka.order_records import OrderLog, state_record
from support.run.stack import ROOT, EmbeddedBroker, wait_until

SOON_S = 20.0
"""So soon after it goes on everybody must be answered: librdkafka's own pauses are shorter."""
# As librdkafka has it by default, 60 s and 30 s; shorter, so that a shorter stand has the effect.
IMPATIENT = {"socket.timeout.ms": "3000", "socket.connection.setup.timeout.ms": "2000"}


@pytest.fixture
def own_broker(tmp_path: Path, jars_dir: Path) -> Iterator[EmbeddedBroker]:
    """A broker that a test may stop."""
    broker = EmbeddedBroker(tmp_path, jars_dir)
    broker.start()
    yield broker
    broker.go_on()
    broker.kill()


class Asker:
    """A process that asks for a group's members and a topic's offsets."""

    def __init__(self, command: list[str], out: Path) -> None:
        self._out = out
        with out.open("wb") as file:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT
            )

    def wait(self, since: float, timeout_s: float) -> None:
        """Wait until it has been answered both since then (Unix s)."""
        both = {"members", "offsets"}
        wait_until(lambda: self._answered(since) == both, timeout_s, f"see {self._out}")

    def _answered(self, since: float) -> set[str]:
        assert self.process.poll() is None, self._out.read_text()[-500:]
        lines = [line.split() for line in self._out.read_text().splitlines()]
        known = [line for line in lines if line[:1] in (["members"], ["offsets"])]
        return {line[0] for line in known if len(line) == 2 and float(line[1]) > since}


@contextmanager
def askers(broker: EmbeddedBroker, folder: Path, *options: dict[str, str]) -> Iterator[list[Asker]]:
    """Processes that have been answered once."""
    topic = made(KafkaBus({"bootstrap.servers": broker.bootstrap}), "still")
    begun, script = time.time(), "tests/support/kafka/kafka_asker.py"
    with ExitStack() as stack:
        asking: list[Asker] = []
        for at, each in enumerate(options):
            command = [sys.executable, script, broker.bootstrap, topic, json.dumps(each)]
            asking.append(Asker(command, folder / f"asker-{at}.txt"))
            stack.callback(asking[-1].process.wait)
            stack.callback(asking[-1].process.kill)
        for one in asking:
            one.wait(begun, 60)
        yield asking


def stands_still(broker: EmbeddedBroker, asking: list[Asker], seconds: float) -> None:
    """Stop the broker for so long; all processes must live through it, and be answered soon."""
    broker.stand_still()
    time.sleep(seconds)
    broker.go_on()
    since = time.time()
    for one in asking:
        one.wait(since, SOON_S)


@pytest.mark.slow
def test_a_broker_that_stood_still_ends_no_process_and_answers_it(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    with askers(own_broker, tmp_path, *[IMPATIENT] * 4) as asking:
        stands_still(own_broker, asking, 15)


@pytest.mark.extensive(
    guard="tests/unit/stores/test_store_proofs.py::"
    "test_kafka_that_does_not_answer_is_not_waited_for_by_each_question"
)
@pytest.mark.slow
def test_a_page_waits_once_for_a_broker_that_stands_still(own_broker: EmbeddedBroker) -> None:
    bus = KafkaBus({"bootstrap.servers": own_broker.bootstrap})
    directory = Directory(bus, "orders.stores", made(bus, "orders.states"), "a secret")
    directory.wait(30)
    store = OwnerStore(directory, "a secret", ORDERS)
    own_broker.stand_still()
    directory.expire()
    begun = time.monotonic()
    for ask in (lambda: store.get("a"), store.alone, store.all, store.servers, store.all):
        with pytest.raises(Unreachable):
            ask()
    assert time.monotonic() - begun < 5
    own_broker.go_on()
    directory.wait(SOON_S)
    with pytest.raises(NotRun):
        store.get("a")


@pytest.mark.extensive(
    guard="tests/unit/stores/test_stores.py::"
    "test_a_copy_that_has_not_seen_the_end_of_its_log_for_a_while_says_since_when"
)
@pytest.mark.slow
def test_a_copy_says_since_when_it_hears_nothing(own_broker: EmbeddedBroker) -> None:
    bus = KafkaBus({"bootstrap.servers": own_broker.bootstrap})
    topic = made(bus, "orders.states")
    log = OrderLog(bus, topic)
    log.append(state_record("A-1", "picking", 1))
    log.close()
    store = GlobalStore(bus, topic, "here:1", ORDERS)
    assert store.behind() == ""
    store.start()
    wait_until(lambda: store.health().ready and store.get("A-1").complete, 60, "it is not level")
    stood_still = now_ms()
    own_broker.stand_still()
    wait_until(lambda: not store.get("A-1").complete, 30, "it takes itself for complete")
    one, nobody = store.get("A-1"), store.get("nobody's")
    assert one.asset is not None
    assert one.as_of is not None
    assert stood_still - BEHIND_MS < one.as_of <= stood_still + 1_000
    assert (nobody.asset, nobody.complete) == (None, False)
    behind_s = int(store.behind().removesuffix(" s behind its log"))
    assert BEHIND_MS // 1000 <= behind_s <= (now_ms() - one.as_of) // 1000
    own_broker.go_on()
    wait_until(lambda: store.get("A-1").complete, 2 * SOON_S, "it stays behind")
    assert store.behind() == ""
    store.stop()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_after_a_minute_and_a_half_too(own_broker: EmbeddedBroker, tmp_path: Path) -> None:
    with askers(own_broker, tmp_path, {}, {}, IMPATIENT, IMPATIENT) as asking:
        stands_still(own_broker, asking, 90)
        stands_still(own_broker, asking, 70)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [90, 340])
def test_the_stores_answer_before_while_and_after(own_broker: EmbeddedBroker, seconds: int) -> None:
    bus = KafkaBus({"bootstrap.servers": own_broker.bootstrap})
    topic = made(bus, "orders.states")
    log = OrderLog(bus, topic)
    log.append(state_record("A-1", "picking", 1))
    copy = GlobalStore(bus, topic, "here:1", ORDERS)
    copy.start()
    directory = Directory(bus, "orders.stores", topic, "a secret")
    owners = OwnerStore(directory, "a secret", ORDERS)
    wait_until(lambda: copy.health().ready and copy.get("A-1").complete, 60, "it is not level")
    directory.wait(30)
    own_broker.stand_still()
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        assert copy.get("A-1").asset is not None
        with pytest.raises((Unreachable, NotRun)):
            owners.get("A-1")
        time.sleep(1)
    assert not copy.get("A-1").complete
    own_broker.go_on()
    log.append(state_record("A-1", "shipped", 2))
    wait_until(lambda: copy.get("A-1").complete, 2 * SOON_S, "the copy stays behind")
    one = copy.get("A-1").asset
    assert one is not None
    assert one.version == "1.2.0"
    directory.wait(SOON_S)
    with pytest.raises(NotRun):
        owners.get("A-1")
    copy.stop()
    log.close()
