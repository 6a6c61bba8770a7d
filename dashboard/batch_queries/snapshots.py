"""Daily snapshots that a batch query may begin with. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Iterable

from dashboard.checkpoints.models import FoldSnapshot
from dashboard.reconciliation.log_bounds import fits, terms_of
from domain.scenario import Scenario
from wire.batch_query import Snapshot
from wire.job import bucket_name


def snapshots_before(scenario: Scenario, moment: int) -> dict[str, Snapshot]:
    """Return by bucket the newest snapshot before a moment that still meets the log."""
    kept = FoldSnapshot.objects.filter(scenario=scenario.name, partition__lt=scenario.partitions)
    terms = {at: terms_of(scenario.name, at) for at in range(scenario.partitions)}
    return newest_before((row for row in kept if fits(row, terms[row.partition])), moment)


def newest_before(kept: Iterable[FoldSnapshot], moment: int) -> dict[str, Snapshot]:
    """Return by bucket the newest of these that lies before a moment."""
    newest: dict[str, FoldSnapshot] = {}
    for row in kept:
        name = bucket_name(row.scenario, row.partition)
        if row.clock < moment and (name not in newest or row.clock > newest[name].clock):
            newest[name] = row
    return {name: Snapshot(row.next_offset, row.file, row.digest) for name, row in newest.items()}
