"""The job's reported terms of folding its logs: bounds on append times, what was set aside.

Whoever folds a log here does it the same way: else its states would not be those of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from dashboard.checkpoints.models import FoldSnapshot, LogBound
from domain.bounds import Bound
from domain.quarantine import QuarantinedRange
from wire.job import Progress, bucket_name

Bounds = tuple[Bound, ...]
Asides = tuple[QuarantinedRange, ...]


class Terms(NamedTuple):
    """The terms on which a bucket's log is folded."""

    bounds: Bounds = ()
    asides: Asides = ()


NONE = Terms()


def take_in(records: Sequence[Progress]) -> None:
    """Store the last report on each bucket."""
    newest: dict[str, LogBound] = {}
    for record in records:
        for bucket in sorted({*record.bounds, *record.asides}):
            known = newest.get(bucket)
            if known is None or record.epoch >= known.epoch:
                pairs, asides = record.bounds.get(bucket, ()), record.asides.get(bucket, ())
                newest[bucket] = LogBound(
                    bucket=bucket, epoch=record.epoch, pairs=dump(pairs), asides=dump(asides)
                )
    kept = {row.bucket: row for row in LogBound.objects.filter(bucket__in=newest)}
    for bucket, row in sorted(newest.items()):
        before = kept.get(bucket)
        if before is None or (row.epoch >= before.epoch and _terms(row) != _terms(before)):
            row.save()


def _terms(row: LogBound) -> Terms:
    return Terms(load(row.pairs), load(row.asides))


def terms_of(scenario: str, partition: int) -> Terms:
    """Return the terms of a bucket, none where the job has reported none."""
    row = LogBound.objects.filter(pk=bucket_name(scenario, partition)).first()
    return _terms(row) if row is not None else Terms()


def fits(row: FoldSnapshot, terms: Terms) -> bool:
    """Return whether a fold on these terms comes to the state that a snapshot has.

    It does with a bound that it was folded with, and with one that no record before it is beyond;
    likewise with what it left out, and with what lies behind it.
    """
    had, left_out = load(row.bounds), load(row.asides)
    return all(bound in had or row.clock <= bound[0] for bound in terms.bounds) and all(
        aside in left_out or row.next_offset <= aside[0] for aside in terms.asides
    )


def dump(pairs: Iterable[tuple[int, int]]) -> str:
    """Return pairs of numbers as they are kept."""
    return msgspec.json.encode(list(pairs)).decode()


def load(text: str) -> tuple[tuple[int, int], ...]:
    """Read what `dump` wrote and return the pairs."""
    return msgspec.json.decode(text, type=tuple[tuple[int, int], ...])
