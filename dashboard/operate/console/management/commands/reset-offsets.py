"""`manage.py reset-offsets`: where a group without members goes on reading."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from bus.base import BusError, TopicPartition
from bus.kafka_admin import Committed, Edges, KafkaAdmin
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.times import iso_second, now_ms
from dashboard.operate.console.kafka_tools import (
    aligned,
    in_words,
    kafka_options,
    name,
    resolve,
    target,
    whole,
)

MAX_PARTITION = 100_000
HEAD = ("partition", "committed", "new", "begin", "high-watermark", "effect")
SHOWN_MEMBERS = 10


class Command(BaseCommand):
    """The command that shows what a reset would change, and with --apply changes it."""

    help = (
        "Show where a consumer group would go on reading after a reset; with --apply, reset it. "
        "A group with members is refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add group, topic, partition, target and --apply."""
        parser.add_argument("--group", type=name, required=True)
        parser.add_argument("--topic", type=name, required=True)
        parser.add_argument(
            "--partition", type=whole(0, MAX_PARTITION), help="this one alone (all of the topic)"
        )
        parser.add_argument(
            "--to", type=target, required=True, metavar="earliest|latest|OFFSET|TIME"
        )
        parser.add_argument("--apply", action="store_true", help="do it (show it alone)")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Show or reset. Raises CommandError where Kafka refuses, or the group has members."""
        group, topic = options["group"], options["topic"]
        admin = KafkaAdmin(kafka_options())
        with in_words():
            refuse_members(admin, group)
            places = _places(admin, topic, options["partition"])
            new = resolve(admin, options["to"], places)
            before, edges = admin.committed(group), admin.edges(places)
        self._show(new, before, edges)
        if not options["apply"]:
            self.stdout.write("Nothing has been changed. Add --apply to reset the group.")
            return
        who = Actor.shell()
        metadata = f"reset by {who.name} at {iso_second(now_ms())}"
        with in_words():
            admin.commit(group, {place: Committed(to, metadata) for place, to in new.items()})
        offsets = {str(partition): to for (_, partition), to in new.items()}
        record(who, "offsets.reset", target=group, topic=topic, offsets=offsets)
        self.stdout.write(f"Group {group} goes on reading {topic} there.")

    def _show(
        self,
        new: dict[TopicPartition, int],
        before: dict[TopicPartition, Committed],
        edges: dict[TopicPartition, Edges],
    ) -> None:
        rows = [_row(place, to, before.get(place), edges[place]) for place, to in new.items()]
        for line in aligned([HEAD, *rows]):
            self.stdout.write(line)


def refuse_members(admin: KafkaAdmin, group: str) -> None:
    """Raise CommandError for a group with members: they would go on where they are, and commit."""
    members = admin.group(group).members
    if members:
        names = ", ".join(f"{each.client} on {each.host}" for each in members[:SHOWN_MEMBERS])
        raise CommandError(
            f"Group {group} has {len(members)} members ({names}), which would commit over a "
            "reset: expected a group without members. Stop them first."
        )


def _places(admin: KafkaAdmin, topic: str, partition: int | None) -> list[TopicPartition]:
    """Return the partitions that are meant. Raises BusError for one that is missing."""
    numbers = list(admin.describe(topic))
    if partition is None:
        return [(topic, number) for number in numbers]
    if partition not in numbers:
        raise BusError(f"{topic} has no partition {partition}: expected 0 to {numbers[-1]}.")
    return [(topic, partition)]


def _row(place: TopicPartition, to: int, before: Committed | None, edges: Edges) -> tuple[str, ...]:
    partition, begin, end = str(place[1]), str(edges.begin), str(edges.high_watermark)
    if before is None:
        return (partition, "none", str(to), begin, end, f"{edges.high_watermark - to} to read")
    step = to - before.offset
    effect = f"{-step} again" if step < 0 else f"{step} skipped" if step else "no change"
    return (partition, str(before.offset), str(to), begin, end, effect)
