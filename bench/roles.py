"""Parts of a measurement that run in processes of their own, so that none of them delays another.

Moments are of `time.monotonic()`, which on Linux is one clock for all processes of a machine.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any, Generic, Self, TypeVar

import msgspec

from bench.load import Keyed, wrong_partition
from bench.stack import BenchProblem, deaf
from bus.base import Bus, BusError, ConsumerRecord, Delivered
from bus.kafka import KafkaBus
from ops.child import die_with_parent
from wire.forward import forwarded_from

T = TypeVar("T")

_SPAWN = multiprocessing.get_context("spawn")
_OFFSET_BITS = 48

# A reader that was told to stop goes on until nothing has come for so long.
QUIET_S = 15.0


class Signals:
    """What a role and who started it tell each other: that it is ready, that it is to stop."""

    def __init__(self) -> None:
        self.ready: Event = _SPAWN.Event()
        self.stop: Event = _SPAWN.Event()


class Role(Generic[T]):
    """`work(signals, *arguments)` in a process of its own; what it returns comes back."""

    def __init__(self, name: str, work: Callable[..., T], *arguments: Any) -> None:
        self._name, self._signals = name, Signals()
        self._inbox, outbox = _SPAWN.Pipe(duplex=False)
        everything = (outbox, work, self._signals, arguments)
        self._process = _SPAWN.Process(target=_work, args=everything, name=name, daemon=True)
        with deaf(signal.SIGINT):  # who started it ends it
            self._process.start()
        outbox.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process.pid
        return self._process.pid

    def wait_ready(self, timeout_s: float = 60) -> None:
        """Return once it is ready. Raises BenchProblem when it has failed or time is up."""
        deadline = time.monotonic() + timeout_s
        while not self._signals.ready.wait(0.1):
            self.check()
            if time.monotonic() > deadline:
                raise BenchProblem(f"{self._name}: not ready within {timeout_s:g} s")

    def check(self) -> None:
        """Raise BenchProblem where it has ended too early."""
        if self._inbox.poll():
            self._receive()
            raise BenchProblem(f"{self._name}: ended early")
        if not self._process.is_alive():
            raise BenchProblem(f"{self._name}: ended with {self._process.exitcode}")

    def finish(self, timeout_s: float = 120) -> T:
        """Stop it, and return what it returns. Raises BenchProblem."""
        self._signals.stop.set()
        if not self._inbox.poll(timeout_s):
            raise BenchProblem(f"{self._name}: no result within {timeout_s:g} s")
        result = self._receive()
        self._process.join(10)
        return result

    def _receive(self) -> T:
        try:
            result = self._inbox.recv()
        except EOFError:
            raise BenchProblem(f"{self._name}: ended with {self._process.exitcode}") from None
        if isinstance(result, Exception):
            raise BenchProblem(f"{self._name}: {result}") from result
        return result  # type: ignore[no-any-return]

    def __enter__(self) -> Self:
        """Return it as it is."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it, if it still runs."""
        self._process.kill()
        self._process.join()


def _work(
    outbox: Connection, work: Callable[..., T], signals: Signals, arguments: tuple[Any, ...]
) -> None:
    die_with_parent(signal.SIGKILL)
    try:
        outbox.send(work(signals, *arguments))
    except Exception as error:  # noqa: BLE001, it is told to who waits for the result
        outbox.send(BenchProblem(f"{type(error).__name__}: {error}"))


class Samples:
    """Moments at which records were sent or seen, by their place in the source topic."""

    def __init__(self) -> None:
        self._places, self._moments = array("q"), array("d")

    def add(self, partition: int, offset: int, moment: float) -> None:
        """Add one."""
        self._places.append(place_of(partition, offset))
        self._moments.append(moment)

    def __len__(self) -> int:
        return len(self._places)

    def first(self) -> dict[int, float]:
        """Return the first moment of each place, s."""
        moments = zip(reversed(self._places), reversed(self._moments), strict=True)
        return dict(moments)

    def since(self, moment: float) -> Samples:
        """Return the samples from `moment` on."""
        samples = Samples()
        for place, at in zip(self._places, self._moments, strict=True):
            if at >= moment:
                samples._places.append(place)
                samples._moments.append(at)
        return samples

    def moved(self, places: Mapping[int, int]) -> Samples:
        """Return the samples at other places; one whose place is not named stays where it is."""
        samples = Samples()
        samples._places = array("q", (places.get(place, place) for place in self._places))
        samples._moments = self._moments
        return samples


def place_of(partition: int, offset: int) -> int:
    """Return a place in a topic as one number."""
    return partition << _OFFSET_BITS | offset


def delays_ms(sent: Samples, received: Samples) -> list[float]:
    """Return the time from each record's sending to its first being seen, ms.

    Records that were never seen are left out.
    """
    moments = received.first()
    return [(moments[place] - at) * 1000 for place, at in sent.first().items() if place in moments]


def send(
    signals: Signals,
    bootstrap: str,
    topic: str,
    records: Callable[[], Iterator[Keyed]],
    rate: float,
    *,
    misrouted: bool = False,
) -> Samples:
    """Append `rate` records a second until `signals` says to stop. Raises BusError.

    misrouted: each to a wrong partition.
    """
    bus, sent = KafkaBus({"bootstrap.servers": bootstrap}), Samples()
    producer, partitions = bus.producer(linger_ms=1), bus.partitions(topic)
    failed: list[BusError] = []

    def delivered(at: float, outcome: Delivered | BusError) -> None:
        if isinstance(outcome, BusError):
            failed.append(outcome)
        else:
            sent.add(outcome.partition, outcome.offset, at)

    signals.ready.set()
    for key, value in paced(records(), rate, signals):
        at = wrong_partition(key, partitions) if misrouted else None
        told = partial(delivered, time.monotonic())
        producer.send(topic, key, value, on_delivery=told, partition=at)
        producer.poll(0)
    producer.close(20)
    if failed:
        raise failed[0]
    return sent


def paced(records: Iterable[Keyed], rate: float, signals: Signals) -> Iterator[Keyed]:
    """Yield each record when its turn has come, until `signals` says to stop."""
    begun = time.monotonic()
    for number, record in enumerate(records):
        if (wait := begun + number / rate - time.monotonic()) > 0:
            time.sleep(wait)
        if signals.stop.is_set():
            return
        yield record


class _Cause(msgspec.Struct):
    type: str
    partition: int
    offset: int
    time: int


class _State(msgspec.Struct):
    cause: _Cause


class SinkRecords(msgspec.Struct):
    """State records read. reports: those that a report caused; late: of a timer, moment and ms."""

    reports: Samples
    late: list[tuple[float, float]]


def watch_sink(signals: Signals, bootstrap: str, states: str, expiring: str) -> SinkRecords:
    """Read state records from now on, until `signals` says to stop and nothing more comes.

    states: the sink topic of reports; expiring: the one where votes expire.
    """
    bus, decode = KafkaBus({"bootstrap.servers": bootstrap}), _decoder()
    observed = SinkRecords(Samples(), [])
    for message in _records(signals, bus, [states, expiring]):
        moment, cause = time.monotonic(), decode(message.value or b"").cause
        if message.topic == states and cause.type == "report":
            observed.reports.add(cause.partition, cause.offset, moment)
        elif message.topic == expiring and cause.type == "vote-expiry":
            observed.late.append((moment, time.time() * 1000 - cause.time))
    return observed


def watch_forwarded(signals: Signals, bootstrap: str, reports: str) -> dict[int, int]:
    """Read a source topic from now on, until `signals` says to stop and nothing more comes.

    Returns the first place of each forwarded record by the place that it was forwarded to.
    """
    bus, places = KafkaBus({"bootstrap.servers": bootstrap}), {}
    for message in _records(signals, bus, [reports]):
        if first := forwarded_from(message.headers):
            places[place_of(message.partition, message.offset)] = place_of(*first)
    return places


def _records(signals: Signals, bus: Bus, topics: Sequence[str]) -> Iterator[ConsumerRecord]:
    reader = bus.reader({place: end for place, (_, end) in bus.offsets(topics).items()})
    signals.ready.set()
    newest = time.monotonic()
    while not signals.stop.is_set() or time.monotonic() - newest < QUIET_S:
        for message in reader.poll(0.2):
            newest = time.monotonic()
            yield message
    reader.close()


def _decoder() -> Callable[[bytes], _State]:
    return msgspec.json.Decoder(_State).decode
