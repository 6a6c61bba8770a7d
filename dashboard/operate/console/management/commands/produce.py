"""`manage.py produce TOPIC`: records, and for each its partition and offset or its error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from bus.base import Unavailable
from bus.kafka import KafkaBus
from bus.kafka_admin import KafkaAdmin
from dashboard.operate.console.kafka_tools import (
    DeliveryCounts,
    in_words,
    kafka_options,
    name,
    produce_async,
    produce_sync,
    produce_with_callback,
    refuse_own,
    seconds,
    whole,
)

MAX_COUNT = 1_000_000
# How much longer to wait for answers than the producer holds a record.
MARGIN_S = 2.0
# How long to wait for a broker before anything is sent.
REACH_S = 3.0
WAYS = {"sync": produce_sync, "async": produce_async, "callback": produce_with_callback}


class Command(BaseCommand):
    """The command that sends records KEY-0, KEY-1, … and prints the outcome of each."""

    help = "Send records to a topic and print partition and offset of each, or its error."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the topic, how many records, and which way."""
        parser.add_argument("topic", type=name)
        parser.add_argument("--count", type=whole(1, MAX_COUNT), default=100, help="how many (100)")
        ways = parser.add_mutually_exclusive_group()
        for way, text in (
            ("sync", "wait for each answer before the next record is sent"),
            ("async", "send all, then wait for the answers in order"),
            ("callback", "send all, and print each answer as it comes (what happens by default)"),
        ):
            ways.add_argument(f"--{way}", dest="way", action="store_const", const=way, help=text)
        parser.set_defaults(way="callback")
        parser.add_argument(
            "--timeout", type=seconds, default=10.0, help="how long a record is tried (10s)"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Send. Raises CommandError where the topic is none to write to, or a record failed."""
        topic, count, timeout_s = options["topic"], options["count"], options["timeout"]
        refuse_own(topic)
        self._check(topic)
        producer = KafkaBus(kafka_options()).producer(message_timeout_s=timeout_s)
        tally = DeliveryCounts(self.stdout.write)
        WAYS[options["way"]](producer, topic, count, tally.report, timeout_s + MARGIN_S)
        producer.close()
        done = f"{tally.delivered} of {count} records delivered in {tally.seconds():.3f} s"
        if tally.delivered < count:
            raise CommandError(f"{done}.")
        self.stdout.write(f"{done}, {options['way']}.")

    def _check(self, topic: str) -> None:
        """Raise CommandError for a missing topic. Where no broker answers, each record says so."""
        with in_words(), suppress(Unavailable):
            KafkaAdmin(kafka_options(), REACH_S).describe(topic)
