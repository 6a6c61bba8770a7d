"""The source topics as they must be: what a setting of theirs would make of the states."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bus.base import Bus, BusError
from wire.topics import BOUNDED

log = logging.getLogger("streaming.sources")

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


def bound(bus: Bus, topics: Iterable[str], bootstrap: str) -> list[str]:
    """Have topics of before take no more than those that are made today; what Kafka forbids, in
    words, with the command that does it. Raises BusError.

    Without these settings states are the same, and a record may end the job: see asides.py.
    """
    told, left = bus.settings(topics), []
    for topic in sorted(told):
        missing = {key: value for key, value in BOUNDED.items() if _looser(key, value, told[topic])}
        if not missing:
            continue
        try:
            bus.alter(topic, missing)
            log.info("%s: %s set", topic, ", ".join(f"{k}={v}" for k, v in missing.items()))
        except BusError as error:
            log.warning("%s: %s", topic, error)
            found = told[topic]
            left += [
                _line(topic, key, value, found.get(key, "not told"), bootstrap)
                for key, value in missing.items()
            ]
    return left


def _looser(key: str, value: str, found: dict[str, str]) -> bool:
    """Return whether a setting lets more in than it should."""
    now = found.get(key, "")
    if key == "max.message.bytes" and now.isdigit():
        return int(now) > int(value)
    return now != value


def _line(topic: str, key: str, expected: str, found: str, bootstrap: str) -> str:
    return (
        f"{topic}: {key}: expected {expected}, got {found}: kafka-configs.sh --bootstrap-server "
        f"{bootstrap} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {key}={expected}"
    )
