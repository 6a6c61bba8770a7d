"""How soon each engine answers again after `kill -9` of all its processes.

It has taken one report on each asset, and committed them. Then it is killed and started again at
once, on the machine where its local state lies; from that moment on a report on a new asset is sent
every tenth of a second. Measured is the time from the start of the process to the first committed
state record that answers one of them, and until there is one in every partition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Protocol

from bench.drain import run_before, source
from bench.load import AGENTS, MAJORITY, SCENARIO, STATES, backlog, fill
from bench.peers.drain import LIFETIME, LIFETIME_MS, QUIET_S, states_like
from bench.peers.engines import KERNEL, Peer, Place, started
from bench.recovery import BACK_S, PATIENCE_S, PROBE_EVERY_S, Size, settle
from bench.stack import BenchProblem, Engine, Product, product, say
from bus.base import Producer, Reader
from domain.records import Report
from wire.source import encode_report

# Longer than any peer lets pass between commits.
COMMIT_S = 32.0


@dataclass(frozen=True)
class Recovered:
    """One recovery: seconds to the first new state, and until every partition has one."""

    engine: str
    assets: int
    first_s: float
    all_s: float


class Runner(Protocol):
    """What is killed and started again."""

    sink: str

    def settle(self, assets: int) -> None:
        """Take a report on each asset, and commit them. Raises BenchProblem."""

    def kill(self) -> None:
        """Kill all its processes."""

    def start(self) -> None:
        """Start them, and wait for nothing."""


class KernelRunner:
    """The job."""

    def __init__(self, copy: Product) -> None:
        self._copy, self.sink = copy, copy.topics.states(SCENARIO)

    def settle(self, assets: int) -> None:
        """See Runner."""
        run_before(self._copy)
        settle(self._copy, Engine(KERNEL), Size(assets))

    def kill(self) -> None:
        """See Runner."""
        self._copy.kill("job")

    def start(self) -> None:
        """See Runner."""
        self._copy.launch_job().close()


class PeerRunner:
    """A peer's processes."""

    def __init__(self, copy: Product, peer: Peer) -> None:
        self._copy, self.sink = copy, f"{peer.name}.states"
        self._peer = peer
        self._place = Place(copy, source(copy), self.sink, peer.name, LIFETIME_MS)
        self._names: list[str] = []

    def settle(self, assets: int) -> None:
        """See Runner."""
        copy = self._copy
        copy.bus.ensure_topics([states_like(copy, self.sink)])
        fill(copy.bus, source(copy), backlog(assets, assets), assets)
        self.start()
        rest = _Rest(copy, self.sink)
        copy.wait(lambda: rest.since(QUIET_S, assets), PATIENCE_S, "all assets")
        copy.wait(lambda: rest.since(COMMIT_S, assets), PATIENCE_S, "a commit")

    def kill(self) -> None:
        """See Runner."""
        for name in self._names:
            self._copy.kill(name)

    def start(self) -> None:
        """See Runner."""
        self._names = started(self._peer, self._place)


class _Rest:
    """How long a topic has been at rest."""

    def __init__(self, copy: Product, topic: str) -> None:
        self._copy, self._topic = copy, topic
        self._held, self._at = 0, time.monotonic()

    def since(self, seconds: float, least: int) -> bool:
        """Look once: whether that many records are there, and nothing has come for so long."""
        held = sum(end for _, end in self._copy.bus.offsets([self._topic]).values())
        if held != self._held:
            self._held, self._at = held, time.monotonic()
        return held >= least and time.monotonic() - self._at >= seconds


def recover_all(assets: int, kills: int, peers: Sequence[Peer]) -> list[dict[str, Any]]:
    """Kill the kernel and every peer so often. Raises BenchProblem."""
    recovered: list[Recovered] = []
    for peer in (None, *peers):
        engine = peer.name if peer else KERNEL
        say(f"recovery, {engine}: {assets:,} assets")
        with product(MAJORITY.format(lifetime=LIFETIME), Engine(KERNEL)) as copy:
            runner = PeerRunner(copy, peer) if peer else KernelRunner(copy)
            recovered += recover(copy, runner, engine, assets, kills)
    return [{"kind": "recovery", **asdict(each)} for each in recovered]


def recover(copy: Product, runner: Runner, engine: str, assets: int, kills: int) -> list[Recovered]:
    """Kill one engine so often. Raises BenchProblem."""
    runner.settle(assets)
    recovered = []
    for number in range(kills):
        first_s, all_s = _killed(copy, runner, f"probe-{number}-")
        say(f"  back after {first_s:.1f} s, all partitions after {all_s:.1f} s")
        recovered.append(Recovered(engine, assets, first_s, all_s))
    return recovered


def _killed(copy: Product, runner: Runner, prefix: str) -> tuple[float, float]:
    runner.kill()
    ends = {place: end for place, (_, end) in copy.bus.offsets([runner.sink]).items()}
    reader, producer = copy.bus.reader(ends), copy.bus.producer(linger_ms=0)
    begun = time.monotonic()
    try:
        runner.start()
        answered = _answered(copy, producer, reader, prefix, len(ends))
    finally:
        reader.close()
        producer.close()
    return min(answered) - begun, max(answered) - begun


def _answered(
    copy: Product, producer: Producer, reader: Reader, prefix: str, partitions: int
) -> list[float]:
    """Send probes until each partition has answered one; when each first did."""
    numbers, due, deadline = count(), time.monotonic(), time.monotonic() + BACK_S
    answered: dict[int, float] = {}
    while len(answered) < partitions:
        if time.monotonic() > deadline:
            raise BenchProblem(f"{len(answered)} of {partitions} partitions within {BACK_S} s")
        if time.monotonic() >= due:
            due += PROBE_EVERY_S
            copy.check("a new state")
            report = encode_report(Report("", AGENTS[0], STATES[1]))
            producer.send(source(copy), f"{prefix}{next(numbers)}".encode(), report)
            producer.poll(0)
        for message in reader.poll(max(0.0, due - time.monotonic()), 10_000):
            if (message.key or b"").startswith(prefix.encode()):
                answered.setdefault(message.partition, time.monotonic())
    return list(answered.values())
