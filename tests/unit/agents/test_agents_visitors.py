"""Simulated visitors: which products they view, and when they run."""

from __future__ import annotations

import json
import threading
from collections import Counter
from itertools import islice
from typing import Any

from agents.demo.tills import PRODUCTS
from agents.demo.visitors import browse, views
from bus.base import QueueFull, TopicSpec
from bus.memory import MemoryBus
from wire.topics import Topics

START = 1_790_000_000_000


def test_views_are_the_same_for_the_same_seed_and_time() -> None:
    assert list(islice(views(1, START, 200), 50)) == list(islice(views(1, START, 200), 50))
    assert list(islice(views(1, START, 200), 50)) != list(islice(views(2, START, 200), 50))
    later = list(islice(views(1, START + 2_000, 200), 40))
    assert later == list(islice(views(1, START, 200), 50))[10:]


def test_the_first_product_is_viewed_twice_as_often_as_the_second() -> None:
    seen = Counter(product for _, product in islice(views(1, START, 200), 20_000))
    (_, first), (_, second), *_ = seen.most_common()
    assert 1.7 < first / second < 2.3
    assert len(seen) == PRODUCTS


def test_a_view_is_sent_by_its_product_at_its_time() -> None:
    bus, stop = MemoryBus(lambda: START), threading.Event()
    bus.ensure_topics([TopicSpec(*Topics().views_of_products())])
    now = START
    beats = 0

    def clock() -> int:
        nonlocal now
        now += 100
        return now

    def beat() -> None:
        nonlocal beats
        beats += 1
        if beats == 5:
            stop.set()

    producer = bus.producer()
    lost = browse(lambda at: views(1, at, 100), producer, "product-views", clock, stop, beat)
    assert (lost, producer.flush(1)) == (0, 0)
    log = bus.reader({("product-views", at): 0 for at in range(2)}).poll(0)
    sent = sorted((json.loads(one.value or b"")["at"], one.key) for one in log)
    wanted = islice(views(1, START + 100, 100), 5)
    assert sent == [(at, product.encode()) for at, product in wanted]


class Full:
    """A producer whose queue takes nothing."""

    def send(self, *_: Any) -> None:
        raise QueueFull("full")

    def poll(self, timeout_s: float = 0) -> None:
        """Nothing is due."""


def test_a_view_is_lost_and_counted_while_kafka_takes_none() -> None:
    producer: Any = Full()
    stop = threading.Event()
    beats = iter(range(3))

    def beat() -> None:
        if next(beats) == 2:
            stop.set()

    def clock() -> int:
        return START + 60_000

    assert browse(lambda _: views(1, START + 59_000, 1), producer, "x", clock, stop, beat) == 3
