"""Reading of source partitions on to given offsets, into their replays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from bus.base import Bus, BusError, Reader, Unavailable
from dashboard.reconciliation.partition_replay import Replay

# Called with how many records have been read, and of how many.
OnProgress = Callable[[int, int], None]

BATCH = 10_000
# How long nothing may arrive although there is more to read, s.
STALLED_S = 30.0


def read_on(
    bus: Bus,
    replays: Mapping[tuple[str, int], Replay],
    ends: Mapping[tuple[str, int], int],
    progress: OnProgress,
    *,
    stalled_s: float = STALLED_S,
) -> int:
    """Feed each replay its partition's records up to its end. Returns how many there were.

    Raises Unavailable when nothing arrives for `stalled_s`, and BusError where the records to be
    read next have been deleted meanwhile.
    """
    starts = {place: replays[place].next_offset for place in ends}
    starts = {place: start for place, start in starts.items() if start < ends[place]}
    total = sum(ends[place] - start for place, start in starts.items())
    progress(0, total)
    if not starts:
        return 0
    reader = bus.reader(starts)
    try:
        return _feed(reader, replays, {place: ends[place] for place in starts}, progress, stalled_s)
    finally:
        reader.close()


def _feed(
    reader: Reader,
    replays: Mapping[tuple[str, int], Replay],
    ends: Mapping[tuple[str, int], int],
    progress: OnProgress,
    stalled_s: float,
) -> int:
    done, total = 0, sum(end - replays[place].next_offset for place, end in ends.items())
    heard = time.monotonic()
    while any(reader.positions()[place] < end for place, end in ends.items()):
        messages = reader.poll(1, BATCH)
        for gap in reader.gaps:
            raise BusError(f"{gap.topic}/{gap.partition}: deleted while it was read, start again")
        for message in messages:
            place = (message.topic, message.partition)
            if message.offset < ends[place]:
                replays[place].feed(message)
                done += 1
        progress(min(done, total), total)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > stalled_s:
            raise Unavailable(f"nothing arrives for {stalled_s:g} s, {done:,} of {total:,} read")
    return done
