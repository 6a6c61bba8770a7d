"""`manage.py consume TOPIC…`: consumers of one group, and all that happens to them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from bus.base import TopicPartition
from bus.kafka_admin import KafkaAdmin
from dashboard.operate.console.kafka_tools import (
    ConsumerPlan,
    Target,
    consume,
    in_words,
    kafka_options,
    name,
    resolve,
    seconds,
    stop_at_signals,
    target,
    whole,
)

MAX_CONSUMERS = 32
MAX_RECORDS = 10_000
BATCH = 0.0


class Command(BaseCommand):
    """The command that consumes topics as members of a group, until it is interrupted."""

    help = (
        "Consume topics in a group. Prints what each consumer is assigned, loses, reads and "
        "commits, and how far each partition has come. Ends at Ctrl-C."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the topics, the group, and how it consumes."""
        parser.add_argument("topic", type=name, nargs="+")
        parser.add_argument("--group", type=name, required=True, help="the group's name")
        parser.add_argument(
            "--consumers",
            type=whole(1, MAX_CONSUMERS),
            default=1,
            help="how many: a thread each (1)",
        )
        parser.add_argument(
            "--max-records", type=whole(1, MAX_RECORDS), default=500, help="most in a batch (500)"
        )
        parser.add_argument(
            "--commit", type=commit_every, default=BATCH, metavar="batch|DURATION",
            help="commit after each batch, or every so often, such as 5s (batch)",
        )  # fmt: skip
        parser.add_argument(
            "--reset", choices=("earliest", "latest"), default="earliest",
            help="where to begin without a committed offset (earliest)",
        )  # fmt: skip
        parser.add_argument(
            "--session-timeout", type=seconds, default=45.0, metavar="DURATION",
            help="a consumer that has been silent for so long is taken for dead (45s)",
        )  # fmt: skip
        parser.add_argument(
            "--seek", type=target, metavar="begin|end|OFFSET|TIME",
            help="begin there and not at the committed offsets",
        )  # fmt: skip
        parser.add_argument(
            "--idle", type=seconds, metavar="DURATION",
            help="end when all was read and nothing came for so long",
        )  # fmt: skip

    def handle(self, *_args: Any, **options: Any) -> None:
        """Consume until SIGINT or SIGTERM. Raises CommandError where Kafka refuses."""
        with in_words():
            starts = _starts(options["topic"], options["seek"])
        plan = ConsumerPlan(
            options["group"],
            tuple(options["topic"]),
            options["reset"],
            options["session_timeout"],
            options["max_records"],
            options["commit"],
            starts,
            options["idle"],
        )
        with stop_at_signals() as stop:
            failure = consume(plan, options["consumers"], kafka_options(), self._print, stop)
        if failure:
            raise CommandError(failure)

    def _print(self, line: str) -> None:
        """Print at once, also into a pipe: what is killed prints nothing later."""
        self.stdout.write(line)
        self.stdout.flush()


def commit_every(text: str) -> float:
    """Return s between commits, BATCH for each batch. Raises ArgumentTypeError."""
    return BATCH if text == "batch" else seconds(text)


def _starts(topics: list[str], aim: Target | None) -> dict[TopicPartition, int]:
    """Return where to begin. Raises BusError for a missing topic or offset."""
    admin = KafkaAdmin(kafka_options())
    places = [(topic, number) for topic in topics for number in admin.describe(topic)]
    return {} if aim is None else resolve(admin, aim, places)
