"""Sums of invoices and notices of points stay right though their process is killed, and again."""

from __future__ import annotations

import signal
import time
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.demo.tills import Fleet
from bus.base import TopicSpec
from bus.kafka import KafkaBus
from support.kafka.materialiser_process import Query, manage, materialiser, migrated, queries
from support.run.stack import EmbeddedBroker, wait_until
from wire.topics import Topics

pytestmark = pytest.mark.extensive(
    guard="tests/web/retail/test_invoices.py::test_what_was_killed_in_mid_batch_goes_on_without_loss"
)

PREFIX = "killed-invoices."
INVOICES, OWN = 2_000, 240
CUSTOMERS = 12
Invoice = dict[str, Any]
CHANNEL = """
from dashboard.notify.notifications.models import Channel
Channel.objects.create(name="Customers", kind="mail", address="c@example.org", changed_at=1)
"""


def sold() -> list[Invoice]:
    """Invoices of the last quarter of an hour."""
    start = time.time_ns() // 1_000_000 - 1_000_000
    fleet = islice(Fleet(3, 400).run(start), INVOICES)
    return [msgspec.to_builtins(invoice) for _, invoice in fleet] + [
        own(number, start + number) for number in range(OWN)
    ]


def own(number: int, at: int) -> Invoice:
    """An invoice of one of twelve customers who buy at two stores, and bring back every fifth, as
    tills of several versions write it."""
    who, price = number % CUSTOMERS, 100 + number
    quantity = -1 - number % 3 if takes_back(number) else 1 + number % 3
    made = {
        "invoice": f"own-{number}",
        "kind": ("Return" if number % 2 else "return") if takes_back(number) else "sale",
        "store": f"own-store-{number // CUSTOMERS % 2}",
        "customer": f"own-{who}",
        "card": f"{who:016}",
        "email": f"own-{who}@example.org" if who < 3 else None,
        "customer_type": ("PRIME", "prime", "Prime", "NON-PRIME")[number % 4],
        "delivery": "home-Delivery" if number % 3 else "TAKE-AWAY",
        "at": at,
        "amount": quantity * price,
        "lines": [{"product": f"own-{number % 7}", "quantity": quantity, "price": price}],
    }
    if number % 3 == 1:
        del made["kind"]  # as before there were kinds
    return made


def takes_back(number: int) -> bool:
    return number % 5 == 4


def send(bus: KafkaBus, topics: Topics, invoices: list[Invoice]) -> None:
    """Send lines and points as the pipelines do, each twice, as after a kill of those."""
    producer = bus.producer()
    for whole in [*invoices, *invoices]:
        key = whole["invoice"].encode()
        for number, line in enumerate(whole["lines"], 1):
            amount = line["quantity"] * line["price"]
            record = whole | line | {"line": number, "lines": len(whole["lines"]), "amount": amount}
            producer.send(topics.invoice_lines, key, msgspec.json.encode(record))
        points = {name: whole[name] for name in ("invoice", "card", "customer", "at")}
        record = points | {"earned": whole["amount"] // 50, "total": 1} | address(whole)
        producer.send(topics.loyalty, key, msgspec.json.encode(record))
        producer.poll()
    assert producer.flush(60) == 0
    producer.close()


def address(invoice: Invoice) -> Invoice:
    """Where a customer of ours is told of points; the fleet's are told by the channel."""
    own_one = invoice["invoice"].startswith("own-") and invoice["email"]
    return {"email": invoice["email"]} if own_one else {}


def reached(query: Query) -> int:
    """Return how many records of both topics the database stands for."""
    sql = f"select sum(next_offset) from states_sinkoffset where topic in ({TOPICS})"
    return query(sql)[0][0] or 0


TOPICS = f"'{PREFIX}invoice-lines', '{PREFIX}loyalty'"


def has_passed(query: Query, goal: float) -> bool:
    return reached(query) > goal


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_killed_again_and_again_each_record_counts_once(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    bus, topics = KafkaBus(broker.settings().kafka_options()), Topics(PREFIX)
    names = (topics.invoice_lines, topics.loyalty)
    bus.ensure_topics([TopicSpec(name, 3, {}) for name in names])
    invoices = sold()
    send(bus, topics, invoices)
    environment = migrated(broker, tmp_path, PREFIX, TALLYBOARD_POINTS_CHANNEL="Customers")
    manage(environment, "shell", "-v", "0", "-c", CHANNEL)
    total = sum(end for _, end in bus.offsets(names).values())
    once = {each["invoice"]: each for each in invoices}.values()
    assert len(once) < len(invoices)
    kills = 0
    with queries(tmp_path) as query:
        for share in (0.05, 0.3, 0.6):
            with materialiser(environment) as process:
                wait_until(partial(has_passed, query, share * total), 60, "it does not advance")
                process.send_signal(signal.SIGKILL)
                kills += process.wait() == -signal.SIGKILL and reached(query) < total
        with materialiser(environment) as process:
            wait_until(lambda: reached(query) == total, 90, "it does not come to the end")
            process.send_signal(signal.SIGTERM)
            assert process.wait(8) == 0
        assert kills >= 2
        check_sums(query, list(once))
        messages = query("select dedupe, recipient from notifications_message")
        addresses = {each["invoice"]: address(each).get("email") for each in once}
        assert sorted(messages) == sorted(
            (f"points:{each['invoice']}:0", addresses[each["invoice"]] or "c@example.org")
            for each in once
            if each["amount"] // 50
        )


def check_sums(query: Query, once: list[Invoice]) -> None:
    """The sums of the database are those of the invoices, each counted once."""
    names = "sum(invoices), sum(lines), sum(revenue), sum(returns), sum(returned), sum(prime), "
    sums = query(f"select {names} sum(delivered) from retail_storehour")
    back = [each for each in once if each["amount"] < 0]
    at_home = [each for each in once if each["delivery"].lower() == "home-delivery"]
    assert sums == [(
        len(once), sum(len(each["lines"]) for each in once), sum(each["amount"] for each in once),
        len(back), -sum(each["amount"] for each in back),
        sum(each["customer_type"].lower() == "prime" for each in once),
        sum(each["amount"] > 0 for each in at_home),
    )]  # fmt: skip
    stores: Counter[str] = Counter()
    for each in once:
        stores[each["store"]] += each["amount"]
    assert dict(query("select store, sum(revenue) from retail_storehour group by store")) == stores
    points = sum(each["amount"] // 50 for each in once)
    assert query("select sum(points) from retail_pointshour") == [(points,)]
