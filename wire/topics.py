"""The names and settings of the product's topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from domain.scenario import Scenario

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
REPORTS, STATES = ".reports", ".states"

# Records are uncompressed in the log as well: the broker unpacks a batch and refuses one of more
# than a megabyte, and librdkafka's batches fit into that uncompressed.
BOUNDED = {"compression.type": "uncompressed", "max.message.bytes": str((1 << 20) + 12)}
_BY_AGE = {**BOUNDED, "cleanup.policy": "delete", "retention.ms": str(WEEK_MS)}
_BY_AGE_STAMPED = {**_BY_AGE, "message.timestamp.type": "LogAppendTime"}
# For results of batch queries: kept until the materialiser has processed them, and never many.
_BRIEFLY = {
    **BOUNDED,
    "cleanup.policy": "delete",
    "retention.ms": str(DAY_MS),
    "retention.bytes": str(256 << 20),
    "segment.bytes": str(64 << 20),
}
# For records that nobody reads: deleted as soon as Kafka deletes at all.
_FORGOTTEN = {
    **BOUNDED,
    "cleanup.policy": "delete",
    "retention.ms": "60000",
    "segment.ms": "60000",
    "segment.bytes": str(16 << 20),
    "retention.bytes": str(16 << 20),
}
# Clients decide how many records there are, so the size of each partition is limited.
_LOGS = {**_BY_AGE, "retention.bytes": str(256 << 20), "segment.bytes": str(64 << 20)}
_COMPACTED = {**BOUNDED, "cleanup.policy": "compact"}
_STATES = {
    **_COMPACTED,
    "min.compaction.lag.ms": str(WEEK_MS),
    "delete.retention.ms": str(WEEK_MS),
}


class Topic(NamedTuple):
    """A topic to be created. may_grow: whether one that is there may have more partitions."""

    name: str
    partitions: int
    config: Mapping[str, str]
    may_grow: bool = False


class Topics:
    """Topic names with an optional prefix."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.dead_letters = f"{prefix}dead-letters"
        self.buckets = f"{prefix}job.buckets"
        self.progress = f"{prefix}job.progress"
        self.control = f"{prefix}job.control"
        self.results = f"{prefix}job.results"
        self.leader_group = f"{prefix}job-leader"
        self.pipelines = f"{prefix}job.pipelines"
        self.app_logs = f"{prefix}app-logs"
        self.pos = f"{prefix}pos"
        self.product_views = f"{prefix}product-views"
        self.product_counts = f"{prefix}product-counts"
        self.product_milestones = f"{prefix}product-milestones"
        self.prices = f"{prefix}prices"
        self.invoice_lines = f"{prefix}invoice-lines"
        self.loyalty = f"{prefix}loyalty"

    def reports(self, scenario: str) -> str:
        """Return the source topic: reports, commands, ticks, scenario records."""
        return f"{self.prefix}{scenario}{REPORTS}"

    def states(self, scenario: str) -> str:
        """Return the sink topic: one record per visible change."""
        return f"{self.prefix}{scenario}{STATES}"

    def leader_group_of(self, job: str) -> str:
        """Return the consumer group that chooses the leader of a job, empty for the main one."""
        return f"{self.leader_group}-{job}" if job else self.leader_group

    def store_group(self, scenario: str) -> str:
        """Return the consumer group of the servers that share a scenario's states."""
        return f"{self.prefix}{scenario}.stores"

    def scenario_of(self, topic: str) -> str | None:
        """Return the scenario whose reports or states `topic` contains, or None."""
        if not topic.startswith(self.prefix):
            return None
        name = topic[len(self.prefix) :]
        for ending in (REPORTS, STATES):
            if name.endswith(ending):
                return name[: -len(ending)]
        return None

    def rehearsal(self) -> Topic:
        """Return the topic that a standby writes to while it rehearses; nobody reads it."""
        return Topic(f"{self.prefix}job.rehearsal", 1, _FORGOTTEN)

    def invoices(self) -> Topic:
        """Return the topic with invoices by store, which the tills create."""
        return Topic(self.pos, 3, {**_BY_AGE, "segment.ms": str(DAY_MS)})

    def views_of_products(self) -> Topic:
        """Return the topic with views by product, which the program that shows products creates."""
        return Topic(self.product_views, 2, {**_BY_AGE, "segment.ms": str(DAY_MS)})

    def price_list(self) -> Topic:
        """Return the topic with prices by product, in cents, which the tills create."""
        return Topic(self.prices, 1, _COMPACTED)

    def specs(self, scenarios: Iterable[Scenario]) -> list[Topic]:
        """Return every topic of the product, with its partitions and settings."""
        topics = [
            Topic(self.dead_letters, 1, _BY_AGE),
            Topic(self.buckets, 1, _COMPACTED),
            Topic(self.progress, 1, _BY_AGE),
            Topic(self.control, 1, _BY_AGE_STAMPED),
            Topic(self.results, 1, _BRIEFLY),
            Topic(self.pipelines, 1, _BY_AGE),
            Topic(self.app_logs, 2, _LOGS),
        ]
        for scenario in scenarios:
            reports = Topic(self.reports(scenario.name), scenario.partitions, _BY_AGE_STAMPED)
            topics.append(reports._replace(may_grow=True))  # what lies there is forwarded
            topics.append(Topic(self.states(scenario.name), scenario.partitions, _STATES))
        return topics
