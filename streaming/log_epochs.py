"""Which epochs the log shows: readers drop what is below the highest that they have seen.

The folders of a checkpoint say which epochs there were, and are lost with it. The log says it too:
each state record and heartbeat names its epoch. What the log showed is kept in the query's folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bus.base import Bus, Message
from domain.version import MAX_EPOCH, Version
from streaming.buckets import BucketId
from streaming.checkpoint import (
    LogProblem,
    current_epoch,
    positions,
    raise_floor,
    read_floor,
)
from streaming.epoch_start import EpochStart, begin
from streaming.log_range import messages_within
from wire.job import Heartbeat, UnreadableJobRecord, decode_heartbeat
from wire.topics import Topics

log = logging.getLogger("streaming.log_epochs")

# The last heartbeats that are looked through, of all buckets.
BEATS = 5_000
# So long a topic may stand still before its end, s.
STALL_S = 10.0


class Shown(NamedTuple):
    """What the log shows of a bucket: the highest epoch, and the last offset that a record rests
    on."""

    epoch: int = 0
    offset: int = -1

    def with_(self, epoch: int, offset: int) -> Shown:
        """Return it with another record."""
        return Shown(max(self.epoch, epoch), max(self.offset, offset))


def rise(
    bus: Bus, topics: Topics, home: Path, scenarios: Collection[str], clock: Callable[[], int]
) -> None:
    """Begin an epoch above all that the log shows of these scenarios, unless the current one is it.

    home: the query's folder. A folder that has never been compared with the log, and has no batch,
    is a first one, or its checkpoint is lost: the states in the log, if there are any, are not its
    own. Raises BusError, OSError and LogProblem.
    """
    epoch, floor = current_epoch(home), read_floor(home)
    lost = floor is None and not positions(epoch.path)
    look = shown_by_log if lost else shown_by_heartbeats
    highest = highest_of(shown := look(bus, topics, scenarios))
    if highest < epoch.number or (highest == epoch.number and not lost):
        raise_floor(home, epoch.number)
        return
    shown = shown if lost else shown_by_log(bus, topics, scenarios)
    raise_floor(home, highest_of(shown))
    quiet = {name: each.offset for name, each in shown.items()}
    risen = begin(home, lambda _number, _into: EpochStart(at=clock(), quiet=quiet))
    log.warning(
        "the log shows epoch %d, and the checkpoint was of epoch %d: epoch %d begins",
        highest_of(shown),
        epoch.number,
        risen.number,
    )


def highest_of(shown: Mapping[str, Shown]) -> int:
    """Return the highest epoch, 0 where there is none. Raises LogProblem for one without a
    successor."""
    name, highest = max(
        ((name, each.epoch) for name, each in shown.items()),
        key=lambda pair: pair[1],
        default=("", 0),
    )
    if highest >= MAX_EPOCH:
        raise LogProblem(f"{name}: the log shows epoch {highest}, and the highest is {MAX_EPOCH}")
    return highest


def shown_by_log(bus: Bus, topics: Topics, scenarios: Collection[str]) -> dict[str, Shown]:
    """Return what heartbeats and all state records show, by bucket: their topics are read whole.

    Raises BusError.
    """
    shown = shown_by_heartbeats(bus, topics, scenarios)
    edges = bus.offsets([topics.states(name) for name in scenarios])
    for message in messages_within(bus, edges, STALL_S):
        version = _version_of(message)
        if version is not None:
            name = str(BucketId(topics.scenario_of(message.topic) or "", message.partition))
            shown[name] = shown.get(name, Shown()).with_(version.epoch, version.offset)
    return shown


def shown_by_heartbeats(bus: Bus, topics: Topics, scenarios: Collection[str]) -> dict[str, Shown]:
    """Return what the newest heartbeats show, by bucket. Raises BusError."""
    shown: dict[str, Shown] = {}
    for beat in heartbeats(bus, topics):
        if beat.scenario in scenarios:
            shown[beat.bucket] = shown.get(beat.bucket, Shown()).with_(beat.epoch, beat.offset)
    return shown


def heartbeats(bus: Bus, topics: Topics) -> Iterator[Heartbeat]:
    """Yield the newest heartbeats that the log has. Raises BusError."""
    edges = bus.offsets([topics.buckets])
    tail = {at: (max(first, end - BEATS), end) for at, (first, end) in edges.items()}
    for message in messages_within(bus, tail, STALL_S):
        try:
            yield decode_heartbeat(message.value)
        except UnreadableJobRecord:
            continue


def _version_of(message: Message) -> Version | None:
    text = dict(message.headers).get("version", b"")
    try:
        return Version.parse(text.decode())
    except ValueError:
        return None
