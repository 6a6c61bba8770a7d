"""What one query carries: its scenarios, as configured, as changed from the console, in the log."""

from __future__ import annotations

import time
from collections.abc import Mapping

from bus.base import Bus, TopicPartition, TopicSpec
from config.settings import Settings
from domain.scenario import Scenario
from streaming.fold.assignment import EngineAssignment
from streaming.fold.progress import ProgressReporter
from streaming.fold.rules import Book, Rules, own_book
from streaming.state.buckets import BucketId, Engine
from wire.job import MAX_REASON, query_of
from wire.keys import KeyFile
from wire.signature import Signer
from wire.topics import Topics


class Workload:
    """The scenarios of one engine's query."""

    def __init__(
        self,
        settings: Settings,
        sharing: EngineAssignment,
        bus: Bus,
        engine: Engine,
        book: Book | None,
    ) -> None:
        """book: what `sharing` was made from; None: what the settings lead to."""
        self.sharing, self._bus = sharing, bus
        self.settings, self.engine = settings, engine
        self.query = query_of(settings.job, engine)
        self.scenarios = sharing.shares[engine]
        self.book = book or own_book(settings)
        self.topics = Topics(settings.topic_prefix)
        self.home = sharing.home / engine
        self.keys = KeyFile(settings.command_keys_file).made()

    def demands_signatures(self) -> bool:
        """Return whether any scenario requires signed commands."""
        return any(scenario.signed_commands for scenario in self.scenarios.values())

    def source_topics(self) -> list[str]:
        """Return the topics that the query reads."""
        return [self.topics.reports(name) for name in self.scenarios]

    def topic_specs(self) -> list[TopicSpec]:
        """Return all topics of these scenarios as they should be."""
        return [TopicSpec(*spec) for spec in self.topics.specs(self.scenarios.values())]

    def source(self, bucket: BucketId) -> TopicPartition:
        """Return the partition that a bucket reads."""
        return self.topics.reports(bucket.scenario), bucket.partition

    def bucket(self, place: TopicPartition) -> str:
        """Return the name of the bucket that reads a partition."""
        return str(BucketId(self.topics.scenario_of(place[0]) or "", place[1]))

    # ---- changes --------------------------------------------------------------------------------

    def read_anew(self) -> tuple[Book, dict[str, Scenario]]:
        """Read the scenarios as they are now; return the book, and this engine's share of it.

        Raises ScenarioError, Refused and ProcessNeeded.
        """
        book = own_book(self.settings)
        return book, self.sharing.anew(self.engine, book.rules)

    def adopt(self, book: Book, scenarios: dict[str, Scenario]) -> None:
        """Carry these scenarios from now on."""
        self.sharing.adopt(self.engine, scenarios)
        self.book, self.scenarios = book, scenarios

    # ---- the log and the console ----------------------------------------------------------------

    def append_rules(self, report: ProgressReporter) -> dict[BucketId, str]:
        """Append the rules that differ from those in the log; return each bucket's first one.

        Raises BusError.
        """
        signer = Signer(self.keys.ring, now_ms)
        rules = Rules(self._bus, self.topics, self.home / "rules.json", self.keys.ring, signer)
        first = rules.settle(self.scenarios)
        self.publish(report, rules.newest)
        return first

    def publish(self, report: ProgressReporter, newest: Mapping[BucketId, int]) -> None:
        """Report each scenario. newest: the offsets of the records in which the log has it."""
        for carried in self.book.carried(self.scenarios, newest):
            report.carries(carried)

    def overlay_problems(self) -> list[str]:
        """Return why changes from the console do not count, where they do not."""
        others = self.book.configured.keys() - self.scenarios.keys()
        problems = self.book.problems.items()
        return [why[:MAX_REASON] for name, why in problems if name not in others]


def now_ms() -> int:
    """Return the wall clock, Unix ms."""
    return int(time.time() * 1000)
