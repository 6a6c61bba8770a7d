"""How soon each engine answers a report under a steady load, and what it costs.

Every report changes something visible; producer and reader are processes of their own, as in
bench/live.py. Each engine has a broker of its own, and as long to warm up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from bench.busyness import Watch
from bench.drain import source
from bench.live import Load, Observed, pass_time, sending, start_job
from bench.load import MAJORITY, SCENARIO
from bench.peers.drain import LIFETIME, LIFETIME_MS, states_like
from bench.peers.engines import KERNEL, Peer, Place, running_at, started
from bench.roles import Role, Samples, send, watch_sink
from bench.stack import Engine, Product, cpu_seconds, product, say

START_S = 60.0

# Starts an engine on a copy; returns the names of its processes and its sink.
Start = Callable[[Product], tuple[Sequence[str], str]]


@dataclass(frozen=True)
class Lived:
    """One engine under a load. delays: ms, as of bench/figures.py; cpu: per cent of one core."""

    engine: str
    rate: int
    seconds: int
    delays: dict[str, float]
    cpu: float
    broker_cpu: float
    others: float


def live_all(load: Load, warm_up: int, peers: Sequence[Peer]) -> list[dict[str, Any]]:
    """Load the kernel and every peer, one after the other. Raises BenchProblem."""
    lived = [live(KERNEL, of_kernel, load, warm_up)]
    lived += [live(peer.name, of_peer(peer), load, warm_up) for peer in peers]
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


def live(engine: str, start: Start, load: Load, warm_up: int) -> Lived:
    """Load one engine on a copy of its own. Raises BenchProblem."""
    say(f"live, {engine}: {load}")
    with product(MAJORITY.format(lifetime=LIFETIME), Engine(KERNEL)) as copy:
        names, sink = start(copy)
        lived = _under_load(copy, engine, names, sink, load, warm_up)
    delays = lived.delays
    say(f"  p50 {delays['p50']:.0f} ms, p99 {delays['p99']:.0f} ms, most {delays['most']:.0f} ms")
    return lived


def _under_load(
    copy: Product, engine: str, names: Sequence[str], sink: str, load: Load, warm_up: int
) -> Lived:
    with _role("reader", watch_sink, copy.bootstrap, sink, sink) as reader:
        with _role("producer", send, *sending(copy, SCENARIO, load.rate)) as producer:
            if engine != KERNEL:  # one of them says that it runs with its first record
                copy.wait(lambda: running_at(copy, list(names)) > 0, START_S, engine)
            since = time.monotonic() + warm_up
            pass_time(copy, since, [producer, reader])
            watch, before = Watch(), _taken(copy, names)
            pass_time(copy, since + load.seconds, [producer, reader])
            cpu, broker_cpu = (
                100 * (now - then) / load.seconds
                for now, then in zip(_taken(copy, names), before, strict=True)
            )
            others = watch.end().mean
            sent = producer.finish().since(since)
        observed = Observed(since, sent, reader.finish(), Samples())
    delays = observed.sink(load).plain()
    return Lived(engine, load.rate, load.seconds, delays, cpu, broker_cpu, others)


@contextmanager
def _role(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
    with Role(name, work, *arguments) as role:
        role.wait_ready()
        yield role


def _taken(copy: Product, names: Sequence[str]) -> tuple[float, float]:
    """Return the processor time of an engine and of the broker until now, s."""
    taken = sum(cpu_seconds(copy.pid(name)) for name in names)
    return taken, cpu_seconds(copy.pid("broker"))
