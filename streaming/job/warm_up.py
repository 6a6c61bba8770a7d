"""A standby rehearses: the job's own queries on a copy of its checkpoints, writing to nobody.

Half of what a take-over would take is what a JVM does for the first time: load and compile
classes, open RocksDB, read the state, connect to Kafka. So a standby does all of it once or twice
beforehand: it links the leader's newest checkpoint into a folder of its own, which costs no copy,
as Spark replaces files and changes none, and starts the query there as a take-over would. What the
query emits goes to a topic that nobody reads.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bus.base import Bus, BusError, TopicSpec
from domain.scenario import Scenario
from streaming.fold import query as fold_query
from streaming.fold.assignment import Shares, trigger_of
from streaming.fold.epochs import EpochStart, start_of
from streaming.fold.plan import Plan
from streaming.fold.rules import read_rules
from streaming.state.buckets import BucketId, Engine
from streaming.state.checkpoint import current_epoch, positions
from streaming.state.storage import LocalPath, StoragePath
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings

log = logging.getLogger("streaming.job.warm_up")

# How often: the first time loads classes, the next ones have them compiled.
TIMES = 3
# Batches in Real-time Mode while it rehearses, s: the end of one is part of it.
BATCH_S = 5
LONGEST_S = 60.0
LOOK_S = 0.1


class WarmUp:
    """Rehearses the queries of all engines."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        spark: SparkSession,
        shares: Shares,
        home: StoragePath,
        scratch: Path,
    ) -> None:
        """home: of all checkpoints; scratch: a folder, on their file system where that is local;
        it is emptied."""
        self._settings = settings.model_copy(update={"batch_s": BATCH_S})
        self._bus, self._spark, self._shares = bus, spark, shares
        self._home, self._scratch = home, LocalPath(scratch)
        self._topics = Topics(settings.topic_prefix)

    def run(self, enough: Callable[[], bool]) -> bool:
        """Rehearse the set number of times, or until `enough`. Return whether all went well.

        Failures are logged alone: a standby that is less warm is still a standby.
        """
        topic = TopicSpec(*self._topics.rehearsal())
        try:
            self._bus.ensure_topics([topic], replication=self._settings.replication)
            for _ in range(TIMES):
                for engine, scenarios in self._shares.items():
                    if not enough():
                        self._once(engine, scenarios, enough)
        except Exception as error:  # noqa: BLE001, whatever it is: the standby does without
            log.warning("the rehearsal did not succeed: %s", error)
            return False
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return True

    def _once(
        self, engine: Engine, scenarios: dict[str, Scenario], enough: Callable[[], bool]
    ) -> None:
        begun = time.monotonic()
        plan, checkpoint = self._prepared(engine, scenarios)
        query = fold_query.start(
            self._spark,
            self._settings,
            plan,
            checkpoint,
            engine=engine,
            trigger=trigger_of(engine, self._settings.effective_trigger),
            loss_known=True,
            only_to=self._topics.rehearsal().name,
        )
        through: list[object] = []
        deadline = time.monotonic() + LONGEST_S
        try:
            fold_query.watch(
                query,
                lambda: bool(through) or enough() or time.monotonic() > deadline,
                through.append,
                every_s=LOOK_S,
            )
        finally:
            # Spark tells of every task that is broken off.
            self._spark.sparkContext.setLogLevel("OFF")
            query.stop()
            self._spark.sparkContext.setLogLevel("WARN")
        log.info("%s: rehearsed in %.1f s", engine, time.monotonic() - begun)

    def _prepared(self, engine: Engine, scenarios: dict[str, Scenario]) -> tuple[Plan, LocalPath]:
        """Return what the query is to know, and its own checkpoint: the leader's, linked, where it
        is local; else one that begins at the log's end."""
        home = self._home / engine
        epoch = current_epoch(home)
        checkpoint = self._scratch / engine
        checkpoint.delete()
        if isinstance(epoch.path, LocalPath) and positions(epoch.path):
            link(epoch.path, checkpoint)
            start = start_of(epoch)
        else:
            number = self._settings.first_state_partitions
            start = EpochStart(offsets=self._ends(scenarios), state_partitions=number)
        rules = first_rules(home / "rules.json", self._topics)
        partitions = {name: one.partitions for name, one in scenarios.items()}
        keys = str(self._settings.command_keys_file)
        prefix = self._settings.topic_prefix
        number = start.version_epoch(epoch)
        return Plan(prefix, number, partitions, rules, start, keys), checkpoint

    def _ends(self, scenarios: dict[str, Scenario]) -> dict[str, int]:
        edges = self._bus.offsets([self._topics.reports(name) for name in scenarios])
        names = {place: self._topics.scenario_of(place[0]) or "" for place in edges}
        return {str(BucketId(names[at], at[1])): end for at, (_, end) in edges.items()}


def link(folder: Path, target: Path) -> None:
    """Link the files of a checkpoint that is being worked on to another folder.

    What the newest batches need is complete there: the offsets first, of the commits what was
    there before that. Raises OSError.
    """
    for part in ("commits", "offsets"):
        _link_all(folder / part, target / part)
    for path in folder.iterdir():
        if path.is_dir() and path.name not in ("commits", "offsets"):
            _link_all(path, target / path.name)
        elif path.is_file():
            _link_one(path, target / path.name)


def _link_all(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for place, _, names in os.walk(folder):
        to = target / Path(place).relative_to(folder)
        to.mkdir(parents=True, exist_ok=True)
        for name in names:
            _link_one(Path(place) / name, to / name)


def _link_one(path: Path, target: Path) -> None:
    with suppress(FileNotFoundError):  # the leader tidies up meanwhile
        os.link(path, target)


def first_rules(path: StoragePath, topics: Topics) -> dict[BucketId, str]:
    """Return each bucket's first rule, as the leader has written them down. Raises BusError where
    it has written none yet."""
    stored = read_rules(path).rules
    if not stored:
        raise BusError("no rules to rehearse with yet")
    places = {tuple(name.rsplit("/", 1)): held for name, held in stored.items() if held}
    return {
        BucketId(topics.scenario_of(topic) or "", int(at)): held[0][1]
        for (topic, at), held in places.items()
    }
