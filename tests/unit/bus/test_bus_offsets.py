"""Offsets that no broker knows yet are asked for again, and never taken for offsets."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from bus.base import BusError, Unavailable
from bus.kafka import KafkaBus
from bus.kafka_admin import KafkaAdmin

INVALID = ck.OFFSET_INVALID


class Admin:
    """Plays librdkafka's admin client: gives one answer after the other, the last for ever.

    An answer is an offset or an error.
    """

    def __init__(self, *answers: int | ck.KafkaException) -> None:
        self.answers = list(answers)

    def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Any]:
        answer: Future[Any] = Future()
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, ck.KafkaException):
            answer.set_exception(given)
        else:
            answer.set_result(SimpleNamespace(offset=given))
        return dict.fromkeys(asked, answer)

    def poll(self, _timeout_s: float) -> int:
        return 0


def refusal(code: int) -> ck.KafkaException:
    return ck.KafkaException(ck.KafkaError(code))


def bus(monkeypatch: pytest.MonkeyPatch, *answers: int | ck.KafkaException) -> KafkaBus:
    made, admin = KafkaBus({}), Admin(*answers)
    monkeypatch.setattr(made, "_client", lambda: admin)
    monkeypatch.setattr(made, "_counts", lambda _timeout_s: {"t": 1})
    return made


@pytest.mark.parametrize("answers", [(INVALID, 3, 7), (3, INVALID, 3, 7), (3, 7)])
def test_what_is_not_known_is_asked_for_again(monkeypatch, answers):
    assert bus(monkeypatch, *answers).offsets(["t"]) == {("t", 0): (3, 7)}


@pytest.mark.parametrize(
    "code",
    [
        ck.KafkaError.FENCED_LEADER_EPOCH,
        ck.KafkaError.NOT_LEADER_FOR_PARTITION,
        ck.KafkaError.OFFSET_NOT_AVAILABLE,
        ck.KafkaError.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_while_a_leader_changes_the_request_is_made_again(monkeypatch, code):
    assert bus(monkeypatch, 3, refusal(code), 3, 7).offsets(["t"]) == {("t", 0): (3, 7)}


def test_what_no_time_mends_is_raised_at_once(monkeypatch):
    answers = (refusal(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED), 3, 7)
    with pytest.raises(BusError, match="TOPIC_AUTHORIZATION_FAILED"):
        bus(monkeypatch, *answers).offsets(["t"])


def test_what_stays_unknown_is_said(monkeypatch):
    with pytest.raises(Unavailable, match="no broker knows the offsets of t/0 yet"):
        bus(monkeypatch, INVALID).offsets(["t"], timeout_s=0.1)


NOON = datetime(2026, 9, 21, 12, tzinfo=UTC)


def admin(monkeypatch: pytest.MonkeyPatch, *answers: int | ck.KafkaException) -> KafkaAdmin:
    made = KafkaAdmin({}, timeout_s=0.5)
    monkeypatch.setattr(made, "_client", Admin(*answers), raising=False)
    monkeypatch.setattr("bus.kafka_admin.sleep", lambda _seconds: None)
    return made


def test_an_admin_asks_again_while_a_leader_changes(monkeypatch):
    moving = refusal(ck.KafkaError.NOT_LEADER_FOR_PARTITION)
    asked = admin(monkeypatch, moving, moving, 3, moving, 7)
    assert asked.at_time([("t", 0)], NOON) == {("t", 0): 3}


def test_an_admin_gives_up_on_a_leader_that_never_comes(monkeypatch):
    asked = admin(monkeypatch, refusal(ck.KafkaError.LEADER_NOT_AVAILABLE))
    with pytest.raises(Unavailable, match="LEADER_NOT_AVAILABLE"):
        asked.at_time([("t", 0)], NOON)
