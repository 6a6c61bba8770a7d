"""The bounds on append times with which the job folds its logs, as it has told them.

Whoever folds a log here takes them: else its states would not be those of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dashboard.materialiser.models import FoldSnapshot, LogBound
from domain.bounds import Bound
from wire.job import Progress, bucket_name

Bounds = tuple[Bound, ...]


def take_in(records: Sequence[Progress]) -> None:
    """Keep what was told last of each bucket."""
    told: dict[str, LogBound] = {}
    for record in records:
        for bucket, pairs in record.bounds.items():
            known = told.get(bucket)
            if known is None or record.epoch >= known.epoch:
                told[bucket] = LogBound(bucket=bucket, epoch=record.epoch, pairs=dump(pairs))
    kept = {row.bucket: row for row in LogBound.objects.filter(bucket__in=told)}
    for bucket, row in sorted(told.items()):
        before = kept.get(bucket)
        if before is None or (row.epoch >= before.epoch and row.pairs != before.pairs):
            row.save()


def bounds_of(scenario: str, partition: int) -> Bounds:
    """Those of a bucket, none where the job has told of none."""
    row = LogBound.objects.filter(pk=bucket_name(scenario, partition)).first()
    return load(row.pairs) if row is not None else ()


def fits(row: FoldSnapshot, bounds: Iterable[Bound]) -> bool:
    """Whether a fold with these bounds comes to the state that a snapshot has.

    It does with one that it was folded with, and with one that no record before it is beyond.
    """
    had = load(row.bounds)
    return all(bound in had or row.clock <= bound[0] for bound in bounds)


def dump(bounds: Iterable[Bound]) -> str:
    """Bounds as they are kept."""
    return msgspec.json.encode(list(bounds)).decode()


def load(text: str) -> Bounds:
    """Read what `dump` wrote."""
    return msgspec.json.decode(text, type=Bounds)
