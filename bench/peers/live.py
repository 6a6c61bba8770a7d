"""How soon each engine answers a report under a steady load, and what it costs.

Every report changes something visible; producer and reader are processes of their own, as in
bench/live.py. Each engine has a broker of its own, and as long to warm up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.busyness import Watch
from bench.drain import source
from bench.live import Load, Observed, idle, pass_time, sending, start_job
from bench.load import MAJORITY, SCENARIO
from bench.peers.drain import LIFETIME, LIFETIME_MS, states_like
from bench.peers.engines import KERNEL, Peer, Place, running_at, started
from bench.roles import Role, Samples, send, watch_sink
from bench.stack import Engine, Product, cpu_of, memory_of, product, say

START_S = 60.0
# After the load, before it counts as at rest.
SETTLE_S = 10.0

# Starts an engine on a copy; returns the names of its processes and its sink.
Start = Callable[[Product], tuple[Sequence[str], str]]


@dataclass(frozen=True)
class Lived:
    """One engine under a load. delays: ms, as of bench/figures.py.

    cpu, idle: per cent of one core, under the load and once it has ended (None: not measured).
    memory_mb: at the load's end.
    """

    engine: str
    rate: int
    seconds: int
    delays: dict[str, float]
    cpu: float
    broker_cpu: float
    others: float
    memory_mb: float
    idle: float | None = None


def live_all(load: Load, warm_up: int, rest: int, peers: Sequence[Peer]) -> list[dict[str, Any]]:
    """Load the kernel and every peer, one after the other, and let each rest for so many seconds.

    Raises BenchProblem.
    """
    lived = [live(KERNEL, of_kernel, load, warm_up, rest)]
    lived += [live(peer.name, of_peer(peer), load, warm_up, rest) for peer in peers]
    return [{"kind": "live", **asdict(each)} for each in lived]


def of_kernel(copy: Product) -> tuple[Sequence[str], str]:
    """Start the job."""
    start_job(copy, Engine(KERNEL))
    return ["job"], copy.topics.states(SCENARIO)


def of_peer(peer: Peer) -> Start:
    """Return how a peer is started."""

    def start(copy: Product) -> tuple[Sequence[str], str]:
        sink = f"{peer.name}.states"
        copy.bus.ensure_topics([states_like(copy, sink)])
        names = started(peer, Place(copy, source(copy), sink, peer.name, LIFETIME_MS))
        return names, sink

    return start


def live(engine: str, start: Start, load: Load, warm_up: int, rest: int) -> Lived:
    """Load one engine on a copy of its own, then let it rest. Raises BenchProblem."""
    say(f"live, {engine}: {load}")
    with product(MAJORITY.format(lifetime=LIFETIME), Engine(KERNEL)) as copy:
        names, sink = start(copy)
        lived = _under_load(copy, engine, names, sink, load, warm_up)
        delays = lived.delays
        say(f"  p50 {delays['p50']:.0f}, p99 {delays['p99']:.0f}, most {delays['most']:.0f} ms")
        return replace(lived, idle=_idle(copy, names, rest)) if rest else lived


def _idle(copy: Product, names: Sequence[str], seconds: int) -> float:
    """Return what an engine takes of a core with nothing to do, per cent, once it has settled."""
    pass_time(copy, time.monotonic() + SETTLE_S)
    return idle(copy, seconds, names)


def _under_load(
    copy: Product, engine: str, names: Sequence[str], sink: str, load: Load, warm_up: int
) -> Lived:
    with _role("reader", watch_sink, copy.bootstrap, sink, sink) as reader:
        with _role("producer", send, *sending(copy, SCENARIO, load.rate)) as producer:
            if engine != KERNEL:  # one of them says that it runs with its first record
                copy.wait(lambda: running_at(copy, list(names)) > 0, START_S, engine)
            since = time.monotonic() + warm_up
            pass_time(copy, since, [producer, reader])
            watch, before = Watch(), _cpu_and_brokers(copy, names)
            pass_time(copy, since + load.seconds, [producer, reader])
            cpu, broker_cpu = (
                100 * (now - then) / load.seconds
                for now, then in zip(_cpu_and_brokers(copy, names), before, strict=True)
            )
            others = watch.end().mean
            memory = memory_of(copy, names)
            sent = producer.finish().since(since)
        observed = Observed(since, sent, reader.finish(), Samples())
    delays = observed.sink(load).plain()
    return Lived(engine, load.rate, load.seconds, delays, cpu, broker_cpu, others, memory)


@contextmanager
def _role(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
    with Role(name, work, *arguments) as role:
        role.wait_ready()
        yield role


def _cpu_and_brokers(copy: Product, names: Sequence[str]) -> tuple[float, float]:
    """Return the processor time of an engine and of the broker until now, s."""
    return cpu_of(copy, names), cpu_of(copy, ["broker"])
