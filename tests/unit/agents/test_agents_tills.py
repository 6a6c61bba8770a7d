"""The fleet of tills: the same for the same seed, some invoices twice, no number for two sales."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

import msgspec
import pytest

from agents.demo.tills import RESENT_WITHIN_MS, STORES, Fleet, Invoice, Sender, prices, sell
from bus.base import Delivered, QueueFull, TopicSpec
from bus.memory import MemoryBus
from ops.processes import OF_INVOICES
from streaming.pipelines.registry import declared
from wire.partitioner import partition_of
from wire.topics import Topics

START = 1_790_000_000_123
HOUR = 3_600_000


def sales(length_ms: int, seed: int = 1, start: int = START) -> list[tuple[int, Invoice]]:
    stream = Fleet(seed, 500).run(start)
    return list(takewhile(lambda sale: sale[0] <= start + length_ms, stream))


@pytest.fixture(scope="module")
def hour() -> list[tuple[int, Invoice]]:
    return sales(HOUR)


def test_same_seed_same_invoices(hour: list[tuple[int, Invoice]]) -> None:
    assert sales(60_000) == list(islice(hour, len(sales(60_000))))
    assert sales(60_000, seed=2) != sales(60_000)


def test_two_a_second_by_all_stores_and_amounts_are_the_sums(
    hour: list[tuple[int, Invoice]],
) -> None:
    invoices = {sale.invoice: sale for _, sale in hour}
    assert len(invoices) == 7_200
    assert {sale.store for sale in invoices.values()} == set(STORES)
    for sale in invoices.values():
        assert sale.amount == sum(line.quantity * line.price for line in sale.lines)
        assert (sale.amount > 0) is (sale.kind == "sale")
    cards = {(sale.customer, sale.card, sale.customer_type) for sale in invoices.values()}
    assert len(cards) == len({customer for customer, *_ in cards}) == 120
    prime = sum(type_ == "PRIME" for *_, type_ in cards)
    assert 40 <= prime <= 80
    delivered = sum(sale.delivery == "HOME-DELIVERY" for sale in invoices.values())
    assert 0.25 < delivered / 7_200 < 0.35


def test_one_in_a_hundred_comes_again_unchanged_within_a_minute(
    hour: list[tuple[int, Invoice]],
) -> None:
    times = [at for at, _ in hour]
    assert times == sorted(times)
    numbers = Counter(sale.invoice for _, sale in hour)
    assert 40 <= sum(n == 2 for n in numbers.values()) <= 110
    assert max(numbers.values()) == 2
    for at, sale in hour:
        assert 0 <= at - sale.at <= RESENT_WITHIN_MS
    assert len({msgspec.json.encode(sale) for _, sale in hour}) == len(numbers)


def test_one_in_thirty_takes_back_what_an_earlier_invoice_of_the_customer_sold(
    hour: list[tuple[int, Invoice]],
) -> None:
    invoices = {sale.invoice: sale for _, sale in hour}.values()
    sold: dict[str, Counter[str]] = {}
    for each in invoices:
        if each.kind == "sale":
            products = sold.setdefault(each.customer, Counter())
            products.update({line.product: line.quantity for line in each.lines})
    back = [each for each in invoices if each.kind == "return"]
    assert 170 < len(back) < 310
    for each in back[len(back) // 2 :]:  # what the first ones take back was sold before the hour
        assert each.delivery == "TAKE-AWAY"
        for line in each.lines:
            assert -sold[each.customer][line.product] <= line.quantity < 0 < line.price


def test_prices_are_those_of_the_invoices(hour: list[tuple[int, Invoice]]) -> None:
    price_list = {key.decode(): msgspec.json.decode(value).get("price") for key, value in prices()}
    for _, invoice in hour:
        assert {line.product: line.price for line in invoice.lines}.items() <= price_list.items()
    assert [key for key, price in price_list.items() if price is None] == ["product-41"]


def test_a_fleet_that_starts_again_uses_no_number_twice() -> None:
    before = {sale.invoice for _, sale in sales(60_000)}
    assert before.isdisjoint(sale.invoice for _, sale in sales(60_000, start=START + 60_000))
    quicker = islice(Fleet(1, 125).run(START + 60_000), 200)
    assert before.isdisjoint(sale.invoice for _, sale in quicker)


def test_a_fleet_sends_each_invoice_at_its_time_to_the_partition_of_its_store() -> None:
    now, stop = [START], threading.Event()
    bus, topics = MemoryBus(lambda: now[0]), Topics("t.")
    bus.ensure_topics([TopicSpec(*topics.invoices())])
    producer = bus.producer()
    sender = Sender(producer, topics.pos, stop)

    def run(start: int) -> Iterator[tuple[int, Invoice]]:
        for at, sale in islice(Fleet(1, 500).run(start), 100):
            now[0] = max(now[0], at)
            yield at, sale
        stop.set()

    fleet: Any = type("Some", (), {"run": staticmethod(run)})
    sell(fleet, sender, lambda: now[0], stop)
    assert producer.flush(1) == 0
    assert sender.confirmed == 100
    read = bus.reader({(topics.pos, partition): 0 for partition in range(3)}).poll(1, 1_000)
    assert len(read) == 100
    for message in read:
        sale = msgspec.json.decode(message.value or b"", type=Invoice)
        assert (message.key or b"").decode() == sale.store
        assert message.partition == partition_of(sale.store.encode(), 3)


class Full:
    """A producer that takes a record at the third try."""

    def __init__(self) -> None:
        self.tries = 0

    def send(self, *_: Any, on_delivery: Any, **__: Any) -> None:
        self.tries += 1
        if self.tries < 3:
            raise QueueFull("full")
        on_delivery(Delivered("pos", 0, 0, START))

    def poll(self, timeout_s: float = 0) -> None:
        """Nothing is due."""


def test_a_full_queue_holds_a_sale_back_but_not_the_end() -> None:
    producer: Any = Full()
    sale, stop = Fleet(1, 500).sale(START), threading.Event()
    sender = Sender(producer, "pos", stop)
    sender.send(sale)
    assert (sender.confirmed, sender.refused) == (1, 0)
    producer.tries = 0
    stop.set()
    sender.send(sale)
    assert (sender.confirmed, sender.refused) == (1, 1)


# ---- when they run ------------------------------------------------------------------------------


def test_every_pipeline_that_depends_on_invoices_is_known_to() -> None:
    reached, pipelines = {"pos"}, declared()
    for _ in pipelines:
        for pipeline in pipelines.values():
            if reached & {source.topic for source in pipeline.sources.values()}:
                reached |= {sink.topic for sink in pipeline.sinks}
    depend = {
        name
        for name, pipeline in pipelines.items()
        if reached & {source.topic for source in pipeline.sources.values()}
    }
    assert depend == OF_INVOICES
