"""The way of a query round what was set aside: up to it, and on behind it, batch by batch.

Spark's source reads from one offset to another and leaves nothing out. But a micro-batch goes from
where the last one ended to where the checkpoint's write-ahead log says; so an entry is written
there that ends before what was set aside, its batch is carried out alone, and then its end is moved
behind: the next one begins there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from bus.base import TopicPartition
from domain.quarantine import QuarantinedRange
from streaming.checkpoint import drop_uncommitted, positions

# Records of one batch: a long way comes in many.
MOST = 500_000


# Records that Kafka's consumer unpacks at once, also behind where it is to stop.
AHEAD = 500


class BoundedBatch(NamedTuple):
    """A micro-batch that ends at these offsets, in each partition.

    jumps: where those go on that end at what was set aside; close: some end so near to it that the
    records have to be unpacked one by one.
    """

    ends: dict[TopicPartition, int]
    jumps: dict[TopicPartition, int]
    close: bool


def next_bounded_batch(
    reached: Mapping[TopicPartition, int],
    ranges: Mapping[TopicPartition, Iterable[QuarantinedRange]],
) -> BoundedBatch | None:
    """Return the next one from the offsets that were reached; None: nothing is in the way."""
    ahead = {
        place: min(span for span in ranges[place] if span[1] >= reached[place])
        for place in reached.keys() & ranges.keys()
        if any(last >= reached[place] for _, last in ranges[place])
    }
    if not ahead:
        return None
    ends, jumps = dict(reached), dict[TopicPartition, int]()
    for place, (first, last) in ahead.items():
        begin, far = reached[place], first - AHEAD
        ends[place] = min(far, begin + MOST // len(ahead)) if begin < far else max(begin, first)
        if ends[place] >= first:
            jumps[place] = last + 1
    return BoundedBatch(ends, jumps, close=bool(jumps))


def plan_batch(checkpoint: Path, ends: Mapping[TopicPartition, int], metadata: str) -> None:
    """Have the next batch of a checkpoint end at these offsets. Raises OSError.

    metadata: of the first batch of all, as Spark has it.
    """
    drop_uncommitted(checkpoint)
    done = committed(checkpoint)
    if done is None:
        _name(checkpoint)
    else:
        metadata = _lines(checkpoint, done)[1]
    _write(checkpoint, 0 if done is None else done + 1, metadata, ends)


def _name(checkpoint: Path) -> None:
    """Give a new checkpoint its query's id, without which Spark takes no planned batch."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid4())}))


def jump(checkpoint: Path, ends: Mapping[TopicPartition, int]) -> None:
    """Have the last committed batch end at these offsets: the next one begins there.

    Raises OSError.
    """
    done = committed(checkpoint)
    assert done is not None
    _write(checkpoint, done, _lines(checkpoint, done)[1], ends)


def ends_at(checkpoint: Path, ends: Mapping[TopicPartition, int]) -> bool:
    """Return whether the last committed batch ends there: what was planned has been carried out."""
    return positions(checkpoint) == ends


def committed(checkpoint: Path) -> int | None:
    """Return the number of the last committed batch, None before the first."""
    names = (path.name for path in (checkpoint / "commits").glob("*"))
    return max((int(name) for name in names if name.isdigit()), default=None)


def _lines(checkpoint: Path, number: int) -> list[str]:
    return (checkpoint / "offsets" / str(number)).read_text().splitlines()


def _write(
    checkpoint: Path, number: int, metadata: str, ends: Mapping[TopicPartition, int]
) -> None:
    """Write an entry of the write-ahead log, the last one from then on."""
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name.isdigit() and int(path.name) > number:
            path.unlink()
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(ends.items()):
        offsets.setdefault(topic, {})[str(partition)] = offset
    (folder / f".{number}.crc").unlink(missing_ok=True)  # of what it held before
    draft = folder / f"{number}.new"
    draft.write_text("\n".join(["v1", metadata, json.dumps(offsets)]))
    draft.replace(folder / str(number))
