"""`manage.py topics create|describe`: topics with their partitions and replicas."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from bus.kafka_admin import Edges, KafkaAdmin, PartitionState
from dashboard.core.audit.log import Actor, record
from dashboard.operate.console.kafka_tools import aligned, in_words, kafka_options, name, whole

MAX_PARTITIONS = 1000
MAX_REPLICATION = 15
SHOWN = ("cleanup.policy", "retention.ms", "min.insync.replicas", "message.timestamp.type")
HEAD = ("partition", "leader", "in-sync", "replicas", "begin", "high-watermark", "log-end")


class Command(BaseCommand):
    """The command that makes a topic, and says how topics are."""

    help = "Make a topic, or say how topics are: leaders, replicas in sync, how far the logs go."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what to do: create or describe."""
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a topic")
        create.add_argument("topic", type=name)
        create.add_argument(
            "--partitions", type=whole(1, MAX_PARTITIONS), default=1, help="how many (1)"
        )
        create.add_argument(
            "--replication",
            type=whole(1, MAX_REPLICATION),
            default=1,
            help="on how many brokers each partition is kept (1)",
        )
        create.add_argument(
            "--config",
            type=setting,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a setting by Kafka's name, such as retention.ms=60000; may be repeated",
        )
        describe = actions.add_parser("describe", help="say how topics are")
        describe.add_argument("topic", type=name, nargs="*", help="which (all but Kafka's own)")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Create or describe. Raises CommandError where Kafka refuses."""
        with in_words():
            if options["action"] == "create":
                self._create(options)
            else:
                self._describe(options["topic"])

    def _create(self, options: dict[str, Any]) -> None:
        spec = TopicSpec(options["topic"], options["partitions"], dict(options["config"]))
        replication = options["replication"]
        KafkaAdmin(kafka_options()).create(spec, replication)
        # It is there once each partition has a leader.
        KafkaBus(kafka_options()).ensure_topics([spec], replication=replication)
        record(
            Actor.shell(),
            "topic.created",
            target=spec.name,
            partitions=spec.partitions,
            replication=replication,
        )
        self.stdout.write(
            f"Topic {spec.name} is made: {spec.partitions} partitions, replication {replication}."
        )

    def _describe(self, names: list[str]) -> None:
        admin, bus = KafkaAdmin(kafka_options()), KafkaBus(kafka_options())
        topics = names or admin.topics()
        settings = bus.settings(topics)
        for topic in topics:
            partitions = admin.describe(topic)
            edges = admin.edges((topic, number) for number in partitions)
            in_force = settings.get(topic, {})
            words = " ".join(f"{key}={in_force[key]}" for key in SHOWN if key in in_force)
            self.stdout.write(f"{topic} partitions={len(partitions)} {words}")
            rows = [_row(number, part, edges[topic, number]) for number, part in partitions.items()]
            for row in aligned([HEAD, *rows]):
                self.stdout.write(f"  {row}")


def _row(number: int, part: PartitionState, edges: Edges) -> tuple[str, ...]:
    leader = f"{part.leader[0]}@{part.leader[1]}" if part.leader else "none"
    brokers = (",".join(map(str, group)) for group in (part.in_sync, part.replicas))
    ends = (str(edges.begin), str(edges.high_watermark), str(edges.log_end))
    return (str(number), leader, *brokers, *ends)


def setting(text: str) -> tuple[str, str]:
    """Return a setting's name and value. Raises ArgumentTypeError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ArgumentTypeError(f"expected KEY=VALUE, such as retention.ms=60000, got {text!r}")
    return key, value
