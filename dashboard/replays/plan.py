"""Where each bucket of a query would begin again, what it would read, and what that means.

Pure but for the look at the database. A bucket that begins in mid-log needs its state there: it
begins at the newest daily snapshot at or before the place that was chosen. Times in Unix ms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal

import msgspec
from django.db.models.functions import Substr

from dashboard.checkpoints.models import FoldSnapshot
from dashboard.core.scenarios import scenarios
from dashboard.job.models import BucketStatus, JobProgress
from dashboard.reconciliation.log_bounds import fits, terms_of
from dashboard.states.models import AssetState
from wire.job import Action, bucket_name

From = Literal["earliest", "time", "offsets"]
Means = Literal["log", "snapshot", "forgets", "nothing"]
"""What a bucket begins with: the whole log, a snapshot, no state although there was a log before,
and no record at all."""

ASSUMED: Mapping[str, float] = {"kernel": 60_000.0, "python": 15_000.0}
"""Records/s of a query in micro-batches, until some have been measured here."""
MEASURED_OF = 30
"""So many of the last batches of catching up are looked at."""
LEAST_ROWS = 2_000
"""A smaller batch says little of the rate."""

_OFFSET_AT, _OFFSET_DIGITS = 8, 19
"""Where the offset stands in a version's sortable form: board_assetstate.version."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen. scenario: the one that is read again, empty: all of the query's.

    offsets: by bucket; exactly: begin at these offsets with no state; bound: the last append time
    that counts where a bucket's clock is ahead, None for none.
    """

    query: str
    scenario: str = ""
    start: From = "earliest"
    time: int = 0
    offsets: Mapping[str, int] = field(default_factory=dict)
    exactly: bool = False
    bound: int | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket's part. begin, end: of its log; first: the offset from which it is read.

    since: the time of that place, None where it is not known; later: it begins after the place that
    was chosen; left: assets on the board that it would know nothing of; bound: the last append time
    that counts, None where its clock is not ahead.
    """

    name: str
    scenario: str
    partition: int
    begin: int
    end: int
    first: int
    means: Means
    snapshot: FoldSnapshot | None = None
    since: int | None = None
    chosen: bool = True
    later: bool = False
    left: int = 0
    bound: int | None = None

    @property
    def records(self) -> int:
        """How many are read again."""
        return max(0, self.end - self.first)

    def asked(self) -> dict[str, Any]:
        """As the job is told."""
        if self.snapshot is not None:
            file, digest = self.snapshot.file, self.snapshot.digest
            return {"offset": self.first, "snapshot": file, "digest": digest}
        return {} if self.means in ("log", "nothing") else {"offset": self.first}


@dataclass(frozen=True, slots=True)
class Plan:
    """All buckets of a query. rate: records/s; measured: whether it was, or is assumed."""

    choice: Choice
    buckets: Sequence[Bucket]
    rate: float
    measured: bool

    @property
    def records(self) -> int:
        """How many are read again."""
        return sum(bucket.records for bucket in self.buckets)

    @property
    def seconds(self) -> float:
        """How long that would take."""
        return self.records / self.rate

    def seconds_of(self, bucket: Bucket) -> float:
        """A bucket's part of it."""
        return bucket.records / self.rate

    @property
    def whole(self) -> bool:
        """Whether it comes to the states that the whole log comes to."""
        return all(bucket.means != "forgets" for bucket in self.buckets)

    @property
    def left(self) -> int:
        """Assets on the board that the job would know nothing of."""
        return sum(bucket.left for bucket in self.buckets)

    @property
    def action(self) -> Action:
        """What is asked of the job for it."""
        return "rebuild" if self.whole else "reset"

    @property
    def word(self) -> str:
        """What is to be typed: the scenario's name, or the query's."""
        return self.choice.scenario or self.choice.query

    def parameters(self) -> dict[str, Any]:
        """As the job is told."""
        asked = {bucket.name: bucket.asked() for bucket in self.buckets}
        told: dict[str, Any] = {"buckets": {name: told for name, told in asked.items() if told}}
        bounds = {each.name: each.bound for each in self.buckets if each.bound is not None}
        return told | ({"bounds": bounds} if bounds else {})

    def digest(self) -> str:
        """Names what was reviewed: where each bucket begins, and with what."""
        told = [
            (bucket.name, bucket.first, bucket.means, bucket.asked(), bucket.bound)
            for bucket in self.buckets
        ]
        return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:32]


def carried(query: str) -> list[str]:
    """The scenarios that a query carries, by its heartbeats."""
    rows = BucketStatus.objects.filter(engine=query).values_list("scenario", flat=True)
    found = set(rows)
    return [name for name in scenarios() if name in found]


Edges = Mapping[tuple[str, int], tuple[int, int]]
"""First and next offset by scenario and partition."""


def plan(choice: Choice, edges: Edges) -> Plan:
    """Where each bucket of the query would begin, as its log is."""
    names = carried(choice.query)
    kept, beyond = _snapshots(names), () if choice.bound is None else ahead(choice.query)
    buckets = []
    for name in names:
        for at in range(scenarios()[name].partitions):
            begin, end = edges[name, at]
            bound = choice.bound if bucket_name(name, at) in beyond else None
            held = terms_of(name, at)
            if bound is not None:
                held = held._replace(bounds=(*held.bounds, (bound, end)))
            snapshots = [
                row
                for row in kept.get((name, at), [])
                if begin <= row.next_offset <= end and fits(row, held)
            ]
            found = _bucket(choice, name, at, (begin, end), snapshots)
            buckets.append(replace(found, bound=bound))
    rate = measured_rate(choice.query)
    assumed = ASSUMED.get(choice.query, min(ASSUMED.values()))
    return Plan(choice, buckets, rate or assumed, rate is not None)


def ahead(query: str) -> dict[str, int]:
    """Since when the clocks of its buckets are ahead, by bucket."""
    rows = BucketStatus.objects.filter(engine=query, ahead_since__isnull=False)
    return {row.bucket: row.ahead_since or 0 for row in rows.order_by("bucket")}


def _snapshots(names: Iterable[str]) -> dict[tuple[str, int], list[FoldSnapshot]]:
    """By bucket, the oldest first."""
    found: dict[tuple[str, int], list[FoldSnapshot]] = {}
    for row in FoldSnapshot.objects.filter(scenario__in=list(names)).order_by("next_offset"):
        found.setdefault((row.scenario, row.partition), []).append(row)
    return found


def _bucket(
    choice: Choice, scenario: str, at: int, edge: tuple[int, int], snapshots: list[FoldSnapshot]
) -> Bucket:
    """snapshots: those that meet the log, the oldest first."""
    name, (begin, end) = bucket_name(scenario, at), edge
    chosen = choice.scenario in ("", scenario)
    if chosen and choice.exactly:
        return _forgetting(name, scenario, at, edge, choice.offsets.get(name, begin))
    fitting = snapshots if not chosen else _fitting(choice, name, snapshots)
    later = False
    if chosen and choice.start == "earliest":
        found = None if begin == 0 else next(iter(snapshots), None)
    else:
        found = fitting[-1] if fitting else None
        if found is None and begin > 0 and snapshots:
            found, later = snapshots[0], True
    if found is None and begin > 0:
        return _forgetting(name, scenario, at, edge, begin, chosen=chosen)
    first = begin if found is None else found.next_offset
    means: Means = "snapshot" if found else "log" if end > first else "nothing"
    since = found.clock if found else None
    return Bucket(name, scenario, at, begin, end, first, means, found, since, chosen, later)


def _fitting(choice: Choice, name: str, snapshots: list[FoldSnapshot]) -> list[FoldSnapshot]:
    """Those at or before the place that was chosen."""
    if choice.start == "time":
        return [row for row in snapshots if row.clock <= choice.time]
    upto = choice.offsets.get(name)
    return [row for row in snapshots if upto is not None and row.next_offset <= upto]


def _forgetting(
    name: str, scenario: str, at: int, edge: tuple[int, int], first: int, *, chosen: bool = True
) -> Bucket:
    """A bucket that begins without state although its log began before."""
    begin, end = edge
    first = min(max(first, begin), end)
    if first == 0:
        return Bucket(name, scenario, at, begin, end, 0, "log" if end else "nothing", chosen=chosen)
    left = _left(scenario, at, first)
    return Bucket(name, scenario, at, begin, end, first, "forgets", chosen=chosen, left=left)


def _left(scenario: str, partition: int, first: int) -> int:
    """Assets on the board whose last record lies before an offset."""
    rows = AssetState.objects.filter(scenario=scenario, partition=partition, purged=False)
    place = Substr("version", _OFFSET_AT, _OFFSET_DIGITS)
    return rows.annotate(at=place).filter(at__lt=f"{first:0{_OFFSET_DIGITS}d}").count()


def measured_rate(query: str) -> float | None:
    """Records/s of the last batches of catching up; None where there are none."""
    rows = JobProgress.objects.filter(query=query, status="catching-up").exclude(batch="")
    rates = []
    for text in rows.order_by("-id").values_list("batch", flat=True)[:MEASURED_OF]:
        batch = msgspec.json.decode(text)
        if batch.get("numInputRows", 0) >= LEAST_ROWS:
            rates.append(float(batch.get("processedRowsPerSecond", 0)))
    rates = [rate for rate in rates if rate > 0]
    return median(rates) if rates else None
