"""The same log, drained by each engine in turn, from its beginning, on one broker.

The clock is the same for all. It starts with an engine's process, or when that says that its tasks
run, and ends when a reader of committed records can have the last one that the log leads to. Before
a time counts, the output is compared with the kernel's: as many records, and for each asset the
same state, marks and votes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from bench.busyness import Watch
from bench.drain import Size, refuse_dead_letters, run_before, source
from bench.load import MAJORITY, SCENARIO, Answers, Markers, backlog, fill
from bench.page_cache import release
from bench.peers.engines import KERNEL, Peer, Place, forget, running_at, started
from bench.peers.footprint import Footprint, footprint, segments
from bench.peers.outcome import Outcome, differences, outcome
from bench.stack import BenchProblem, Engine, Product, cpu_of, product, say
from bus.base import TopicPartition, TopicSpec
from bus.kafka_admin import KafkaAdmin

# Votes outlive the whole run, however many engines take their turn: each folds the same.
LIFETIME, LIFETIME_MS = "6h", 6 * 3_600_000
FIRST, LAST = "first", "last"
# An engine is done when nothing has come for so long: longer than any commits or checkpoints.
QUIET_S = 3.0
PATIENCE_S = 600


@dataclass(frozen=True)
class Drained:
    """One drain. start_s: from the process's start until it runs; s: from there to the end.

    cpu_s, broker_cpu_s: processor time of the engine's processes and of the broker, s. turn: of
    the kernel, which goes first and last. others: per cent, as in bench/busyness.py. memory_mb,
    durable, working: what it held once it had the whole log, as in bench/peers/footprint.py.
    """

    size: str
    reports: int
    assets: int
    engine: str
    turn: str
    start_s: float
    s: float
    cpu_s: float
    broker_cpu_s: float
    records: int
    bytes: int
    others: float
    memory_mb: float
    durable: int
    working: int


@dataclass(frozen=True)
class Log:
    """A filled log, and what the kernel made of it."""

    copy: Product
    name: str
    size: Size
    markers: Markers
    saved: Path

    @property
    def source(self) -> str:
        """Return the topic that all drain."""
        return source(self.copy)


def drain_all(name: str, size: Size, peers: Sequence[Peer], *, keep: bool = False) -> list[Drained]:
    """Drain one log with the kernel, every peer, and the kernel again. Raises BenchProblem."""
    say(f"peers, {name}: {size}")
    with product(MAJORITY.format(lifetime=LIFETIME), Engine(KERNEL), keep=keep) as copy:
        log = filled(copy, name, size)
        first, expected = by_kernel(log, FIRST, None)
        drains = [first, *(by_peer(log, peer, expected) for peer in peers)]
        last, again = by_kernel(log, LAST, expected.records)
        refuse_differences(KERNEL, expected, again)
        return [*drains, last]


def filled(copy: Product, name: str, size: Size) -> Log:
    """Let the job run once, and keep its checkpoint; then write the log."""
    run_before(copy)
    saved = copy.folder / "checkpoint.before"
    shutil.copytree(copy.folder / "checkpoint", saved)
    taken = fill(copy.bus, source(copy), backlog(size.reports, size.assets), size.reports)
    say(f"  written in {taken:.1f} s")
    states = copy.topics.states(SCENARIO)
    markers = Markers(copy.bus, source(copy), states, size.reports, copy.signer())
    return Log(copy, name, size, markers, saved)


def by_kernel(log: Log, turn: str, records: int | None) -> tuple[Drained, Outcome]:
    """Drain with the job, from the checkpoint that it had before the log was written."""
    copy, states = log.copy, log.copy.topics.states(SCENARIO)
    shutil.rmtree(copy.folder / "checkpoint")
    shutil.copytree(log.saved, copy.folder / "checkpoint")
    with _Course(log, states, records) as course:
        running = copy.start_job()
        course.wait(["job"], KERNEL)
    held = footprint(copy, ["job"], copy.folder / "checkpoint", copy.folder / "spark")
    copy.stop("job")
    refuse_dead_letters(copy)
    output = outcome(copy.bus, states, course.begin)
    release(segments_of_turns(log))
    return _drained(log, KERNEL, turn, course, running, output, held), output


def by_peer(log: Log, peer: Peer, expected: Outcome) -> Drained:
    """Drain with a peer, and compare its output. Raises BenchProblem where it differs."""
    copy, sink = log.copy, f"{peer.name}.states"
    place = Place(copy, log.source, sink, peer.name, LIFETIME_MS)
    copy.bus.ensure_topics([states_like(copy, sink)])
    peer.programs(place)  # what it needs is fetched and compiled before the clock starts
    admin = KafkaAdmin({"bootstrap.servers": copy.bootstrap})
    before = {sink, *admin.topics()}
    with _Course(log, sink, expected.records) as course:
        names = started(peer, place)
        course.wait(names, peer.name)
        running = running_at(copy, names)
    held = footprint(copy, names, place.saved, place.state, set(admin.topics()) - before)
    for name in names:
        copy.kill(name)
    forget(place)
    output = outcome(copy.bus, sink, course.begin)
    release(segments_of_turns(log))
    refuse_differences(peer.name, expected, output)
    return _drained(log, peer.name, "", course, running, output, held)


def segments_of_turns(log: Log) -> list[Path]:
    """Return the broker's segments that turns have written: all but those of the log itself."""
    by_topic = segments(log.copy)
    return [path for topic in by_topic.keys() - {log.source} for path in by_topic[topic]]


def states_like(copy: Product, name: str) -> TopicSpec:
    """Return a topic with as many partitions and the same settings as the product's states."""
    specs = copy.topics.specs(copy.scenarios.values())
    own = next(spec for spec in specs if spec.name == copy.topics.states(SCENARIO))
    return TopicSpec(name, own.partitions, own.config)


def refuse_differences(engine: str, expected: Outcome, output: Outcome) -> None:
    """Raise BenchProblem unless an engine's output is the kernel's."""
    if differing := differences(expected, output):
        raise BenchProblem(f"{engine} differs from the kernel's first turn: {'; '.join(differing)}")


class _Course:
    """One drain while it runs: when the last record came, what had been taken of processors then.

    records: how many committed records the sink is to hold, at least. None: until all markers are
    answered, which says the same of an engine that keeps each partition's order.
    """

    def __init__(self, log: Log, sink: str, records: int | None) -> None:
        self._log, self._copy, self._sink, self._records = log, log.copy, sink, records
        self.begin = self._ends()
        self._answers = Answers(self._copy.bus, sink, log.markers.ids, self.begin)
        self._seen = self.begin
        self.ended = self.cpu_s = self.broker_cpu_s = 0.0

    def _ends(self) -> dict[TopicPartition, int]:
        return {place: end for place, (_, end) in self._copy.bus.offsets([self._sink]).items()}

    def __enter__(self) -> Self:
        self._watch = Watch()
        self._broker = cpu_of(self._copy, ["broker"])
        self.began = time.time()
        return self

    def __exit__(self, *_: object) -> None:
        self.others = self._watch.end().mean

    def wait(self, names: Sequence[str], engine: str) -> None:
        """Return once the whole log is answered, and nothing more comes."""
        what = f"{engine}, {self._log.name}"
        self._copy.wait(lambda: self._complete(names), PATIENCE_S, what, self._progress)

    def _complete(self, names: Sequence[str]) -> bool:
        ends = self._ends()
        if ends != self._seen:
            self._seen, self.ended = ends, time.time()
            self.cpu_s = cpu_of(self._copy, names)
            self.broker_cpu_s = cpu_of(self._copy, ["broker"]) - self._broker
        return self._enough() and time.time() - self.ended >= QUIET_S

    def _enough(self) -> bool:
        # A transaction's end takes an offset too, so of exactly-once engines this is soon true.
        return self._come() >= self._records if self._records else self._answers.complete()

    def _come(self) -> int:
        return sum(end - self.begin[place] for place, end in self._seen.items())

    def _progress(self) -> str:
        return f": {self._come():,} records of it so far"


def _drained(
    log: Log,
    engine: str,
    turn: str,
    course: _Course,
    running: float,
    output: Outcome,
    held: Footprint,
) -> Drained:
    drained = Drained(
        size=log.name,
        reports=log.size.reports,
        assets=log.size.assets,
        engine=engine,
        turn=turn,
        start_s=running - course.began,
        s=course.ended - running,
        cpu_s=course.cpu_s,
        broker_cpu_s=course.broker_cpu_s,
        records=output.records,
        bytes=output.bytes,
        others=course.others,
        **asdict(held),
    )
    say(
        f"  {engine} {turn}: {drained.reports / drained.s:,.0f}/s, with start-up "
        f"{drained.reports / (drained.s + drained.start_s):,.0f}/s, {drained.cpu_s:.1f} s of "
        f"processor, {output.records:,} records, {held.memory_mb:,.0f} MB of memory, "
        f"{held.durable / 1e6:,.0f} and {held.working / 1e6:,.0f} MB of disk"
    )
    return drained


def plain(drains: Sequence[Drained]) -> Iterator[dict[str, Any]]:
    """Yield drains as they are kept."""
    for drained in drains:
        yield {"kind": "drain", **asdict(drained)}
