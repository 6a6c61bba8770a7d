"""A real job process for tests, a log for it, and the plain fold over that log."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from bus.base import Bus, BusError, ConsumerRecord, TopicPartition, TopicSpec
from bus.kafka import KafkaBus
from domain.records import Command, Report
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from ops.leftovers import descendants
from streaming.state.checkpoint import Epoch, current_epoch
from streaming.state.storage import LocalPath
from support.run.stack import QUICK_START, ROOT, EmbeddedBroker, wait_until
from wire.job import QueryReport, decode_progress
from wire.partitioner import partition_of
from wire.source import encode_command, encode_report
from wire.topics import REPORTS, Topics

SCENARIOS = """\
[sites]
partitions = 2
vote_lifetime = "3s"
min_voters = 2
states = [{ name = "attack" }, { name = "odd" }, { name = "clear" }]
holds = { clear = "700ms", odd = "300ms" }
reminders = { attack = "900ms" }
[sites.rule]
kind = "quorum"
ladder = [{ state = "attack", more_than = "1/2" }, { state = "clear", at_least = "1/2" }]

[orders]
partitions = 2
vocabulary = "open"
states = [{ name = "received" }, { name = "delivered" }]
rule = { kind = "latest" }
purge_after = { delivered = "1s" }
"""


UNCHECKED = """\
import runpy, streaming.job.sources
streaming.job.sources.EXPECTED.clear()
runpy.run_module("streaming", run_name="__main__")
"""
"""The job, but for its look at the source topics' settings: records may bring their own time."""


@dataclass
class Job:
    """`python -m streaming` on a test's broker, topics and data directory.

    engine, trigger, master, batch_s, batch_reports, warm_up_s, memory, standby, job_scenarios,
    checkpoint, spark_jars, state_partitions: settings of the job, None for their defaults.
    source_config: settings of the source topics, above the product's own; replication: of all
    topics; variables: more of the job's environment, by their whole names.
    """

    broker: EmbeddedBroker
    data_dir: Path
    prefix: str
    engine: str | None = None
    trigger: str | None = None
    master: str | None = None
    batch_s: int | None = None
    batch_reports: int | None = None
    warm_up_s: int | None = None
    memory: str | None = None
    standby: int | None = None
    job_scenarios: str | None = None
    checkpoint: str | None = None
    spark_jars: Path | None = None
    state_partitions: int | None = None
    source_config: Mapping[str, str] = field(default_factory=dict)
    replication: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def topics(self) -> Topics:
        return Topics(self.prefix)

    @property
    def bus(self) -> KafkaBus:
        return KafkaBus(self.broker.options())

    @property
    def scenarios_file(self) -> Path:
        return self.data_dir / "scenarios.toml"

    @property
    def log(self) -> Path:
        return self.data_dir / "job.log"

    def scenarios(self) -> dict[str, Scenario]:
        return load_scenarios(self.scenarios_file)

    def configure(self, text: str) -> None:
        """Write the scenarios, and make their topics."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.scenarios_file.write_text(text)
        specs = self.topics.specs(self.scenarios().values())
        replication = self.replication or 1
        self.bus.ensure_topics((self._spec(*spec) for spec in specs), replication=replication)
        wait_until(
            lambda: self._settled([spec.name for spec in specs]), 10, "topics without leader"
        )

    def _spec(self, name: str, partitions: int, config: Mapping[str, str], more: bool) -> TopicSpec:
        own = self.source_config if name.endswith(REPORTS) else {}
        return TopicSpec(name, partitions, {**config, **own}, more)

    def _settled(self, topics: list[str]) -> bool:
        """Return whether each partition's leader knows that it is one."""
        try:
            return bool(self.bus.offsets(topics))
        except BusError:
            return False

    def environment(self) -> dict[str, str]:
        """Return what a process of this job finds in its environment, besides the test's own."""
        settings = {
            "DATA_DIR": self.data_dir,
            "KAFKA_PORT": self.broker.port,
            "JARS_DIR": self.broker.jars_dir,
            "TOPIC_PREFIX": self.prefix,
            "SCENARIOS": self.scenarios_file,
            "DEMO": 0,
            "ENGINE": self.engine,
            "TRIGGER": self.trigger,
            "SPARK_MASTER": self.master,
            "BATCH_S": self.batch_s,
            "BATCH_REPORTS": self.batch_reports,
            "WARM_UP_S": self.warm_up_s,
            "SPARK_MEMORY": self.memory,
            "STANDBY": self.standby,
            "JOB_SCENARIOS": self.job_scenarios,
            "CHECKPOINT": self.checkpoint,
            "SPARK_JARS": self.spark_jars,
            "STATE_PARTITIONS": self.state_partitions,
            "REPLICATION": self.replication,
        }
        given = {name: str(value) for name, value in settings.items() if value is not None}
        own = {f"TALLYBOARD_{name}": value for name, value in given.items()}
        return {**own, "JDK_JAVA_OPTIONS": QUICK_START, **self.variables}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the job in a process group of its own."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *self._module(), *arguments],
                cwd=ROOT,
                env=os.environ | self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def _module(self) -> list[str]:
        """The job refuses source topics with settings of their own, unless it does not look."""
        return ["-c", UNCHECKED] if self.source_config else ["-m", "streaming"]

    def clean_up(self) -> None:
        """Kill what is left of every process started."""
        for process in self.started:
            for pid in [process.pid, *descendants(process.pid)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()

    def read(self, topics: Iterable[str]) -> list[ConsumerRecord]:
        """Everything in these topics now."""
        return read_all(self.bus, topics)

    def query_reports(self, query: str = "kernel") -> list[QueryReport]:
        """What one of its queries has reported, oldest first."""
        records = [record.value for record in self.read([self.topics.progress]) if record.value]
        return [report for value in records if (report := decode_progress(value)).query == query]

    def state_records(self, name: str = "sites") -> int:
        """How many records the states topic of a scenario has got."""
        edges = self.bus.offsets([self.topics.states(name)]).values()
        return sum(end - begin for begin, end in edges)

    def epoch(self) -> Epoch:
        """The newest epoch of its query."""
        return current_epoch(LocalPath(self.data_dir) / "checkpoint" / (self.engine or "kernel"))

    def stores(self) -> set[int]:
        """The state partitions of the newest checkpoint, as Spark has made them."""
        folder = self.epoch().path / "state" / "0"
        return {int(name) for name in folder.names() if name.isdigit()}


def read_all(bus: Bus, topics: Iterable[str]) -> list[ConsumerRecord]:
    """Everything in these topics now, each partition in order."""
    return list(read_up_to(bus, bus.offsets(topics)))


def read_up_to(
    bus: Bus, edges: Mapping[TopicPartition, tuple[int, int]]
) -> Iterator[ConsumerRecord]:
    """Yield what lies between first and next offset of these partitions, each in order."""
    held = {place: edge for place, edge in edges.items() if edge[0] < edge[1]}
    reader = bus.reader({place: begin for place, (begin, _) in held.items()})
    while any(reader.positions()[place] < end for place, (_, end) in held.items()):
        for message in reader.poll(1, 10_000):
            if message.offset < held[message.topic, message.partition][1]:
                yield message
    reader.close()


def alive(pids: Iterable[int]) -> list[int]:
    """Those of the processes that still run."""
    running = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.append(pid)
    return running


_WORDS = {
    "sites": ("attack", "clear", "odd", "nowhere"),
    "orders": ("received", "delivered"),
}


class Load:
    """Seeded reports, commands and nonsense, sent to the job's topics."""

    def __init__(self, job: Job, seed: int) -> None:
        self._job, self._random = job, random.Random(seed)
        self._producer = job.bus.producer(linger_ms=1)

    def send(self, count: int) -> None:
        """Send `count` records, and wait until they are in the log."""
        for _ in range(count):
            self._one()
        assert self._producer.flush(20) == 0

    def _one(self) -> None:
        pick = self._random.random()
        if pick < 0.8:
            self._report()
        elif pick < 0.95:
            self._command()
        else:
            self._nonsense()

    def _asset(self) -> str:
        return f"asset/{self._random.randrange(25)} é"

    def _report(self) -> None:
        scenario, words = self._random.choice(
            [
                ("sites", ("attack", "clear", "odd", "nowhere")),
                ("orders", ("received", "delivered")),
            ]
        )
        report = Report(self._asset(), f"w{self._random.randrange(4)}", self._random.choice(words))
        if self._random.random() < 0.1:
            self._misroute(scenario, report)
        else:
            self.put(scenario, report.asset, encode_report(report))

    def _misroute(self, scenario: str, report: Report) -> None:
        """Send a report as a client with another partitioner does, or one that knows no keys."""
        topic, key, value = self._job.topics.reports(scenario), report.asset, encode_report(report)
        partition = self._random.randrange(self._job.scenarios()[scenario].partitions)
        if self._random.random() < 0.5:
            value = value.replace(b"{", b'{"asset":%s,' % json.dumps(key).encode(), 1)
            self._producer.send(topic, None, value, partition=partition)
        else:
            self._producer.send(topic, key.encode(), value, partition=partition)

    def _command(self) -> None:
        kind = self._random.choice(("set", "vote", "release", "purge"))
        now = int(time.time() * 1000)
        command = Command(
            kind=kind,  # type: ignore[arg-type]
            asset=self._asset(),
            id=str(UUID(int=self._random.getrandbits(128))),
            user="olga",
            state="attack" if kind in ("set", "vote") else None,
            until=self._random.choice((None, now + 1500)) if kind == "set" else None,
        )
        self.put("sites", command.asset, encode_command(command))

    def _nonsense(self) -> None:
        value = self._random.choice((b"{", b"\xff", b'{"type":"x"}'))
        headers = (("trace", b"\xfe"),) if self._random.random() < 0.5 else ()
        topic = self._job.topics.reports("sites")
        misplaced = 1 - partition_of(b"asset", 2)
        self._producer.send(topic, b"asset", value, headers=headers, partition=0)
        good = encode_report(Report("asset", "w", "clear"))
        self._producer.send(topic, b"asset", good, partition=misplaced)

    def put(self, scenario: str, asset: str, value: bytes) -> None:
        """Send one record."""
        self._producer.send(self._job.topics.reports(scenario), asset.encode(), value)

    def finish(self, timeout_s: float = 150) -> None:
        """Pin one marker per bucket and wait until the job has answered them all."""
        wanted = set()
        for scenario in self._job.scenarios().values():
            for partition in range(scenario.partitions):
                asset = next(
                    name
                    for name in map("marker-{}".format, range(1000))
                    if partition_of(name.encode(), scenario.partitions) == partition
                )
                id_ = str(UUID(int=self._random.getrandbits(128)))
                state = scenario.states[0].name
                command = Command("set", asset, id_, "olga", reason=id_, state=state)
                self.put(scenario.name, asset, encode_command(command))
                wanted.add(id_.encode())
        assert self._producer.flush(20) == 0
        topics = [self._job.topics.states(name) for name in self._job.scenarios()]
        bus = self._job.bus
        reader = bus.reader({place: begin for place, (begin, _) in bus.offsets(topics).items()})

        def answered() -> bool:
            for message in reader.poll(0.2, 10_000):
                wanted.discard(dict(message.headers).get("command", b""))
            return not wanted

        wait_until(answered, timeout_s, f"not all answered, see {self._job.log}")
        reader.close()
