"""Reports that came too late, as heartbeats report them: stored by the materialiser, and summed up.

A heartbeat that the job repeats has the offset that it had before, and so has one of a later epoch
that reads the same log; each is counted once, by its bucket's highest offset so far. An epoch that
begins in mid-log cuts its heartbeats elsewhere: at most a second of its first counts twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db.models import Max, Min, Q, Sum

from dashboard.agents.models import LateHour, LateMark
from dashboard.core.sql import execute_many
from dashboard.core.times import HOUR_MS, MINUTE_MS, span
from domain.names import USER_PREFIX, name_ok
from domain.scenario import Scenario
from wire.job import Heartbeat, Lateness

DAY_HOURS = 24
# Why reports came late is told by those of this hour and so many before.
LATELY_HOURS = 1
# A clock that is off by less than this is right: a report takes a moment to arrive.
OFF_MS = 5_000
# A vote that was seen so long after the last loss tells how the clock is now.
AFTER_MS = MINUTE_MS

COUNTED = """\
INSERT INTO agentry_latehour (scenario, agent, hour, stale, late, silent, rare, age, last)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (scenario, hour, agent) DO UPDATE SET
stale = agentry_latehour.stale + excluded.stale,
late = agentry_latehour.late + excluded.late,
silent = agentry_latehour.silent + excluded.silent,
rare = agentry_latehour.rare + excluded.rare,
age = CASE WHEN excluded.age = 0 OR (agentry_latehour.age > 0
AND agentry_latehour.age < excluded.age) THEN agentry_latehour.age ELSE excluded.age END,
last = CASE WHEN excluded.last > agentry_latehour.last
THEN excluded.last ELSE agentry_latehour.last END"""

# Scenario, agent and hour.
Key = tuple[str, str, int]

# What a heartbeat counts, and under what name the numbers of a bucket are kept.
KINDS = ("stale", "late", "silent")


# ---- what heartbeats tell -----------------------------------------------------------------------


def take_in(beats: Sequence[Heartbeat]) -> Counter[tuple[str, str]]:
    """Count the late reports of heartbeats that were not counted yet, in the order of the log.

    Returns how many more there are of each kind, by kind and bucket.
    """
    totals: Counter[tuple[str, str]] = Counter()
    if not beats:
        return totals
    rows = LateMark.objects.filter(bucket__in={beat.bucket for beat in beats})
    marks = dict(rows.values_list("bucket", "offset"))
    sums: dict[Key, Late] = {}
    for beat in beats:
        if beat.offset > marks.get(beat.bucket, -1):
            marks[beat.bucket] = beat.offset
            _add(sums, beat)
            totals.update({(kind, beat.bucket): getattr(beat, kind) for kind in KINDS})
    LateMark.objects.bulk_create(
        [LateMark(bucket=bucket, offset=offset) for bucket, offset in sorted(marks.items())],
        update_conflicts=True,
        unique_fields=["bucket"],
        update_fields=["offset"],
    )
    # In order, so that there is no deadlock.
    execute_many(COUNTED, [(*key, *late) for key, late in sorted(sums.items())])
    return totals


def _add(sums: dict[Key, Late], beat: Heartbeat) -> None:
    at = min(beat.log_time, beat.at)  # a bucket's clock that is ahead says nothing of the hour
    for each in beat.agents:
        if not each.agent or (name_ok(each.agent) and not each.agent.startswith(USER_PREFIX)):
            key = (beat.scenario, each.agent, at // HOUR_MS)
            sums[key] = sums.get(key, NONE).plus(each, at)


# ---- what it comes to ---------------------------------------------------------------------------


class Late(NamedTuple):
    """An agent's reports that came too late; counts as in a heartbeat.

    age: the smallest of those dropped as too old and those that arrived silent, ms, 0 where there
    are none; last: when the newest was reported, ms.
    """

    stale: int = 0
    late: int = 0
    silent: int = 0
    rare: int = 0
    age: int = 0
    last: int = 0

    def plus(self, more: Lateness, at: int) -> Late:
        """Return the sum of this and a heartbeat's counts."""
        ages = [age for age in (self.age, more.age) if age]
        return Late(
            self.stale + more.stale,
            self.late + more.late,
            self.silent + more.silent,
            self.rare + more.rare,
            min(ages, default=0),
            max(self.last, at),
        )

    @property
    def dropped(self) -> int:
        """Return the number that changed nothing: too old, or older than the agent's newest."""
        return self.stale + self.late

    @property
    def all(self) -> int:
        """Return the number that came too late to count as a live vote."""
        return self.stale + self.late + self.silent

    @property
    def old(self) -> int:
        """Return the number too old to count: dropped, or used as the agent's last word alone."""
        return self.stale + self.silent


NONE = Late()


def lately(scenario: Scenario, agents: Iterable[str] | None, now: int) -> dict[str, Late]:
    """Return, by agent, the reports that recently came too late; agents: of these alone."""
    return _sums(scenario, agents, now // HOUR_MS - LATELY_HOURS)


def of_the_day(scenario: Scenario, agents: Iterable[str] | None, now: int) -> dict[str, Late]:
    """Return, by agent, the reports of the last day that came too late; agents: of these alone."""
    return _sums(scenario, agents, now // HOUR_MS - DAY_HOURS + 1)


def _sums(scenario: Scenario, agents: Iterable[str] | None, first: int) -> dict[str, Late]:
    rows = LateHour.objects.filter(scenario=scenario.name, hour__gte=first).exclude(agent="")
    if agents is not None:
        rows = rows.filter(agent__in=list(agents))
    sums = rows.values("agent").annotate(
        Sum("stale"), Sum("late"), Sum("silent"), Sum("rare"),
        least=Min("age", filter=Q(age__gt=0)), newest=Max("last"),
    )  # fmt: skip
    fields = ("stale__sum", "late__sum", "silent__sum", "rare__sum", "least", "newest")
    rows_by_agent = sums.order_by().values_list("agent", *fields)
    return {
        agent: Late(stale, late, silent, rare, least or 0, newest)
        for agent, stale, late, silent, rare, least, newest in rows_by_agent
    }


def clock_now(late: Late, clock: int | None, seen: int) -> int | None:
    """Return how far an agent's clock is off now, ms; below 0: behind; None where nothing shows it.

    clock: by the newest of its votes, which was seen at `seen` (ms). Reports that came too old show
    it where no vote has been seen since.
    """
    if late.old and seen <= late.last + AFTER_MS and (clock is None or -clock < late.age):
        return -late.age
    return clock


def reason(late: Late, clock: int | None) -> str:
    """Return why an agent's reports recently came too late, in words; empty where they did not.

    clock: how far its clock is off now.
    """
    behind = 0 if clock is None else -clock
    if late.old and behind >= late.age:
        return f"clock behind by {span(late.age)}"
    if late.rare and behind > OFF_MS:
        return f"clock behind by {span(behind)}, so its votes live shorter"
    if late.old:
        return f"reports came {span(late.age)} late or more, as from a spool"
    if late.rare:
        return "reports more rarely than its votes live"
    return "reports came twice or out of order" if late.late else ""
