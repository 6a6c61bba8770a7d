"""A topic of reports with a wrong setting is refused, and the command that is named corrects it."""

from __future__ import annotations

import shlex
import subprocess
import uuid
from pathlib import Path

import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from config.java import find_java
from streaming.job.sources import WrongSetting, bound, check
from support.run.stack import EmbeddedBroker
from wire.topics import BOUNDED


def carry_out(command: str, jars_dir: Path) -> None:
    """Run `kafka-configs.sh …` as its script does: it is this class."""
    name, *arguments = shlex.split(command)
    assert name == "kafka-configs.sh"
    java = [str(find_java()), "-cp", f"{jars_dir}/broker/*", "kafka.admin.ConfigCommand"]
    done = subprocess.run([*java, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_that_is_named_corrects_it(broker: EmbeddedBroker, jars_dir: Path) -> None:
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    topic = f"settings-{uuid.uuid4().hex[:8]}.reports"
    bus.ensure_topics([TopicSpec(topic, 2, {"cleanup.policy": "compact"})])

    with pytest.raises(WrongSetting) as refused:
        check(bus, [topic], broker.bootstrap)

    lines = str(refused.value).splitlines()
    assert [line.partition(": kafka-configs.sh")[0] for line in lines] == [
        f"{topic}: message.timestamp.type: expected LogAppendTime, got CreateTime",
        f"{topic}: cleanup.policy: expected delete, got compact",
    ]
    for line in lines:
        carry_out(line[line.index("kafka-configs.sh") :], jars_dir)
    check(bus, [topic], broker.bootstrap)


def test_a_topic_of_before_is_bounded(broker: EmbeddedBroker) -> None:
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    topic = f"settings-{uuid.uuid4().hex[:8]}.reports"
    bus.ensure_topics([TopicSpec(topic, 1, {"max.message.bytes": "5000000"})])
    assert bound(bus, [topic], broker.bootstrap) == []
    assert bus.settings([topic])[topic].items() >= BOUNDED.items()
