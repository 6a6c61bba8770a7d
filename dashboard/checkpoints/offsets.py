"""How far the database is in the logs."""

from __future__ import annotations

from collections.abc import Mapping

from bus.base import TopicPartition
from dashboard.checkpoints.models import SinkOffset


def advance(offsets: Mapping[TopicPartition, int]) -> None:
    """Store the next offset of each partition, in the transaction that stores what came before."""
    rows = [
        SinkOffset(topic=topic, partition=partition, next_offset=offset)
        for (topic, partition), offset in offsets.items()
    ]
    SinkOffset.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["topic", "partition"],
        update_fields=["next_offset"],
    )
