"""A part of the log, read once from its begin to its end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from time import monotonic

from bus.base import Bus, Message, TopicPartition, Unavailable

_WAIT_S = 0.2
_AT_ONCE = 10_000


def messages_within(
    bus: Bus, edges: Mapping[TopicPartition, tuple[int, int]], stall_s: float = math.inf
) -> Iterator[Message]:
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
