"""Reading source partitions on to given offsets, into their replays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bus.base import Bus
from dashboard.materialiser.replay import Replay

OnProgress = Callable[[int, int], None]
"""Called with how many records have been read, and of how many."""

BATCH = 10_000


def read_on(
    bus: Bus,
    replays: Mapping[tuple[str, int], Replay],
    ends: Mapping[tuple[str, int], int],
    progress: OnProgress,
) -> int:
    """Feed each replay its partition's records up to its end. Returns how many there were."""
    starts = {place: replays[place].next_offset for place in ends}
    starts = {place: start for place, start in starts.items() if start < ends[place]}
    total = sum(ends[place] - start for place, start in starts.items())
    progress(0, total)
    if not starts:
        return 0
    reader = bus.reader(starts)
    try:
        done = 0
        while any(reader.positions()[place] < ends[place] for place in starts):
            for message in reader.poll(1, BATCH):
                place = (message.topic, message.partition)
                if message.offset < ends[place]:
                    replays[place].feed(message)
                    done += 1
            progress(min(done, total), total)
    finally:
        reader.close()
    return done
