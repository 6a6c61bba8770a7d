"""Points of invoices on a real broker: totals against an independent count, and by which key."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest

from agents.demo.tills import Fleet, Invoice, Sender
from bus.base import ConsumerRecord, TopicSpec
from domain.records import Report
from pipelines.loyalty import GOLD, SILVER
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS
from support.spark.pipeline_process import PipelineProcess
from wire.partitioner import partition_of
from wire.source import decode_placed

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/integration/spark/test_invoice_functions.py::"
        "test_each_invoice_counts_once_for_its_card_in_a_batch_and_over_batches"
    ),
]

CUSTOMERS = """
[customers]
partitions = 2
severity = "none"
states = [{ name = "bronze" }, { name = "silver" }, { name = "gold" }]
rule = { kind = "latest" }
"""


class Tills:
    """A fleet that sells as fast as Kafka takes it."""

    def __init__(self, process: PipelineProcess) -> None:
        topics = process.topics
        process.bus.ensure_topics([TopicSpec(*topics.invoices())])
        self._producer = process.bus.producer()
        self._sender = Sender(self._producer, topics.pos, threading.Event())
        start = time.time_ns() // 1_000_000 - 3_600_000
        self._sales = (sale for _, sale in Fleet(7, 500).run(start))
        self.sold: list[Invoice] = []

    def sell(self, count: int) -> None:
        """Send the next invoices, some of them again, and wait until they are in the log."""
        self._send(islice(self._sales, count))

    def sell_otherwise(self) -> None:
        """Send invoices as tills of other versions write them."""
        sale = next(each for each in self.sold if each.customer_type == "PRIME")
        changes: tuple[dict[str, Any], ...] = (
            {"customer_type": "prime", "delivery": "Home-Delivery"},
            {"customer_type": " Prime", "delivery": "home-delivery", "kind": "Return"},
            {"amount": -sale.amount, "delivery": "HOME-DELIVERY"},
            {"amount": -10_000_000, "kind": "return"},
        )
        self._send(
            msgspec.structs.replace(sale, invoice=f"other-{number}", **change)
            for number, change in enumerate(changes)
        )

    def repeat(self, every: int) -> None:
        """Send invoices of before again."""
        self._send(self.sold[::every])

    def _send(self, sales: Iterable[Invoice]) -> None:
        for sale in list(sales):
            self._sender.send(sale)
            self.sold.append(sale)
        assert self._producer.flush(20) == 0


def values(messages: Iterable[ConsumerRecord]) -> list[dict[str, Any]]:
    return [json.loads(message.value or b"") for message in messages]


@dataclass(frozen=True)
class Count:
    """What the invoices in the log of the tills come to, counted without a pipeline."""

    points: Mapping[str, int]
    prime: frozenset[str]
    delivered: frozenset[str]

    @classmethod
    def of(cls, process: PipelineProcess) -> Count:
        sold = {each["invoice"]: each for each in values(process.read([process.topics.pos]))}
        prime = {n: each for n, each in sold.items() if is_word(each["customer_type"], "prime")}
        points: Counter[str] = Counter()
        for each in prime.values():
            points[each["card"]] += earned(each)
        totals = {card: max(0, balance) for card, balance in points.items()}
        delivered = {
            n
            for n, each in sold.items()
            if is_word(each["delivery"], "home-delivery") and not is_return(each)
        }
        return cls(totals, frozenset(prime), frozenset(delivered))


def is_word(text: str, word: str) -> bool:
    return text.strip().lower() == word


def is_return(invoice: Mapping[str, Any]) -> bool:
    return invoice["amount"] < 0 or is_word(invoice["kind"], "return")


def earned(invoice: Mapping[str, Any]) -> int:
    """The points of an invoice; a return takes back what its sale has earned."""
    amount = int(invoice["amount"])
    if not is_return(invoice):
        return amount * 2 // 100
    signed = any(line["quantity"] < 0 for line in invoice["lines"])
    return -((max(0, -amount) if signed else abs(amount)) * 2 // 100)


def totals(process: PipelineProcess) -> dict[str, int]:
    """The card's total, by the newest record of each."""
    topic = f"{process.prefix}loyalty"
    return {each["card"]: each["total"] for each in values(process.read([topic]))}


def distinct(process: PipelineProcess, topic: str) -> set[str]:
    """The ids of a topic's records, without the pipeline's name."""
    messages = process.read([process.prefix + topic])
    return {dict(one.headers)["id"].decode().partition("/")[2] for one in messages}


@pytest.fixture
def process(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[PipelineProcess]:
    """The process with the shipped pipelines, not yet started."""
    made = PipelineProcess(broker, tmp_path / "job", f"{request.node.name[:60]}.", trials=False)
    made.pipelines = "invoices,loyalty"
    made.configure(SCENARIOS + CUSTOMERS)
    yield made
    made.clean_up()


def kill(process: PipelineProcess) -> None:
    """End the newest process as `kill -9` does."""
    running = process.started[-1]
    running.kill()
    running.wait()


def exact(process: PipelineProcess) -> bool:
    return totals(process) == Count.of(process).points


def test_totals_equal_the_invoices_through_kills_repeats_and_a_reset(
    process: PipelineProcess,
) -> None:
    tills = Tills(process)
    tills.sell(1_500)
    tills.sell_otherwise()
    process.start()
    for _ in range(2):
        before = process.written("loyalty")
        tills.sell(1_000)
        tills.repeat(every=20)
        wait_until(partial(more, process, before), 120, f"see {process.log}")
        kill(process)
        tills.sell(500)
        process.start()
    wait_until(lambda: exact(process), 120, "the totals are not those of the invoices")
    assert process.ask("invoices", "reset").outcome == "done"
    tills.sell(100)
    wait_until(lambda: exact(process), 120, "the totals are not right after a reset")
    wait_until(lambda: process.last("loyalty").behind == 0, 60, "it stays behind")
    assert exact(process)
    check_records(process, Count.of(process))
    check_tiers(process)
    check_table(process)


def more(process: PipelineProcess, than: int) -> bool:
    return process.written("loyalty") > than


def check_records(process: PipelineProcess, count: Count) -> None:
    """Each invoice counts once, and what was written again is the same."""
    assert distinct(process, "shipments") == count.delivered
    assert distinct(process, "loyalty-by-customer") == distinct(process, "loyalty") == count.prime
    moved = process.read([f"{process.prefix}loyalty-by-customer"])
    assert len(moved) > 2 * len(count.prime), "nothing came again"
    for message, value in zip(moved, values(moved), strict=True):
        assert message.partition == zlib.crc32(value["customer"].encode()) % 3
    by_id: dict[str, dict[str, Any]] = {}
    for value in values(process.read([f"{process.prefix}loyalty"])):
        assert by_id.setdefault(value["invoice"], value) == value
    newest: Counter[str] = Counter()
    for value in by_id.values():  # of each card in the order of the log
        newest[value["card"]] += value["earned"]
        assert value["total"] == newest[value["card"]] >= 0
    assert any(value["earned"] < 0 for value in by_id.values())


def check_tiers(process: PipelineProcess) -> None:
    """The reports can be read where the job reads them, and the newest says the tier."""
    cards = {sale["customer"]: sale["card"] for sale in values(process.read([process.topics.pos]))}
    newest: dict[str, Report] = {}
    for message in process.read([process.topics.reports("customers")]):
        report = decode_placed(
            message.key, message.value, message.timestamp, message.partition, partitions=2
        )
        assert isinstance(report, Report), report
        before = newest.setdefault(report.asset, report)
        newest[report.asset] = max(report, before, key=lambda each: each.reported_at or 0)
    points = totals(process)
    assert {cards[customer] for customer in newest} == points.keys()
    for customer, report in newest.items():
        total = points[cards[customer]]
        tier = "gold" if total >= GOLD else "silver" if total >= SILVER else "bronze"
        assert (report.agent, report.state) == ("loyalty", tier)
        assert json.loads(report.detail or "") == {"points": total}


def check_table(process: PipelineProcess) -> None:
    """The table has each customer's total, in fewer records than there were updates of it."""
    cards = {sale["customer"]: sale["card"] for sale in values(process.read([process.topics.pos]))}
    rows = values(process.read([f"{process.prefix}customer-points"]))
    points, of_card = {row["customer"]: row["points"] for row in rows}, totals(process)
    assert points == {who: of_card[card] for who, card in cards.items() if card in of_card}
    assert len(rows) < process.written("loyalty"), "nothing was gathered"
    shown = process.last("loyalty").gathering
    assert shown is not None
    assert 0 < shown.sent < shown.given
    assert (shown.budget, shown.share) == (10 << 20, 10 << 20)


def test_a_till_of_another_version_is_read_or_becomes_a_dead_letter(
    process: PipelineProcess,
) -> None:
    tills = Tills(process)
    tills.sell(50)
    newer = {"invoice": "inv-new", "customer_type": "PRIME", "coupon": {"code": "SPRING"}}
    sold = values(process.read([process.topics.pos]))[0]
    producer = process.bus.producer()
    lacks = {**sold, "invoice": "inv-lacks"}
    del lacks["card"]
    older = {**sold, "invoice": "inv-older"}
    del older["customer_type"], older["delivery"]
    for record in ({**sold, **newer}, lacks, older):
        value = json.dumps(record).encode()
        producer.send_and_wait(process.topics.pos, sold["store"].encode(), value)
    process.start()
    wait_until(lambda: "inv-new" in distinct(process, "loyalty"), 120, f"see {process.log}")
    wait_until(lambda: process.last("invoices").dead_letters == 1, 60, "it is not counted")
    [letter] = process.read([process.topics.dead_letters])
    assert json.loads(letter.value or b"")["invoice"] == "inv-lacks"
    written = distinct(process, "loyalty") | distinct(process, "shipments")
    assert written.isdisjoint({"inv-lacks", "inv-older"})


# ---- one customer, two stores -------------------------------------------------------------------

STORES, BUYERS = ("store-1", "store-3"), 40
WARM_UP, RATE, MEASURED_S = 400, 50, 20
# The till keys by customer, or its records move through a topic by customer.
FIXES = ("customer", "repartition")


class Buyer:
    """Sends the same purchases by store and by customer."""

    def __init__(self, process: PipelineProcess) -> None:
        self._process, self._producer = process, process.bus.producer(linger_ms=0)
        self.totals: Counter[str] = Counter()

    def buy(self, count: int, pause_s: float = 0) -> None:
        """Send purchases of all customers by turns, each at one store and then at the other, and
        wait until they are in the log."""
        for number in range(count):
            time.sleep(pause_s)  # so that they come at a rate
            self._buy(f"customer-{number % BUYERS:04}", STORES[number // BUYERS % 2], number % 7)
        assert self._producer.flush(20) == 0

    def _buy(self, customer: str, store: str, earned: int) -> None:
        card = f"card of {customer}"
        record = {"card": card, "customer": customer, "earned": earned}
        value = json.dumps({**record, "at": time.time_ns() // 1_000_000}).encode()
        self.totals[card] += earned
        for name, key in (("by-store", store), ("by-customer", customer)):
            topic = f"{self._process.prefix}trial.{name}"
            self._producer.send(topic, key.encode(), value)
        self._producer.poll(0)


def by_card(process: PipelineProcess, topic: str) -> dict[str, dict[int, int]]:
    """The newest total of each card, by the partition that it comes from."""
    newest: dict[str, dict[int, int]] = {}
    for value in values(process.output(topic)):
        newest.setdefault(value["card"], {})[value["partition"]] = value["total"]
    return newest


def complete(process: PipelineProcess, topic: str, buyer: Buyer) -> bool:
    """Whether the totals of each card come to the sum of its purchases."""
    sums = {card: sum(parts.values()) for card, parts in by_card(process, topic).items()}
    return sums == buyer.totals


def delay(messages: Iterable[ConsumerRecord], begun: int) -> float:
    """Median of the time from a purchase to the record of its total, ms; of those since `begun`."""
    at = ((message, int(json.loads(message.value or b"")["at"])) for message in messages)
    return median(message.timestamp - bought for message, bought in at if bought >= begun)


def test_by_store_a_customer_has_two_totals_and_by_customer_or_moved_one(
    process: PipelineProcess,
) -> None:
    process.trials, process.pipelines = (
        True,
        "store-totals,customer-totals,repartition,repartition-totals",
    )
    totals_by = {"store-totals": 2, "customer-totals": 1, "repartition-totals": 1}
    assert len({partition_of(store.encode(), 3) for store in STORES}) == 2
    process.make(**{"by-store": 3, "by-customer": 3})
    buyer = Buyer(process)
    buyer.buy(WARM_UP)
    process.start()
    for topic in totals_by:
        wait_until(partial(complete, process, topic, buyer), 150, f"see {process.log}")
    begun = time.time_ns() // 1_000_000
    buyer.buy(RATE * MEASURED_S, pause_s=1 / RATE)
    for topic in totals_by:
        wait_until(partial(complete, process, topic, buyer), 60, f"{topic} lacks some")
    for topic, number in totals_by.items():
        assert {len(parts) for parts in by_card(process, topic).values()} == {number}
    direct, through = (delay(process.output(f"{name}-totals"), begun) for name in FIXES)
    moved = process.output("repartition")
    assert len(moved) == WARM_UP + RATE * MEASURED_S
    size = median(len(one.value or b"") + len(one.key or b"") for one in moved)
    print(
        f"\nfrom purchase to total: by customer {direct:.0f} ms; through a topic {through:.0f} ms, "
        f"and a record of {size:.0f} bytes more"
    )
