"""What is small on the wire and huge in memory: the broker refuses it, and everybody goes on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from support.kafka.bombs import MIB, Big, batch, send
from support.run.stack import EmbeddedBroker
from wire.topics import BOUNDED

REFUSALS = {10, -1}
"""MESSAGE_TOO_LARGE, and Kafka's UNKNOWN_SERVER_ERROR where there is not even room to unpack it."""

STAMPED = {"message.timestamp.type": "LogAppendTime"}
GOOD = [(b"k", b"v" * 50)] * 3
TINY = [(b"", b"")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[EmbeddedBroker]:
    """A broker of these tests alone: what it has no room for is not in the way of others."""
    own = EmbeddedBroker(tmp_path_factory.mktemp("bombed"), jars_dir)
    own.start()
    yield own
    own.kill()


@pytest.fixture(scope="module")
def bus(broker: EmbeddedBroker) -> KafkaBus:
    """A client of that broker."""
    return KafkaBus(broker.options())


def made(bus: KafkaBus, **config: str) -> str:
    topic = f"bombs-{uuid.uuid4().hex[:8]}"
    bus.ensure_topics([TopicSpec(topic, 1, STAMPED | config)])
    bus.offsets([topic])
    return topic


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_unpacks_to_too_much_is_refused(
    broker: EmbeddedBroker, bus: KafkaBus, codec: str
) -> None:
    topic = made(bus, **BOUNDED)
    pid = broker._process.pid if broker._process else 0
    for size in (2, 50):
        data = batch(codec, [*GOOD, Big(b"k", size * MIB)])
        assert send(broker.bootstrap, topic, 0, data)[0] == 10
    assert send(broker.bootstrap, topic, 0, batch(codec, GOOD)) == (0, 0)
    assert [m.value for m in read(bus, topic, 3)] == [value for _, value in GOOD]
    assert broker._process is not None
    assert broker._process.pid == pid
    assert broker._process.poll() is None


@pytest.mark.parametrize(
    "records",
    [[Big(b"k", 700 * MIB)], [Big(b"k", MIB)] * 700, TINY * 2_000_000],
    ids=["one of 700 MB", "700 of 1 MB", "millions of none"],
)
def test_the_broker_survives_what_it_has_no_room_for(
    broker: EmbeddedBroker, bus: KafkaBus, records: list[Big]
) -> None:
    topic = made(bus, **BOUNDED)
    data = batch("zstd", records)
    assert send(broker.bootstrap, topic, 0, data)[0] in REFUSALS
    assert broker._process is not None
    assert broker._process.poll() is None
    sent = bus.producer().send_and_wait(topic, b"k", b"v")
    assert sent.offset == 0


@pytest.mark.parametrize("size", [50, 300])
def test_a_reader_passes_over_what_it_does_not_unpack(
    broker: EmbeddedBroker, bus: KafkaBus, size: int
) -> None:
    topic = made(bus, **{"max.message.bytes": "100000000"})
    for data in (
        batch("none", GOOD), batch("zstd", [*GOOD, Big(b"k", size * MIB)]), batch("lz4", GOOD)
    ):  # fmt: skip
        assert send(broker.bootstrap, topic, 0, data)[0] == 0
    offsets = [m.offset for m in read(bus, topic, 10)]
    assert offsets == [0, 1, 2, *([3, 4, 5, 6] if size == 50 else []), 7, 8, 9]


def test_a_log_is_shown_batch_by_batch(broker: EmbeddedBroker, bus: KafkaBus) -> None:
    topic = made(bus, **{"max.message.bytes": "100000000"})
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        data = batch(codec, [*GOOD, Big(b"k", 20 * MIB)])
        assert send(broker.bootstrap, topic, 0, data)[0] == 0
    with bus.batches((topic, 0)) as log:
        batches = list(log.between(5, 20))
    assert [each.codec for each in batches] == list(codecs[1:])
    assert [(each.first, each.last, each.records) for each in batches] == [
        (at, at + 3, 4) for at in range(4, 20, 4)
    ]
    for each in batches:
        assert each.unpacked(30 * MIB) == pytest.approx(20 * MIB, rel=1e-3)
        assert each.unpacked(8 * MIB) > 8 * MIB


def read(bus: KafkaBus, topic: str, end: int) -> list:
    reader = bus.reader({(topic, 0): 0})
    messages = []
    while reader.positions()[topic, 0] < end:
        messages += reader.poll(1)
    reader.close()
    return messages
