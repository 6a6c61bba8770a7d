"""The job's part in batch queries, played on a bus in memory."""

from __future__ import annotations

from bus.memory import MemoryBus
from dashboard.core.common.kafka import Gateway
from dashboard.core.common.times import now_ms
from support.web.world import World
from wire.batch_query import Result, encode_result
from wire.job import Control, JobAnswer, QueryReport, decode_control, encode


def heard_of(world: World) -> None:
    """The job has told of its buckets."""
    world.write()


def asked(gateway: Gateway) -> list[Control]:
    """What the job was asked."""
    place = (gateway.topics.control, 0)
    reader = gateway.bus.reader({place: 0})
    return [decode_control(message.value) for message in reader.poll(0.5, 100)]


def tell(world: World, *answers: JobAnswer) -> None:
    """The job answers."""
    for answer in answers:
        record = QueryReport("python", now_ms(), "running", 1, answer=answer)
        send(world.bus, world.gateway.topics.progress, encode(record))
    world.write()


def bring(world: World, *results: Result) -> None:
    """The batch query publishes."""
    for result in results:
        send(world.bus, world.gateway.topics.results, encode_result(result))
    world.write()


def send(bus: MemoryBus, topic: str, value: bytes) -> None:
    bus.producer().send_and_wait(topic, None, value)
