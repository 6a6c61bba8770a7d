"""The source topics as they must be: what a setting of theirs would make of the states."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping

from bus.base import Bus, BusError
from wire.topics import BOUNDED

log = logging.getLogger("streaming.job.sources")

# A bucket's clock is the broker's append time, and its log is read again from any place.
EXPECTED = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}


class WrongSetting(BusError):
    """A source topic that exists with another setting than the job needs; a line for each."""


# How often a running query's source topics are looked at.
LOOK_S = 2.0
# A topic that so many looks in a row do not find was deleted: a broker that starts finds it sooner.
MISSING_LOOKS = 3


class SourceWatch:
    """Notices that source topics are others than those with which a query was started: a topic has
    another id, or another number of partitions, or is not there any more."""

    def __init__(self, bus: Bus, topics: Iterable[str], every_s: float | None = None) -> None:
        """Look once. Raises BusError."""
        self._bus, self._topics, self._every_s = bus, sorted(topics), every_s or LOOK_S
        self._begun = self._look()
        self._missing = 0  # looks in a row that did not find a topic
        self._stop = threading.Event()
        self.changed = False
        self._thread = threading.Thread(target=self._run, name="source-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; a look that is under way ends by itself."""
        self._stop.set()

    def _look(self) -> dict[str, tuple[str, int]]:
        """Return the id and the number of partitions of each topic that is there."""
        ids = self._bus.topic_ids(self._topics)
        return {topic: (log, self._bus.partitions(topic)) for topic, log in ids.items()}

    def _is_changed(self, seen: Mapping[str, tuple[str, int]]) -> bool:
        """Return whether a topic is another one, or is still missing."""
        there = {topic: each for topic, each in seen.items() if each[1]}
        self._missing = 0 if there.keys() >= self._begun.keys() else self._missing + 1
        other = any(self._begun.get(topic, each) != each for topic, each in there.items())
        return other or self._missing >= MISSING_LOOKS

    def _run(self) -> None:
        while not self.changed and not self._stop.wait(self._every_s):
            try:
                self.changed = self._is_changed(self._look())
            except BusError as error:
                log.debug("the source topics cannot be looked at: %s", error)
        if self.changed:
            log.warning("a source topic was changed: the query is started again")


def check(bus: Bus, topics: Iterable[str], bootstrap: str) -> None:
    """Raise WrongSetting if a topic's settings would change states. Raises BusError.

    bootstrap: the servers, for the command that corrects it.
    """
    settings = bus.settings(topics)
    wrong = [
        _line(topic, key, expected, settings[topic].get(key, "not set"), bootstrap)
        for topic in sorted(settings)
        for key, expected in EXPECTED.items()
        if settings[topic].get(key) != expected
    ]
    if wrong:
        raise WrongSetting("\n".join(wrong))


def bound(bus: Bus, topics: Iterable[str], bootstrap: str) -> list[str]:
    """Set the size limits of topics that an earlier release made.

    Returns a line for each setting that Kafka forbids to change, with the command that does it.
    Raises BusError.

    Without these settings states are the same, and a record may end the job: see quarantine.py.
    """
    settings, left = bus.settings(topics), []
    for topic in sorted(settings):
        present = settings[topic]
        missing = {key: value for key, value in BOUNDED.items() if _looser(key, value, present)}
        if not missing:
            continue
        try:
            bus.alter(topic, missing)
            log.info("%s: %s set", topic, ", ".join(f"{k}={v}" for k, v in missing.items()))
        except BusError as error:
            log.warning("%s: %s", topic, error)
            left += [
                _line(topic, key, value, present.get(key, "not set"), bootstrap)
                for key, value in missing.items()
            ]
    return left


def _looser(key: str, value: str, present: dict[str, str]) -> bool:
    """Return whether a setting lets more in than it should."""
    now = present.get(key, "")
    if key == "max.message.bytes" and now.isdigit():
        return int(now) > int(value)
    return now != value


def _line(topic: str, key: str, expected: str, present: str, bootstrap: str) -> str:
    return (
        f"{topic}: {key}: expected {expected}, got {present}: kafka-configs.sh --bootstrap-server "
        f"{bootstrap} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {key}={expected}"
    )
