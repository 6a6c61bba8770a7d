"""What waiting before emission saves and costs: `python -m bench.emission`.

Updates of a table's rows, half of them of one key in eight, through a sink that lets each record
wait 0, 100 or 300 ms, to a real broker. Counted are the records that are written; measured is the
time from an update to the moment a reader in another process has it, or a later one of its key. In
the end the reader's table must be the one that was written.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from bench.command import Measured, module_command, parser_of, run
from bench.figures import Delays
from bench.results import Row
from bench.roles import Role, Signals
from bench.stack import BenchProblem, Engine, Product, product, say
from bus.base import TopicSpec
from bus.kafka import KafkaBus
from streaming.pipelines.emitter import CoalescedProducer

SCENARIOS = """\
[emission]
partitions = 1
vote_lifetime = "1d"
states = [{ name = "on" }, { name = "off" }]
rule = { kind = "latest" }
"""
WAITS_MS = (0, 100, 300)
PARTITIONS = 4
SKEW = 3
"""1 spreads updates evenly over the keys; 3 gives half of them to one key in eight."""
SETTLE_S = 10.0
WARM_UP = b"warm-up"

# When a value was read, s of the system's monotonic clock, by key and number of the update.
Seen = dict[bytes, list[tuple[int, float]]]


@dataclass(frozen=True)
class Trial:
    """One wait. cpu: processor time of the writing process for each 1,000 updates, ms."""

    wait_ms: int
    updates: int
    records: int
    cpu: float
    delays: Delays


def main() -> None:
    """Measure as the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--rate", type=int, default=2_000, help="updates a second (2000)")
    parser.add_argument("--seconds", type=int, default=30, help="for how long (30)")
    parser.add_argument("--keys", type=int, default=500, help="rows of the table (500)")
    run("emission", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Measure each wait on one broker. Raises BenchProblem."""
    with product(SCENARIOS, Engine("kernel")) as copy:
        trials = [measure_one(copy, wait, options) for wait in WAITS_MS]
    runs = [{**asdict(trial), "delays": trial.delays.plain()} for trial in trials]
    return rows_of(trials, options), runs


def rows_of(trials: list[Trial], options: argparse.Namespace) -> list[Row]:
    """Return four rows for each wait."""
    sizes = {name: getattr(options, name) for name in ("rate", "seconds", "keys")}
    command = module_command("emission", *(f"--{name}={n}" for name, n in sizes.items()))
    load = f"{options.rate:,} updates/s of {options.keys:,} keys"
    rows = []
    for trial in trials:
        figures = (
            ("records written", "%", 100 * trial.records / trial.updates),
            ("update → reader, p50", "ms", trial.delays.p50),
            ("update → reader, p99", "ms", trial.delays.p99),
            ("processor time for 1,000 updates", "ms", trial.cpu),
        )
        for what, unit, figure in figures:
            title = f"{load}, a wait of {trial.wait_ms} ms: {what}"
            rows.append(Row(title, unit, {"": round(figure, 2)}, command=command))
    return rows


def measure_one(copy: Product, wait_ms: int, options: argparse.Namespace) -> Trial:
    """Write with this wait while another process reads. Raises BenchProblem."""
    say(f"emission: a wait of {wait_ms} ms, {options.rate:,} updates/s for {options.seconds} s")
    bus = KafkaBus({"bootstrap.servers": copy.bootstrap})
    topic = f"emission.table-{wait_ms}"
    bus.ensure_topics([TopicSpec(topic, PARTITIONS, {"cleanup.policy": "compact"})])
    with Role(f"reader-{wait_ms}", read, copy.bootstrap, topic) as reader:
        reader.wait_ready()
        producer = bus.producer()
        coalesced = CoalescedProducer(producer, {topic: wait_ms})
        coalesced.put(topic, WARM_UP, b"0")  # the first record waits for the producer's start
        coalesced.flush()
        cpu = time.process_time()
        sent = write(coalesced, topic, options)
        coalesced.close()
        cpu = time.process_time() - cpu
        producer.close()
        seen = reader.finish()
    updates = sum(map(len, sent.values()))
    records = coalesced.records[topic] - 1
    return Trial(wait_ms, updates, records, 1e6 * cpu / updates, delays_of(sent, seen))


def write(coalesced: CoalescedProducer, topic: str, options: argparse.Namespace) -> Seen:
    """Put updates at the rate; return when each was put."""
    sent: Seen = {}
    begun = time.monotonic()
    keys = skewed(options.keys)
    for number in range(options.rate * options.seconds):
        ahead = begun + number / options.rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        key = next(keys)
        sent.setdefault(key, []).append((number, time.monotonic()))
        coalesced.put(topic, key, b"%d" % number)
    return sent


def skewed(keys: int) -> Iterator[bytes]:
    """Yield keys, few of them often; the same ones in each trial."""
    numbers = random.Random(17)
    while True:
        yield b"order-%d" % int(keys * numbers.random() ** SKEW)


def read(signals: Signals, bootstrap: str, topic: str) -> Seen:
    """Read until told to stop and nothing more comes; return what was read when."""
    bus = KafkaBus({"bootstrap.servers": bootstrap})
    reader = bus.reader({place: end for place, (_, end) in bus.offsets([topic]).items()})
    seen: Seen = {}
    signals.ready.set()
    end = float("inf")
    while time.monotonic() < end:
        messages = reader.poll(0.1)
        now = time.monotonic()
        for message in messages:
            seen.setdefault(message.key or b"", []).append((int(message.value or 0), now))
        if signals.stop.is_set():
            ends = {place: last for place, (_, last) in bus.offsets([topic]).items()}
            if reader.positions() == ends:
                break
            end = min(end, now + SETTLE_S)
    reader.close()
    return seen


def delays_of(sent: Seen, seen: Seen) -> Delays:
    """Return how long each update took to be read, or a later one of its key.

    Raises BenchProblem where the reader's table is another in the end.
    """
    delays = []
    for key, updates in sent.items():
        read_ = seen.get(key, [])
        if not read_ or read_[-1][0] != updates[-1][0]:
            raise BenchProblem(f"the last update of {key.decode()} was not read")
        at = 0
        for number, put_at in updates:
            while read_[at][0] < number:
                at += 1
            delays.append(1_000 * (read_[at][1] - put_at))
    return Delays.of(delays)


if __name__ == "__main__":
    main()
