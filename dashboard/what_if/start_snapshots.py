"""The beginning of a trial: the snapshot of each partition that fits. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Iterable

from dashboard.checkpoints.models import FoldSnapshot
from dashboard.reconciliation.log_bounds import fits, terms_of
from domain.scenario import Scenario
from wire.batch_query import Snapshot, lead_time
from wire.job import bucket_name


def snapshots(running: Scenario, proposed: Scenario, since: int) -> dict[str, Snapshot]:
    """Return by bucket the newest snapshot that lies far enough before the window for the rules.

    Whether it still meets the log, and was made by the rule that is running, the job sees.
    """
    lead = lead_time(running, (running, proposed))
    if lead is None:
        return {}
    kept = FoldSnapshot.objects.filter(scenario=running.name, partition__lt=running.partitions)
    terms = {at: terms_of(running.name, at) for at in range(running.partitions)}
    return newest_before((row for row in kept if fits(row, terms[row.partition])), since - lead)


def newest_before(kept: Iterable[FoldSnapshot], moment: int) -> dict[str, Snapshot]:
    """Return by bucket the newest of these that lies before a moment."""
    newest: dict[str, FoldSnapshot] = {}
    for row in kept:
        name = bucket_name(row.scenario, row.partition)
        if row.clock < moment and (name not in newest or row.clock > newest[name].clock):
            newest[name] = row
    return {name: Snapshot(row.next_offset, row.file, row.digest) for name, row in newest.items()}
