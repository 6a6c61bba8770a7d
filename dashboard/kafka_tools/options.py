"""What the options of the commands mean, and how what Kafka refuses is said."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

from django.conf import settings
from django.core.management.base import CommandError

from bus.base import BusError, Refused, TopicPartition, Unavailable
from bus.kafka_admin import KafkaAdmin
from dashboard.core.scenarios import scenarios, topics
from domain.config_values import PlainError
from domain.config_values import duration as parse_duration

MAX_NAME = 249

# A place in a log: one of its edges, an offset, or the first record at or after a time.
Target = Literal["begin", "end"] | int | datetime

_EDGES: dict[str, Literal["begin", "end"]] = {
    "begin": "begin",
    "earliest": "begin",
    "end": "end",
    "latest": "end",
}


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of an integer from `low` to `high`, which raises ArgumentTypeError."""

    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise ArgumentTypeError(f"expected {low} to {high:,}, got {text!r}")
        return int(text)

    return read


def seconds(text: str) -> float:
    """Return a duration in s. Raises ArgumentTypeError."""
    try:
        return parse_duration(text, "") / 1000
    except PlainError as error:
        raise ArgumentTypeError(f"expected {error.expected}, got {text!r}") from None


def name(text: str) -> str:
    """Return the name of a topic or group. Raises ArgumentTypeError."""
    if not 1 <= len(text) <= MAX_NAME or not text.isprintable():
        raise ArgumentTypeError(f"expected 1 to {MAX_NAME} printable characters, got {text!r}")
    return text


def target(text: str) -> Target:
    """Return a place in a log. Raises ArgumentTypeError."""
    if text in _EDGES:
        return _EDGES[text]
    if text.isdecimal() and len(text) < len(str(1 << 63)):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        edges = ", ".join(_EDGES)
        raise ArgumentTypeError(
            f"expected {edges}, an offset, or a time such as 2026-01-31T14:00:00Z, got {text!r}"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def resolve(
    admin: KafkaAdmin, aim: Target, places: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the offset that is meant, for each partition.

    Raises BusError for an offset that a log does not hold.
    """
    edges = admin.edges(places)
    if isinstance(aim, datetime):
        return admin.at_time(edges, aim)
    if aim == "begin":
        return {place: edge.begin for place, edge in edges.items()}
    if aim == "end":
        return {place: edge.high_watermark for place, edge in edges.items()}
    for (topic, partition), edge in edges.items():
        if not edge.begin <= aim <= edge.high_watermark:
            raise BusError(
                f"{topic}/{partition} holds no offset {aim}: "
                f"expected {edge.begin} to {edge.high_watermark}."
            )
    return dict.fromkeys(edges, aim)


def kafka_options() -> Mapping[str, str]:
    """Return the connection options of this copy, under librdkafka's names."""
    options: Mapping[str, str] = settings.TALLYBOARD.kafka_options()
    return options


def refuse_own(topic: str) -> None:
    """Raise CommandError for a topic whose records the product alone writes."""
    if topic in {spec.name for spec in topics().specs(scenarios().values())}:
        raise CommandError(
            f"{topic} is a topic of the product, whose records have a form of their own: "
            "expected another one. Reports are sent over REST or by a Reporter."
        )


@contextmanager
def in_words() -> Iterator[None]:
    """Have what Kafka refuses end the command with a message."""
    try:
        yield
    except Refused as refusal:
        raise CommandError(str(refusal)) from None
    except Unavailable as error:
        raise CommandError(f"{settings.TALLYBOARD.bootstrap} does not answer: {error}") from None
    except BusError as error:
        raise CommandError(str(error)) from None
