"""Epochs of the job: above all that the log shows, and where each begins."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

import msgspec

from bus.base import Bus, ConsumerRecord, TopicPartition, Unavailable
from domain.bounds import Bound
from domain.version import MAX_EPOCH, Version
from streaming.state.buckets import UNNAMED_STATE_PARTITIONS, BucketId
from streaming.state.checkpoint import (
    Epoch,
    LogProblem,
    current_epoch,
    next_epoch,
    positions,
    raise_floor,
    read_floor,
    start_folder,
)
from streaming.state.storage import StoragePath
from wire.job import Heartbeat, UnreadableJobRecord, decode_heartbeat
from wire.topics import Topics

# ---- epoch start ---------------------------------------------------------------------------------
# Where an epoch of a query begins: places in the log, and states to begin with there.
#
# Beside the folder of an epoch that an admin requested is `start-N`: a file that says where each
# bucket begins, and for some buckets a file with their state. That file is written last, and it is
# whole before the epoch's own folder is made, which is what makes the epoch the current one.

# The beginning of a log, wherever that is: Spark's own number for it.
EARLIEST = -2

START = "start.json"


class EpochStart(msgspec.Struct):
    """How an epoch begins; all by bucket, as `attack/0`.

    ask: the id of the request; at: when it began, ms; offsets: of the first record that is
    read, or EARLIEST; firsts: what that was then; ends: the log's next offset then, at which it
    has caught up; seeds: files with the state to begin with; rules: in force there, as JSON, where
    that is not the log's first; quiet: the last offset whose outcome readers have seen in an
    earlier epoch: up to there only the last record of each asset is emitted; bounds: on append
    times, see domain/bounds.py; state_partitions: of its checkpoint, fixed once a batch is
    committed; versions: the epoch that its versions name, 0 for its own: it goes on with the state
    of that one, as a restart would (streaming/job/state_partitions.py); logs: by topic, the id of
    the log that all offsets are of.
    """

    ask: str = ""
    at: int = 0
    firsts: dict[str, int] = {}
    offsets: dict[str, int] = {}
    seeds: dict[str, str] = {}
    rules: dict[str, str] = {}
    quiet: dict[str, int] = {}
    ends: dict[str, int] = {}
    bounds: dict[str, list[Bound]] = {}
    state_partitions: int = UNNAMED_STATE_PARTITIONS
    versions: int = 0
    logs: dict[str, str] = {}

    def version_epoch(self, epoch: Epoch) -> int:
        """Return the number that versions name which rest on this epoch."""
        return self.versions or epoch.number


class UnreadableStart(Exception):
    """The file that says how an epoch begins cannot be read; the message says why."""


def start_of(epoch: Epoch) -> EpochStart:
    """Return how an epoch begins: by default at the log's beginning. Raises UnreadableStart.

    Seeds come as paths.
    """
    folder, start = start_folder(epoch), _read(epoch)
    start.seeds = {bucket: str(folder / name) for bucket, name in start.seeds.items()}
    return start


def _read(epoch: Epoch) -> EpochStart:
    file = start_folder(epoch) / START
    try:
        return msgspec.json.decode(file.read_bytes(), type=EpochStart)
    except FileNotFoundError:
        return EpochStart()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableStart(f"{file}: {error}") from None


def bound(epoch: Epoch, bounds: Mapping[str, Sequence[Bound]]) -> EpochStart:
    """Have an epoch without a committed batch begin with these bounds: its state is still empty.

    Raises UnreadableStart and OSError.
    """
    start = _read(epoch)
    start.bounds = {name: list(held) for name, held in bounds.items()}
    _rewrite(epoch, start)
    return start_of(epoch)


def divide(epoch: Epoch, state_partitions: int) -> None:
    """Have an epoch without a committed batch begin with so many state partitions.

    Raises UnreadableStart and OSError.
    """
    start = _read(epoch)
    if start.state_partitions != state_partitions:
        start.state_partitions = state_partitions
        _rewrite(epoch, start)


def name_logs(epoch: Epoch, logs: Mapping[str, str]) -> EpochStart:
    """Have an epoch's offsets be of these logs, by topic. Raises UnreadableStart and OSError."""
    start = _read(epoch)
    if start.logs != logs:
        start.logs = dict(logs)
        _rewrite(epoch, start)
    return start_of(epoch)


def _rewrite(epoch: Epoch, start: EpochStart) -> None:
    (start_folder(epoch) / START).write_whole(msgspec.json.encode(start), synced=True)


def begin(home: StoragePath, make: Callable[[int, StoragePath], EpochStart]) -> Epoch:
    """Begin a new epoch of the query whose folder is `home`, as `make` says.

    make: is given the epoch's number and a folder, and writes the states there. However it is
    broken off, either the old epoch is the current one or the new one is, whole.
    """
    epoch = next_epoch(home)
    folder = start_folder(epoch)
    folder.make()
    start = make(epoch.number, folder)
    (folder / START).write_whole(msgspec.json.encode(start), synced=True)
    epoch.path.make()
    return epoch


# ---- log range -----------------------------------------------------------------------------------
# A part of the log, read once from its begin to its end.

_WAIT_S = 0.2
_AT_ONCE = 10_000


def messages_within(
    bus: Bus, edges: Mapping[TopicPartition, tuple[int, int]], stall_s: float = math.inf
) -> Iterator[ConsumerRecord]:
    """Yield what lies between the first and the next offset of these partitions, each in order.

    Raises BusError, Unavailable too where nothing comes for `stall_s` seconds.
    """
    ends = {place: end for place, (first, end) in edges.items() if first < end}
    if not ends:
        return
    reader = bus.reader({place: edges[place][0] for place in ends})
    give_up = monotonic() + stall_s
    try:
        while any(reader.positions()[place] < end for place, end in ends.items()):
            messages = reader.poll(_WAIT_S, _AT_ONCE)
            if messages:
                give_up = monotonic() + stall_s
            elif monotonic() > give_up:
                raise Unavailable(f"{min(ends)[0]}: nothing came for {stall_s:g} s")
            for message in messages:
                if message.offset < ends[message.topic, message.partition]:
                    yield message
    finally:
        reader.close()


# ---- log epochs ----------------------------------------------------------------------------------
# Which epochs the log shows: readers drop what is below the highest that they have seen.
#
# The folders of a checkpoint say which epochs there were, and are lost with it. The log says it
# too: each state record and heartbeat names its epoch. What the log showed is kept in the query's
# folder.

log = logging.getLogger("streaming.fold.epochs")

# The last heartbeats that are looked through, of all buckets.
BEATS = 5_000
# So long a topic may stand still before its end, s.
STALL_S = 10.0


class LoggedEpoch(NamedTuple):
    """What the log shows of a bucket: the highest epoch, and the last offset that a record rests
    on.

    log: the id of the source topic that its newest heartbeat names, empty where none does.
    """

    epoch: int = 0
    offset: int = -1
    log: str = ""

    def with_(self, epoch: int, offset: int, log: str = "") -> LoggedEpoch:
        """Return it with another record. log: where it is a heartbeat."""
        return LoggedEpoch(max(self.epoch, epoch), max(self.offset, offset), log or self.log)

    def is_of(self, logs: Mapping[str, str], topics: Topics, bucket: str) -> bool:
        """Return whether the offset may be of the log that the bucket reads now."""
        topic = topics.reports(BucketId.parse(bucket).scenario)
        return not self.log or logs.get(topic, self.log) == self.log


def rise(
    bus: Bus,
    topics: Topics,
    home: StoragePath,
    scenarios: Collection[str],
    clock: Callable[[], int],
    *,
    moved: bool = False,
) -> str:
    """Begin an epoch above all that the log shows of these scenarios, unless the current one is it.

    Returns how the query begins, in words, "" where it goes on. home: the query's folder; moved:
    whether another job has carried one of them so far. A folder that has never been compared with
    the log, and has no batch, is a first one, or its checkpoint is lost: the states in the log, if
    there are any, are not its own, and neither are those of a job that carried them before. Raises
    BusError, OSError and LogProblem.
    """
    epoch, floor = current_epoch(home), read_floor(home)
    lost = moved or (floor is None and not positions(epoch.path))
    look = shown_by_log if lost else shown_by_heartbeats
    highest = highest_of(shown := look(bus, topics, scenarios))
    if not moved and (highest < epoch.number or (highest == epoch.number and not lost)):
        raise_floor(home, epoch.number)
        return _first(epoch, highest) if lost else ""
    shown = shown if lost else shown_by_log(bus, topics, scenarios)
    raise_floor(home, highest_of(shown))
    logs = bus.topic_ids([topics.reports(name) for name in scenarios])
    gone = {name: each for name, each in shown.items() if not each.is_of(logs, topics, name)}
    quiet = {name: each.offset for name, each in shown.items() if name not in gone}
    # What readers have is of these: the job waits until somebody has it read the new ones.
    logs |= {topics.reports(BucketId.parse(name).scenario): each.log for name, each in gone.items()}
    risen = begin(home, lambda _number, _into: EpochStart(at=clock(), quiet=quiet, logs=logs))
    what = "is lost" if lost else f"is an old copy, of epoch {epoch.number}"
    what = "was another job's for some scenario" if moved else what
    again = f"it is read again in epoch {risen.number}"
    words = f"the checkpoint {what}, and the log shows epoch {highest}: {again}"
    log.warning("%s", words)
    return words


def _first(epoch: Epoch, highest: int) -> str:
    """Return in words how a query begins that has no batch, in an epoch above the log's."""
    words = f"first start: epoch {epoch.number} begins with the log"
    if highest:
        known = f"nothing of this query was here, and the log shows epoch {highest}"
        words = f"{known}: it is read in epoch {epoch.number}"
    log.info("%s", words)
    return words


def highest_of(shown: Mapping[str, LoggedEpoch]) -> int:
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


def shown_by_log(bus: Bus, topics: Topics, scenarios: Collection[str]) -> dict[str, LoggedEpoch]:
    """Return what heartbeats and all state records show, by bucket: their topics are read whole.

    Raises BusError.
    """
    shown = shown_by_heartbeats(bus, topics, scenarios)
    edges = bus.offsets([topics.states(name) for name in scenarios])
    for message in messages_within(bus, edges, STALL_S):
        version = _version_of(message)
        if version is not None:
            name = str(BucketId(topics.scenario_of(message.topic) or "", message.partition))
            shown[name] = shown.get(name, LoggedEpoch()).with_(version.epoch, version.offset)
    return shown


def shown_assets(bus: Bus, topic: str) -> list[str]:
    """Return the assets that a topic of states shows: it is read whole. Raises BusError."""
    shown: dict[str, bool] = {}
    for message in messages_within(bus, bus.offsets([topic]), STALL_S):
        if _version_of(message) is not None:
            shown[(message.key or b"").decode(errors="replace")] = message.value is not None
    return sorted(asset for asset, there in shown.items() if there)


def shown_by_heartbeats(
    bus: Bus, topics: Topics, scenarios: Collection[str]
) -> dict[str, LoggedEpoch]:
    """Return what the newest heartbeats show, by bucket. Raises BusError."""
    shown: dict[str, LoggedEpoch] = {}
    for beat in heartbeats(bus, topics):
        if beat.scenario in scenarios:
            shown[beat.bucket] = shown.get(beat.bucket, LoggedEpoch()).with_(
                beat.epoch, beat.offset, beat.log
            )
    return shown


def heartbeats(bus: Bus, topics: Topics) -> Iterator[Heartbeat]:
    """Yield the newest heartbeats that the log has. Raises BusError."""
    return (beat for _, beat in appended_heartbeats(bus, topics))


def appended_heartbeats(bus: Bus, topics: Topics) -> Iterator[tuple[int, Heartbeat]]:
    """Yield the newest heartbeats, each with when it was appended (Unix ms). Raises BusError."""
    edges = bus.offsets([topics.buckets])
    tail = {at: (max(first, end - BEATS), end) for at, (first, end) in edges.items()}
    for message in messages_within(bus, tail, STALL_S):
        try:
            yield message.timestamp, decode_heartbeat(message.value)
        except UnreadableJobRecord:
            continue


def _version_of(message: ConsumerRecord) -> Version | None:
    text = dict(message.headers).get("version", b"")
    try:
        return Version.parse(text.decode())
    except ValueError:
        return None
