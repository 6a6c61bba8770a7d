"""Sums of invoices and notices of points stay right though their process is killed, and again."""

from __future__ import annotations

import signal
import time
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from materialiser_process import Query, manage, materialiser, migrated, queries

from agents.tills import Fleet, Invoice
from bus.base import TopicSpec
from bus.kafka import KafkaBus
from stack import EmbeddedBroker, wait_until
from wire.topics import Topics

PREFIX = "killed-invoices."
INVOICES = 2_000
CHANNEL = """
from dashboard.notifications.models import Channel
Channel.objects.create(name="Customers", kind="mail", address="c@example.org", changed_at=1)
"""


def sold() -> list[Invoice]:
    """Invoices of the last quarter of an hour."""
    start = time.time_ns() // 1_000_000 - 1_000_000
    return [invoice for _, invoice in islice(Fleet(3, 400).run(start), INVOICES)]


def send(bus: KafkaBus, topics: Topics, invoices: list[Invoice]) -> None:
    """Send lines and points as the pipelines do, each twice, as after a kill of those."""
    producer = bus.producer()
    for invoice in [*invoices, *invoices]:
        key, whole = invoice.invoice.encode(), msgspec.to_builtins(invoice)
        for number, line in enumerate(whole["lines"], 1):
            amount = line["quantity"] * line["price"]
            record = whole | line | {"line": number, "lines": len(whole["lines"]), "amount": amount}
            producer.send(topics.invoice_lines, key, msgspec.json.encode(record))
        points = {name: whole[name] for name in ("invoice", "card", "customer", "at")}
        record = points | {"earned": whole["amount"] // 50, "total": 1}
        producer.send(topics.loyalty, key, msgspec.json.encode(record))
        producer.poll()
    assert producer.flush(60) == 0
    producer.close()


def reached(query: Query) -> int:
    """Return how many records of both topics the database stands for."""
    sql = f"select sum(next_offset) from materialiser_sinkoffset where topic in ({TOPICS})"
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
    once = {each.invoice: each for each in invoices}.values()
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
        sums = query("select sum(invoices), sum(lines), sum(revenue) from invoices_storehour")
        lines = sum(len(each.lines) for each in once)
        assert sums == [(len(once), lines, sum(each.amount for each in once))]
        stores = Counter(each.store for each in once)
        by_store = query("select store, sum(invoices) from invoices_storehour group by store")
        assert dict(by_store) == stores
        earned = {each.invoice: each.amount // 50 for each in once}
        assert query("select sum(points) from invoices_pointshour") == [(sum(earned.values()),)]
        told = query("select dedupe from notifications_message")
        assert sorted(told) == sorted((f"points:{name}:0",) for name, n in earned.items() if n)
