"""The source topics as they must be: what a setting of theirs would make of the states."""

from __future__ import annotations

from collections.abc import Iterable

from bus.base import Bus, BusError

EXPECTED = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
"""A bucket's clock is the broker's append time, and its log is read again from any place."""


class WrongSetting(BusError):
    """A source topic that exists with another setting than the job needs; a line for each."""


def check(bus: Bus, topics: Iterable[str], bootstrap: str) -> None:
    """Raise WrongSetting where a topic's settings would make other states. Raises BusError.

    bootstrap: the servers, for the command that corrects it.
    """
    told = bus.settings(topics)
    wrong = [
        _line(topic, key, expected, told[topic].get(key, "not told"), bootstrap)
        for topic in sorted(told)
        for key, expected in EXPECTED.items()
        if told[topic].get(key) != expected
    ]
    if wrong:
        raise WrongSetting("\n".join(wrong))


def _line(topic: str, key: str, expected: str, found: str, bootstrap: str) -> str:
    return (
        f"{topic}: {key}: expected {expected}, got {found}: kafka-configs.sh --bootstrap-server "
        f"{bootstrap} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {key}={expected}"
    )
