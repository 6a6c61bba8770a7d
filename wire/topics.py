"""The names and settings of the product's topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from domain.scenario import Scenario

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
REPORTS, STATES = ".reports", ".states"

BOUNDED = {"compression.type": "uncompressed", "max.message.bytes": str((1 << 20) + 12)}
"""What is small on the wire is small in the log: the broker unpacks a batch, and refuses one that
comes to more than a megabyte, which librdkafka's batches fit into as they are."""
_BY_AGE = {**BOUNDED, "cleanup.policy": "delete", "retention.ms": str(WEEK_MS)}
_BY_AGE_STAMPED = {**_BY_AGE, "message.timestamp.type": "LogAppendTime"}
_BRIEFLY = {
    **BOUNDED,
    "cleanup.policy": "delete",
    "retention.ms": str(DAY_MS),
    "retention.bytes": str(256 << 20),
    "segment.bytes": str(64 << 20),
}
"""Results of batch queries: until the materialiser has taken them in, and never much."""
_COMPACTED = {**BOUNDED, "cleanup.policy": "compact"}
_STATES = {
    **_COMPACTED,
    "min.compaction.lag.ms": str(WEEK_MS),
    "delete.retention.ms": str(WEEK_MS),
}


class Topic(NamedTuple):
    """A topic as it is to be created."""

    name: str
    partitions: int
    config: Mapping[str, str]


class Topics:
    """Topic names under an optional prefix."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.dead_letters = f"{prefix}dead-letters"
        self.buckets = f"{prefix}job.buckets"
        self.progress = f"{prefix}job.progress"
        self.control = f"{prefix}job.control"
        self.results = f"{prefix}job.results"

    def reports(self, scenario: str) -> str:
        """The source topic: reports, commands, ticks, scenario records."""
        return f"{self.prefix}{scenario}{REPORTS}"

    def states(self, scenario: str) -> str:
        """The sink topic: one record per visible change."""
        return f"{self.prefix}{scenario}{STATES}"

    def scenario_of(self, topic: str) -> str | None:
        """The scenario whose reports or states `topic` holds, or None."""
        if not topic.startswith(self.prefix):
            return None
        name = topic[len(self.prefix) :]
        for ending in (REPORTS, STATES):
            if name.endswith(ending):
                return name[: -len(ending)]
        return None

    def specs(self, scenarios: Iterable[Scenario]) -> list[Topic]:
        """Every topic of the product, with its partitions and settings."""
        topics = [
            Topic(self.dead_letters, 1, _BY_AGE),
            Topic(self.buckets, 1, _COMPACTED),
            Topic(self.progress, 1, _BY_AGE),
            Topic(self.control, 1, _BY_AGE_STAMPED),
            Topic(self.results, 1, _BRIEFLY),
        ]
        for scenario in scenarios:
            topics.append(Topic(self.reports(scenario.name), scenario.partitions, _BY_AGE_STAMPED))
            topics.append(Topic(self.states(scenario.name), scenario.partitions, _STATES))
        return topics
