"""`consume --idle`: what counts as idle, with librdkafka's part played step by step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from threading import Event, Semaphore
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import confluent_kafka as ck
import pytest

from dashboard.operate.console import kafka_tools
from dashboard.operate.console.kafka_tools import ConsumerPlan, consume


class Looks(Event):
    """The event that ends the consumers; who waits for it looks, each time, who is idle."""

    def __init__(self) -> None:
        super().__init__()
        self._taken = Semaphore(0)

    def wait(self, timeout: float | None = None) -> bool:
        self._taken.release()
        return super().wait(0.001)

    def set(self) -> None:
        super().set()
        self._taken.release(2)

    def pass_by(self) -> None:
        """Return after a look that began later than this call, or once there are no more."""
        while self._taken.acquire(blocking=False):
            pass
        self._taken.acquire()
        self._taken.acquire()


class PlayedGroup:
    """What happens to a consumer, a step at each poll that waits; then nothing comes any more."""

    def __init__(self, looks: Looks, steps: Iterable[str]) -> None:
        self._looks, self._steps = looks, iter(steps)
        self.inner = MagicMock(**{"poll.side_effect": self._poll})

    def _poll(self, timeout_s: float) -> Any:
        step, *numbers = next(self._steps, "none").split() if timeout_s else ["none"]
        return getattr(self, step)(*map(int, numbers))

    def none(self) -> None:
        """Nothing comes."""

    def look(self) -> None:
        self._looks.pass_by()

    def assign(self, *partitions: int) -> None:
        self._hooks["on_assign"](self.inner, [ck.TopicPartition("logs", p) for p in partitions])

    def revoke(self, *partitions: int) -> None:
        self._hooks["on_revoke"](self.inner, [ck.TopicPartition("logs", p) for p in partitions])

    def record(self, partition: int, offset: int) -> Any:
        return self._message(partition, offset, None)

    def end(self, partition: int) -> Any:
        return self._message(partition, -1, ck.KafkaError(ck.KafkaError._PARTITION_EOF))

    @property
    def _hooks(self) -> dict[str, Callable[..., None]]:
        hooks: dict[str, Callable[..., None]] = self.inner.subscribe.call_args.kwargs
        return hooks

    @staticmethod
    def _message(partition: int, offset: int, error: ck.KafkaError | None) -> Any:
        fields = {
            "error": error, "topic": "logs", "partition": partition, "offset": offset,
            "timestamp": (1, 0), "headers": None, "key": None, "value": b"v",
        }  # fmt: skip
        return SimpleNamespace(
            **{name: lambda value=value: value for name, value in fields.items()}
        )


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "steps",
    [
        ["look", "assign 0", "look", "record 0 0", "end 0"],
        ["assign 0 1", "end 0", "look", "record 1 0", "end 1"],
        ["assign 0", "record 0 0", "look", "record 0 1", "end 0"],
        ["assign 0", "end 0", "record 0 0", "look", "record 0 1", "end 0"],
        ["assign 0 1", "end 0", "end 1", "revoke 0 1", "look", "assign 0", "record 0 0", "end 0"],
        ["assign"],
    ],
    ids=["before its first", "one at its end", "between two", "more came", "reassigned", "standby"],
)
def test_a_consumer_is_idle_once_it_has_read_all(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, printed = Looks(), list[str]()
    group = PlayedGroup(looks, steps)
    monkeypatch.setattr(ck, "Consumer", lambda *_, **__: group.inner)
    monkeypatch.setattr(kafka_tools, "KafkaAdmin", MagicMock())
    plan = ConsumerPlan("group", ("logs",), "earliest", 45, 1, 0, {}, idle_s=0)
    assert consume(plan, 1, {}, printed.append, looks) == ""
    read = [
        found.groups() for line in printed if (found := re.search(r"record \S+/(.) .*?=(.)", line))
    ]
    assert [f"record {partition} {offset}" for partition, offset in read] == [
        step for step in steps if step.startswith("record")
    ]
