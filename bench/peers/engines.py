"""The engines that are compared: what each is called, how it is set, what is started for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers import parts
from bench.stack import BenchProblem, Product
from config.java import find_java

HERE = Path(__file__).resolve().parent
KERNEL = "kernel"
# As the product's own JVM: its heap, and the collector that gives the most throughput.
JVM = ("-Xmx3g", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
OPENED = ("java.util", "java.lang", "java.nio", "java.util.concurrent")
FLINK_JVM = tuple(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED)
READY = "running "

# A command line of one process of an engine.
Program = list[str]


@dataclass(frozen=True)
class Place:
    """Where an engine works: its copy of the product, topics, and a folder for its state."""

    copy: Product
    source: str
    sink: str
    application: str
    lifetime_ms: int

    @property
    def state(self) -> Path:
        """Return the folder of its state."""
        return self.copy.folder / self.application

    @property
    def saved(self) -> Path:
        """Return the folder in it of an engine's checkpoints, where it has such."""
        return self.state / "saved"

    def options(self, **more: object) -> list[str]:
        """Return what every peer is told, and more, as `name=value`."""
        options = {
            "bootstrap": self.copy.bootstrap,
            "source": self.source,
            "sink": self.sink,
            "application": self.application,
            "lifetime-ms": self.lifetime_ms,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        return [f"{name}={value}" for name, value in options.items()]


@dataclass(frozen=True)
class Peer:
    """An engine. settings: what a reader must know; programs: its command lines at a place.

    quick: whether it is among the few of the short run; live: whether under a steady load too;
    recovers: whether it is killed and started again.
    """

    name: str
    title: str
    settings: str
    programs: Callable[[Place], list[Program]] = field(compare=False)
    quick: bool = False
    live: bool = False
    recovers: bool = False


def started(peer: Peer, place: Place) -> list[str]:
    """Start an engine's processes; returns their names."""
    names = []
    for number, program in enumerate(peer.programs(place)):
        names.append(f"{place.application}-{number}")
        place.copy.start_program(names[-1], *program)
    return names


def running_at(copy: Product, names: list[str]) -> float:
    """Return when the first of these processes said that it runs, Unix s; 0 before that."""
    said = [
        int(line.removeprefix(READY)) / 1000
        for name in names
        for line in copy.log(name).read_text(errors="replace").splitlines()
        if line.startswith(READY)
    ]
    return min(said, default=0.0)


def forget(place: Place) -> None:
    """Drop the state that an engine has left on this machine."""
    shutil.rmtree(place.state, ignore_errors=True)


# ---- the peers ----------------------------------------------------------------------------------


def _streams(
    guarantee: str, cache_mb: int = 0, *, processes: int = 1
) -> Callable[[Place], list[Program]]:
    def programs(place: Place) -> list[Program]:
        java = [str(find_java()), *JVM, "-cp", parts.class_path("streams")]
        return [
            [
                *java,
                "tallyboard.peers.StreamsPeer",
                *place.options(
                    guarantee=guarantee,
                    cache_mb=cache_mb,
                    threads=2 // processes,
                    standbys=processes - 1,
                    state=place.state / str(number),
                    instance=number,
                ),
            ]
            for number in range(processes)
        ]

    return programs


def _flink(guarantee: str, checkpoint: str) -> Callable[[Place], list[Program]]:
    def programs(place: Place) -> list[Program]:
        options = place.options(
            guarantee=guarantee, checkpoint=checkpoint, threads=2, state=place.state
        )
        java = [str(find_java()), *JVM, *FLINK_JVM, "-cp", parts.class_path("flink")]
        return [[*java, "tallyboard.peers.FlinkPeer", *options]]

    return programs


def _quix(processes: int) -> Callable[[Place], list[Program]]:
    def programs(place: Place) -> list[Program]:
        command = [str(parts.python()), str(HERE / "quix" / "peer.py")]
        return [
            [*command, *place.options(state=place.state / str(number), instance=number)]
            for number in range(processes)
        ]

    return programs


ALO, EOS = "at_least_once", "exactly_once_v2"
_STREAMS = "2 threads, RocksDB, changelog, commit every"
PEERS = (
    Peer(
        "streams-alo",
        "Kafka Streams, at least once",
        f"{_STREAMS} 30 s, no cache",
        _streams(ALO),
        quick=True,
        live=True,
        recovers=True,
    ),
    Peer(
        "streams-alo-cache",
        "Kafka Streams, at least once, cache",
        f"{_STREAMS} 30 s, cache of 256 MB",
        _streams(ALO, 256),
    ),
    Peer(
        "streams-eos",
        "Kafka Streams, exactly once",
        f"{_STREAMS} 100 ms, no cache",
        _streams(EOS),
        quick=True,
        live=True,
        recovers=True,
    ),
    Peer(
        "streams-eos-cache",
        "Kafka Streams, exactly once, cache",
        f"{_STREAMS} 100 ms, cache of 256 MB",
        _streams(EOS, 256),
    ),
    Peer(
        "streams-standby",
        "Kafka Streams, at least once, a standby",
        "2 processes of 1 thread, each the other's standby, else as at least once",
        _streams(ALO, processes=2),
    ),
    Peer(
        "flink-alo",
        "Flink, at least once",
        "2 slots in one JVM, RocksDB, incremental checkpoint every 10 s",
        _flink("AT_LEAST_ONCE", "10 s"),
        quick=True,
        live=True,
    ),
    Peer(
        "flink-eos",
        "Flink, exactly once",
        "as at least once, checkpoint and transaction every 2 s",
        _flink("EXACTLY_ONCE", "2 s"),
    ),
    Peer(
        "quix",
        "Quix Streams, at least once",
        "2 processes, RocksDB, changelog, commit every 5 s; it has no timers",
        _quix(2),
        live=True,
        recovers=True,
    ),
)
OURS = (
    "Spark's micro-batches while it catches up, with snapshots; then Real-time Mode, with "
    "changelogs; RocksDB"
)
BY_NAME = {peer.name: peer for peer in PEERS}


def peers_of(text: str) -> tuple[Peer, ...]:
    """Read names with commas between. Raises BenchProblem."""
    unknown = [name for name in text.split(",") if name not in BY_NAME]
    if unknown:
        raise BenchProblem(f"no peer {unknown[0]!r}: expected {', '.join(BY_NAME)}")
    return tuple(BY_NAME[name] for name in text.split(","))


def described(engine: str) -> dict[str, str]:
    """Return title and settings of an engine, as a result keeps them."""
    if engine == KERNEL:
        return {"title": KERNEL, "settings": OURS}
    return {"title": BY_NAME[engine].title, "settings": BY_NAME[engine].settings}
