"""The judge of a real job finds what is wrong, and says what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bus.base import ConsumerRecord
from support.histories.judge import Judged, Key
from support.histories.sharedlog import PARTITIONS, shared_log
from wire.topics import Topics

TOPICS = Topics("test.")


@pytest.fixture(scope="module")
def judged() -> Judged:
    """The fold's view of a small log, all of it needed."""
    judgement = Judged()
    for (scenario, _), messages in shared_log(3, 60, 40, 1_790_000_000_000).messages(TOPICS):
        judgement.fold(TOPICS, messages, PARTITIONS[scenario])
    judgement.needed = {*judgement.emissions, *judgement.dead}
    return judgement


@pytest.fixture
def states(judged: Judged) -> list[ConsumerRecord]:
    """Return what a job that is right would have written, last versions twice."""
    keys = list(judged.emissions)
    return [
        ConsumerRecord(key.topic, 0, at, 0, *judged.emissions[key])
        for at, key in enumerate([*keys, *keys[-50:]])
    ]


@pytest.fixture
def dead(judged: Judged) -> list[ConsumerRecord]:
    """The dead letters of such a job."""
    return [
        ConsumerRecord(TOPICS.dead_letters, 0, at, 0, *content)
        for at, content in enumerate(judged.dead.values())
    ]


def complaint(
    judged: Judged, states: Sequence[ConsumerRecord], dead: Sequence[ConsumerRecord]
) -> str:
    """Return what the judge says of them."""
    with pytest.raises(AssertionError) as failed:
        judged.check(states, dead)
    text = str(failed.value)
    assert len(text) < 8000
    return text


def test_what_is_right_passes(
    judged: Judged, states: list[ConsumerRecord], dead: list[ConsumerRecord]
) -> None:
    judged.check(states, dead)


def test_another_field_is_named_with_the_history(
    judged: Judged, states: list[ConsumerRecord], dead: list[ConsumerRecord]
) -> None:
    at = next(i for i, m in enumerate(states) if b'"expires":null' in (m.value or b""))
    value = (states[at].value or b"").replace(b'"expires":null', b'"expires":7', 1)
    states[at] = replace(states[at], value=value)
    said = complaint(judged, states, dead)
    assert ".expires is 7, not None" in said
    assert '"type":"report"' in said


def test_other_bytes_and_other_headers_are_told(
    judged: Judged, states: list[ConsumerRecord], dead: list[ConsumerRecord]
) -> None:
    at = next(i for i, m in enumerate(states) if m.value is not None)
    spaced = replace(states[at], value=b" " + (states[at].value or b""))
    said = complaint(judged, [*states[:at], spaced, *states[at + 1 :]], dead)
    assert "other bytes of the same meaning" in said
    headed = replace(states[at], headers=(*states[at].headers, ("x", b"")))
    assert "headers are" in complaint(judged, [*states[:at], headed], dead)


def test_a_version_too_many_is_told(
    judged: Judged, states: list[ConsumerRecord], dead: list[ConsumerRecord]
) -> None:
    extra = replace(states[0], headers=(("version", b"1.999999.0"),))
    assert "no such version" in complaint(judged, [*states, extra], dead)


def test_a_version_that_is_missing_is_told(
    judged: Judged, states: list[ConsumerRecord], dead: list[ConsumerRecord]
) -> None:
    assert "1 of" in complaint(judged, states[1:], dead)
    assert "missing" in complaint(judged, states, dead[1:])


def test_versions_that_come_in_another_order_are_told(
    judged: Judged, states: list[ConsumerRecord], dead: list[ConsumerRecord]
) -> None:
    asset = next(key for key in judged.emissions if _versions(judged, key) > 2)
    places = [i for i, m in enumerate(states) if (m.topic, m.key) == _place(asset)]
    first, second = places[:2]
    states[first], states[second] = states[second], states[first]
    assert "for the first time after" in complaint(judged, states, dead)


def test_a_dead_letters_bytes_and_reason_are_held_against_the_folds(
    judged: Judged, states: list[ConsumerRecord], dead: list[ConsumerRecord]
) -> None:
    assert "dead letter" in complaint(judged, states, [replace(dead[0], value=b"?"), *dead])
    headers = (("reason", b"another"), *dead[0].headers[1:])
    assert "the fold's there" in complaint(judged, states, [replace(dead[0], headers=headers)])


def _versions(judged: Judged, key: Key) -> int:
    return sum(other[:2] == key[:2] for other in judged.emissions)


def _place(key: Key) -> tuple[str, bytes]:
    return key.topic, key.asset.encode()
