"""A producer that librdkafka has given up is replaced, and its caller does not notice."""

from __future__ import annotations

from typing import Any

import confluent_kafka as ck
import pytest

from bus.base import BusError, QueueFull, TooLarge
from bus.kafka import KafkaBus


class Inner:
    """Plays librdkafka's producer: raises `fault` at each produce where there is one."""

    made: list[Inner]
    faults: list[BaseException | None]

    def __init__(self, _options: dict[str, Any], logger: object) -> None:
        self.fault = Inner.faults[len(Inner.made)]
        self.produced: list[bytes] = []
        self.calls: list[str] = []
        Inner.made.append(self)

    def produce(self, _topic: str, value: bytes, _key: bytes, **_: object) -> None:
        if self.fault is not None:
            raise self.fault
        self.produced.append(value)

    def purge(self) -> None:
        self.calls.append("purge")

    def flush(self, _timeout_s: float) -> int:
        self.calls.append("flush")
        return 0


def kafka_error(code: int) -> ck.KafkaException:
    return ck.KafkaException(ck.KafkaError(code))


@pytest.fixture
def producer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    Inner.made, Inner.faults = [], request.param
    monkeypatch.setattr(ck, "Producer", Inner)
    return KafkaBus({}).producer()


@pytest.mark.parametrize("producer", [[kafka_error(ck.KafkaError._FATAL), None]], indirect=True)
def test_fatal_error_starts_over_with_the_same_record(producer: Any) -> None:
    producer.send("t", b"k", b"one")
    producer.send("t", b"k", b"two")
    broken, fresh = Inner.made
    assert fresh.produced == [b"one", b"two"]
    assert broken.calls == ["purge", "flush"]


@pytest.mark.parametrize(
    ("producer", "raised"),
    [
        ([BufferError()], QueueFull),
        ([kafka_error(ck.KafkaError.MSG_SIZE_TOO_LARGE)], TooLarge),
        ([kafka_error(ck.KafkaError._UNKNOWN_PARTITION)], BusError),
    ],
    indirect=["producer"],
)
def test_other_errors_are_the_callers(producer: Any, raised: type[BusError]) -> None:
    with pytest.raises(BusError) as error:
        producer.send("t", b"k", b"one")
    assert error.type is raised
    assert len(Inner.made) == 1
