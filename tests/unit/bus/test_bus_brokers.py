"""How many brokers a cluster has: those that are too busy for a moment are waited for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bus.base import Unavailable
from bus.kafka_admin import KafkaAdmin


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, Any]]:
    """What the cluster says of its brokers, one answer after the other; the last one stays."""
    replies: list[dict[int, Any]] = []

    def metadata(_admin: KafkaAdmin, _topic: str | None = None) -> Any:
        return SimpleNamespace(brokers=replies.pop(0) if len(replies) > 1 else replies[0])

    monkeypatch.setattr(KafkaAdmin, "_metadata", metadata)
    return replies


@pytest.fixture
def admin() -> KafkaAdmin:
    return KafkaAdmin({}, timeout_s=1.0)


def test_a_broker_that_is_left_out_for_a_moment_is_counted(
    answers: list[dict[int, Any]], admin: KafkaAdmin
) -> None:
    answers += [{}, {}, {1: "a broker"}]
    assert admin.brokers() == 1


def test_none_for_too_long_is_an_error(answers: list[dict[int, Any]], admin: KafkaAdmin) -> None:
    answers.append({})
    with pytest.raises(Unavailable, match="the cluster has had no broker for 1 s; try again"):
        admin.brokers()
