"""Simulated visitors of a shop, whose views of products go to `product-views`:
`python -m agents.demo.visitors`."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Iterator
from itertools import accumulate
from random import Random

import structlog

from agents.demo.tills import PRODUCTS
from agents.process import paced, rate_between, stop_on_signals
from agents.reporter import wall_clock
from bus.base import Producer, QueueFull, TopicSpec
from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from config.pulse import Pulse
from config.settings import Settings
from wire.topics import Topics

log = structlog.get_logger("agents.demo.visitors")

# The product at rank n is viewed n times less often than the first, following Zipf's law.
WEIGHTS = tuple(accumulate(1 / rank for rank in range(1, PRODUCTS + 1)))


def views(seed: int, start: int, gap_ms: int) -> Iterator[tuple[int, str]]:
    """Yield (time, product) endlessly, one per `gap_ms` from `start` (Unix ms) on."""
    random = Random(f"{seed}/ranks")
    ranked = random.sample([f"product-{number}" for number in range(1, PRODUCTS + 1)], PRODUCTS)
    at = start - start % gap_ms + gap_ms
    while True:
        [product] = Random(f"{seed}/views/{at}").choices(ranked, cum_weights=WEIGHTS)
        yield at, product
        at += gap_ms


def browse(
    stream: Callable[[int], Iterator[tuple[int, str]]],
    producer: Producer,
    topic: str,
    clock: Callable[[], int],
    stop: threading.Event,
    beat: Callable[[], None] = lambda: None,
) -> int:
    """Send each view at its time, until `stop`; return how many were lost because Kafka was away.

    beat: called after each view.
    """
    lost = 0
    for at, product in paced(stream, clock, stop):
        value = json.dumps({"product": product, "at": at}).encode()
        try:
            producer.send(topic, product.encode(), value)
        except QueueFull:
            lost += 1
        producer.poll()
        beat()
    return lost


def run(settings: Settings, arguments: argparse.Namespace, stop: threading.Event) -> None:
    """Browse until `stop`, then wait briefly for views in flight."""
    bus, topics = KafkaBus(settings.kafka_options()), Topics(settings.topic_prefix)
    bus.ensure_topics([TopicSpec(*topics.views_of_products())], replication=settings.replication)
    producer, gap_ms = bus.producer(), max(1, int(1000 / arguments.rate))
    log.info("browsing", seed=arguments.seed, rate=arguments.rate)
    lost = browse(
        lambda start: views(arguments.seed, start, gap_ms),
        *(producer, topics.product_views, wall_clock, stop),
        Pulse(settings.data_dir, "visitors").beat,
    )
    log.info("stopping", unconfirmed=producer.flush(2), lost=lost)
    producer.close(0)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("agents.demo.visitors", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="who views what (default 1)")
    parser.add_argument(
        "--rate", type=rate_between(0.1, 1000), default=5.0, help="views per second in all"
    )
    return parser.parse_args(arguments)


def main() -> None:
    """Browse until SIGTERM."""
    arguments, settings = parse(), enter()
    configure_logs(settings.log_level, "visitors")
    run(settings, arguments, stop_on_signals())


if __name__ == "__main__":
    main()
