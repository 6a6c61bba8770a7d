"""How long from a report to its state record: `python -m bench.live --rate 200 --seconds 40`.

Each report changes a state, so each is answered by a record. Measured from the broker's append
time of the report to the moment a reader has the state record; warm-up is left out.
"""

from __future__ import annotations

import argparse
import threading
import time

from bench.drain import SCENARIO, ensure, own_settings, running_job
from bus.kafka import KafkaBus
from domain.records import Report, StateRecord
from wire.sink import decode_state
from wire.source import encode_report
from wire.topics import Topics

ASSETS = 2000


def main() -> None:
    """Run the job under a steady load, print percentiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=40)
    arguments = parser.parse_args()
    settings = own_settings("live")
    bus, topics = KafkaBus(settings.kafka_options()), Topics(settings.topic_prefix)
    ensure(bus, topics, settings)
    stop = threading.Event()
    sender = threading.Thread(target=send, args=(bus, topics, arguments.rate, stop))
    with running_job(settings):
        sender.start()
        try:
            delays = measure(bus, topics, arguments.warm_up, arguments.seconds)
        finally:
            stop.set()
            sender.join()
    delays.sort()
    shown = "  ".join(f"p{p} {at(delays, p):,} ms" for p in (50, 90, 99))
    print(f"{len(delays)} records  {shown}  most {delays[-1]:,} ms")


def send(bus: KafkaBus, topics: Topics, rate: int, stop: threading.Event) -> None:
    """Append `rate` reports a second, each of another state than the one before."""
    producer, number, due = bus.producer(linger_ms=1), 0, time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        due += 1 / rate
        asset = f"site-{number % ASSETS}.example"
        state = ("under-attack", "clear")[number // ASSETS % 2]
        report = Report(asset, f"waf-{number // ASSETS % 5}", state)
        producer.send(topics.reports(SCENARIO), asset.encode(), encode_report(report))
        producer.poll(0)
        number += 1
    producer.close()


def measure(bus: KafkaBus, topics: Topics, warm_up_s: int, seconds: int) -> list[int]:
    """Delays in ms of the records that come after the warm-up."""
    topic = topics.states(SCENARIO)
    reader = bus.reader({(topic, at): 0 for at in range(bus.partitions(topic))})
    begun, delays = time.monotonic(), []
    while (passed := time.monotonic() - begun) < warm_up_s + seconds:
        for message in reader.poll(0.5):
            record = decode_state(message.key, message.value, message.headers)
            if passed > warm_up_s and isinstance(record, StateRecord):
                delays.append(int(time.time() * 1000) - record.cause.time)
    reader.close()
    return delays


def at(delays: list[int], percent: int) -> int:
    """A percentile of sorted delays."""
    return delays[min(len(delays) - 1, len(delays) * percent // 100)]


if __name__ == "__main__":
    main()
