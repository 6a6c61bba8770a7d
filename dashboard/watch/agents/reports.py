"""What agents report: the last report, those too late or refused, and the counts of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from django.db.models import Count, Max, Min, Q, QuerySet, Sum

from dashboard.core.common.metrics import LATE_REPORTS, MetricFamily
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import STATEMENT, chunks, execute_many
from dashboard.core.common.times import HOUR_MS, MINUTE_MS, span
from dashboard.core.states.ingestion import BatchChanges
from dashboard.core.states.models import event_counts, from_zero
from dashboard.watch.agents.models import LateHour, LateMark, LateMinute
from domain.lateness import MAX_AGENTS
from domain.names import USER_PREFIX, name_ok
from domain.scenario import Scenario
from wire.job import AHEAD_MS, Heartbeat, LatenessReport, bucket_name
from wire.sink import StateValue

if TYPE_CHECKING:
    from wire.sink import CauseValue, VoteValue


# ---- last reports --------------------------------------------------------------------------------
# When anybody last reported on a scenario, kept for ever.
#
# Times in Unix ms of the broker's clock: reading a log again gives the same ones.

NEWEST = """\
INSERT INTO agents_lastreport (scenario, at) VALUES (%s, %s)
ON CONFLICT (scenario) DO UPDATE SET at = excluded.at WHERE excluded.at > agents_lastreport.at"""


def keep_last_reports(*newest: Mapping[str, int]) -> None:
    """Store when the newest report on each scenario came, if newer than the stored time."""
    times: dict[str, int] = {}
    for each in newest:
        for scenario, at in each.items():
            times[scenario] = max(at, times.get(scenario, 0))
    execute_many(NEWEST, sorted(times.items()))  # in order, to avoid deadlocks


# ---- late reports --------------------------------------------------------------------------------
# Reports that came too late, were refused or were taken in doubt, as heartbeats count them: stored
# by the materialiser, and summed.
#
# A heartbeat that the job repeats has the same offset as before, and so has one of a later epoch
# that reads the same log; each is counted once, by its bucket's highest offset so far. An epoch
# that begins in the middle of the log cuts its heartbeats elsewhere: at most one second of its
# first counts is counted twice.

DAY_HOURS = 24
LONGEST_LATELY_MS = HOUR_MS
"""An agent's recent reports are those of a vote's lifetime, but of no longer than this."""
USUAL_LATELY_MS = 5 * MINUTE_MS
"""The same period where votes live for ever."""
# A clock that is off by less than this is right: a report takes a moment to arrive.
OFF_MS = 5_000
# A vote seen this long after the last loss shows how the clock is now.
AFTER_MS = MINUTE_MS

SUMMED = ("stale", "late", "silent", "rare", "refused", "doubtful", "detail", "forwarded")
LEAST = ("age", "ahead")
MOST = ("oldest", "last")


def _adding(table: str, unit: str) -> str:
    """Return the statement that adds a row to a table's row for its agent and unit of time."""
    names = ("scenario", "agent", unit, *SUMMED, *LEAST, *MOST, "reason")
    changes = [f"{name} = {table}.{name} + excluded.{name}" for name in SUMMED]
    changes += [
        f"{name} = CASE WHEN excluded.{name} = 0 OR ({table}.{name} > 0"
        f" AND {table}.{name} < excluded.{name}) THEN {table}.{name} ELSE excluded.{name} END"
        for name in LEAST
    ]
    changes += [
        f"{name} = CASE WHEN excluded.{name} > {table}.{name}"
        f" THEN excluded.{name} ELSE {table}.{name} END"
        for name in MOST
    ]
    # Dead letters come in the order of their log: what is added is newer than what is there.
    changes += [
        f"reason = CASE WHEN excluded.reason = '' THEN {table}.reason ELSE excluded.reason END"
    ]
    values = ", ".join(["%s"] * len(names))
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values}) "  # noqa: S608 - our own names
        f"ON CONFLICT (scenario, {unit}, agent) DO UPDATE SET {', '.join(changes)}"
    )


LATE_HOURS, LATE_MINUTES = (
    _adding("agents_latehour", "hour"),
    _adding("agents_lateminute", "minute"),
)

# Scenario, agent and hour or minute.
Key = tuple[str, str, int]

# What heartbeats count, and the names under which a bucket's numbers are kept.
OF_BUCKETS = ("stale", "late", "silent")
KINDS = tuple(kind for kind in SUMMED if kind != "rare")


# ---- what heartbeats tell -----------------------------------------------------------------------


def ingest_late_reports(beats: Sequence[Heartbeat]) -> Counter[tuple[str, str]]:
    """Count the late reports of heartbeats not counted yet, in the order of the log.

    Returns how many more there are, by kind and bucket.
    """
    totals: Counter[tuple[str, str]] = Counter()
    if not beats:
        return totals
    rows = LateMark.objects.filter(bucket__in={beat.bucket for beat in beats})
    marks = dict(rows.values_list("bucket", "offset"))
    hours: dict[Key, Late] = {}
    minutes: dict[Key, Late] = {}
    for beat in beats:
        if beat.offset > marks.get(beat.bucket, -1):
            marks[beat.bucket] = beat.offset
            _add(hours, beat, HOUR_MS)
            _add(minutes, beat, MINUTE_MS)
            totals.update({(kind, beat.bucket): _total(beat, kind) for kind in KINDS})
    LateMark.objects.bulk_create(
        [LateMark(bucket=bucket, offset=offset) for bucket, offset in sorted(marks.items())],
        update_conflicts=True,
        unique_fields=["bucket"],
        update_fields=["offset"],
    )
    _store(hours, minutes)
    return totals


def _store(hours: Mapping[Key, Late], minutes: Mapping[Key, Late]) -> None:
    """Add to the sums, in order, to avoid deadlocks."""
    execute_many(LATE_HOURS, [(*key, *late) for key, late in sorted(hours.items())])
    execute_many(LATE_MINUTES, [(*key, *late) for key, late in sorted(minutes.items())])


UNNAMED = "(no agent)"
"""The agent to which refused records count that name none."""
OTHERS = "(other agents)"
"""The agent to which refused records count whose agents get no row of their own."""
NAMELESS = (UNNAMED, OTHERS)
"""What no record names as its agent."""


class Refusal(NamedTuple):
    """A record of an agent that was refused, as its dead letter tells.

    agent: as far as that can be read; reason: of DEAD_LETTER_REASONS; at: when it was appended,
    Unix ms; counted: heartbeats count it as well.
    """

    scenario: str
    agent: str
    reason: str
    at: int
    counted: bool = False


def ingest_refusals(refusals: Iterable[Refusal]) -> None:
    """Count refused reports by agent, each of them once."""
    hours: dict[Key, Late] = {}
    minutes: dict[Key, Late] = {}
    for each in _in_order(_under_names(refusals)):
        for sums, unit in ((hours, HOUR_MS), (minutes, MINUTE_MS)):
            key = (each.scenario, each.agent, each.at // unit)
            sums[key] = sums.get(key, NONE).plus_refused(each)
    _store(hours, minutes)


def _in_order(refusals: Iterable[Refusal]) -> list[Refusal]:
    """Return refusals, the newest last; of those of one time the most frequent reason last."""
    given = list(refusals)
    often = Counter((each.scenario, each.agent, each.reason) for each in given)
    return sorted(given, key=lambda each: (each.at, often[each.scenario, each.agent, each.reason]))


def _under_names(refusals: Iterable[Refusal]) -> Iterator[Refusal]:
    """Yield refusals with the agents under which they count."""
    by_hour: dict[tuple[str, int], list[Refusal]] = {}
    for each in refusals:
        by_hour.setdefault((each.scenario, each.at // HOUR_MS), []).append(each)
    for (scenario, hour), own in by_hour.items():
        names = RefusedNames(scenario, hour, own)
        yield from (each._replace(agent=names.counted(each)) for each in own)


class RefusedNames:
    """The agents of a scenario whose refused records of an hour count under their own names.

    What cannot be read may name anything, another agent in each record: no more than MAX_AGENTS
    get a row in a minute, as in a heartbeat. Those with a row of this hour go on counting there.
    """

    def __init__(self, scenario: str, hour: int, refusals: Sequence[Refusal]) -> None:
        of_hour = LateHour.objects.filter(scenario=scenario, hour=hour)
        claimed = sorted({each.agent for each in refusals})
        self._known: set[str] = set()
        for names in chunks(claimed, STATEMENT):
            rows = of_hour.filter(agent__in=names)
            self._known.update(rows.values_list("agent", flat=True))
        minutes = {each.at // MINUTE_MS for each in refusals}
        of_minutes = LateMinute.objects.filter(scenario=scenario, minute__in=minutes)
        refused = of_minutes.exclude(reason="").exclude(agent__in=NAMELESS)
        self._refused: dict[int, set[str]] = {minute: set() for minute in minutes}
        for minute, agent in refused.values_list("minute", "agent"):
            self._refused[minute].add(agent)

    def counted(self, refusal: Refusal) -> str:
        """Return the agent under which a refusal counts."""
        if not _named(refusal.agent):
            return UNNAMED
        refused = self._refused[refusal.at // MINUTE_MS]
        if refusal.agent not in self._known and len(refused) >= MAX_AGENTS:
            return OTHERS
        self._known.add(refusal.agent)
        refused.add(refusal.agent)
        return refusal.agent


def newest_late_reports(beats: Iterable[Heartbeat]) -> dict[str, int]:
    """Return when the newest late, refused or doubtful report came, by scenario."""
    times: dict[str, int] = {}
    for beat in beats:
        if any(_counts(each.agent) for each in beat.agents):
            times[beat.scenario] = max(_at(beat), times.get(beat.scenario, 0))
    return times


def _total(beat: Heartbeat, kind: str) -> int:
    """Return how many reports of a kind a heartbeat counts; it sums the first three itself."""
    if kind in OF_BUCKETS:
        return int(getattr(beat, kind))
    return sum(getattr(each, kind) for each in beat.agents)


def _add(sums: dict[Key, Late], beat: Heartbeat, unit: int) -> None:
    at = _at(beat)
    for each in beat.agents:
        if _counts(each.agent):
            key = (beat.scenario, each.agent, at // unit)
            sums[key] = sums.get(key, NONE).plus(each, at)


def _at(beat: Heartbeat) -> int:
    return min(beat.log_time, beat.at)  # a bucket's clock that is ahead does not tell the hour


def _counts(agent: str) -> bool:
    return not agent or (name_ok(agent) and not agent.startswith(USER_PREFIX))


# ---- what it comes to ---------------------------------------------------------------------------


class Late(NamedTuple):
    """An agent's reports that came too late, were refused or in doubt.

    The counts are those of a heartbeat. age, oldest: the smallest and the largest age of those
    dropped as too old and those that arrived silent, ms; ahead: the least time by which reports
    were too far ahead, ms; 0 if there are none; last: when the newest was reported, ms; reason: the
    newest for which reports were refused, or "".
    """

    stale: int = 0
    late: int = 0
    silent: int = 0
    rare: int = 0
    refused: int = 0
    doubtful: int = 0
    detail: int = 0
    forwarded: int = 0
    age: int = 0
    ahead: int = 0
    oldest: int = 0
    last: int = 0
    reason: str = ""

    def plus_refused(self, refusal: Refusal) -> Late:
        """Return the sum of this and a newer report of which its dead letter tells."""
        return self._replace(
            refused=self.refused + (not refusal.counted),
            last=max(self.last, refusal.at),
            reason=refusal.reason,
        )

    def plus(self, more: LatenessReport, at: int) -> Late:
        """Return the sum of this and a heartbeat's counts."""
        sums = {name: getattr(self, name) + getattr(more, name) for name in SUMMED}
        bounds = {
            "age": _least(self.age, more.age),
            "ahead": _least(self.ahead, more.ahead),
            "oldest": max(self.oldest, more.age),
            "last": max(self.last, at),
        }
        return self._replace(**sums | bounds)

    @property
    def dropped(self) -> int:
        """Return how many changed nothing: too old, or older than the agent's newest."""
        return self.stale + self.late

    @property
    def all(self) -> int:
        """Return how many came too late to count as a live vote."""
        return self.stale + self.late + self.silent

    @property
    def old(self) -> int:
        """Return how many were too old to count: dropped, or used only as the agent's last word."""
        return self.stale + self.silent


NONE = Late()


def _least(*times: int) -> int:
    return min(filter(None, times), default=0)


class LatePeriod(NamedTuple):
    """The first and last minute in which an agent had reports of a kind, and how many did."""

    first: int | None = None
    last: int | None = None
    minutes: int = 0

    @property
    def since(self) -> int:
        """When the first minute began, Unix ms; 0 if there is none."""
        return (self.first or 0) * MINUTE_MS


class Lately(NamedTuple):
    """An agent's recent late reports, and the minutes in which they came."""

    sums: Late = NONE
    runs: Mapping[str, LatePeriod] = {}

    def run(self, kind: str) -> LatePeriod:
        """Return when there were reports of a kind: one of SUMMED, or `old`."""
        return self.runs.get(kind, LatePeriod())


_RUNS = {
    "old": Q(stale__gt=0) | Q(silent__gt=0),
    **{kind: Q(**{f"{kind}__gt": 0}) for kind in SUMMED if kind not in ("stale", "silent")},
}


def lately_ms(scenario: Scenario) -> int:
    """Return for how long an agent's reports still say how it is doing, ms."""
    if scenario.lifetime is None:
        return USUAL_LATELY_MS
    return min(max(scenario.lifetime, MINUTE_MS), LONGEST_LATELY_MS)


def lately(scenario: Scenario, agents: Iterable[str] | None, now: int) -> dict[str, Lately]:
    """Return the recent late reports by agent. agents: only these."""
    begin = (now - lately_ms(scenario)) // MINUTE_MS
    rows = _of(LateMinute.objects.filter(minute__gte=begin), scenario, agents)
    times = {
        f"{kind}_{name}": made("minute", filter=condition)
        for kind, condition in _RUNS.items()
        for name, made in (("first", Min), ("last", Max), ("minutes", Count))
    }
    reasons = _newest_reasons(rows)
    return {
        row["agent"]: Lately(_late(row, reasons.get(row["agent"], "")), _runs(row))
        for row in rows.values("agent").annotate(**_sums(), **times).order_by()
    }


def _newest_reasons(rows: QuerySet[Any]) -> dict[str, str]:
    """Return why reports were refused last, by agent: of rows as new, that with the most."""
    told = rows.exclude(reason="").order_by("last", "refused", "pk")
    return dict(told.values_list("agent", "reason"))


def of_the_day(scenario: Scenario, agents: Iterable[str] | None, now: int) -> dict[str, Late]:
    """Return the late reports of the last day by agent, without reasons. agents: only these."""
    begin = now // HOUR_MS - DAY_HOURS + 1
    rows = _of(LateHour.objects.filter(hour__gte=begin), scenario, agents)
    return {row["agent"]: _late(row) for row in rows.values("agent").annotate(**_sums()).order_by()}


def _of(rows: QuerySet[Any], scenario: Scenario, agents: Iterable[str] | None) -> QuerySet[Any]:
    rows = rows.filter(scenario=scenario.name).exclude(agent="")
    return rows if agents is None else rows.filter(agent__in=list(agents))


def _sums() -> dict[str, Any]:
    """Return the aggregates of an agent's rows, under names that no column has."""
    made: dict[str, Any] = {f"sum_{name}": Sum(name) for name in SUMMED}
    made |= {f"sum_{name}": Min(name, filter=Q(**{f"{name}__gt": 0})) for name in LEAST}
    return made | {f"sum_{name}": Max(name) for name in MOST}


def _late(row: Mapping[str, Any], reason: str = "") -> Late:
    given = {name: row[f"sum_{name}"] for name in (*SUMMED, *LEAST, *MOST)}
    known = {name: value for name, value in given.items() if value is not None}
    return Late(**known, reason=reason)


def _runs(row: Mapping[str, Any]) -> dict[str, LatePeriod]:
    return {
        kind: LatePeriod(*(row[f"{kind}_{name}"] for name in LatePeriod._fields))
        for kind in _RUNS
        if row[f"{kind}_minutes"]
    }


# ---- why ----------------------------------------------------------------------------------------

Cause = Literal["behind", "spool", "shorter", "rare", "late"]
"""Why reports came too late.

behind, shorter: a clock that is behind costs votes, or makes them live shorter; spool: a spool was
sent; rare: the agent reports more rarely than its votes live; late: twice or out of order.
"""


def clock_now(late: Late, clock: int | None, seen: int) -> int | None:
    """Return how far an agent's clock is off now, ms; negative if behind; None if nothing shows it.

    clock: in the newest of its votes, which was seen at `seen` (ms). Reports that came too old show
    the offset if no vote has been seen since.
    """
    if late.old and seen <= late.last + AFTER_MS and (clock is None or -clock < late.age):
        return -late.age
    return clock


def cause_of_lateness(late: Late, clock: int | None) -> tuple[Cause, int] | None:
    """Return why an agent's reports came too late, and the time that shows it, ms, or 0.

    Returns None if they did not. clock: how far its clock is off now, ms.
    """
    behind = 0 if clock is None else -clock
    if late.old and behind >= late.age:
        return "behind", late.age
    if late.rare and behind > OFF_MS:
        return "shorter", behind
    if late.old:
        return "spool", late.age
    if late.rare:
        return "rare", 0
    return ("late", 0) if late.late else None


_REASONS: Mapping[Cause, str] = {
    "behind": "clock behind by {}",
    "shorter": "clock behind by {}, so its votes expire early",
    "spool": "reports came {} late or more, as from a spool",
    "rare": "reports too rarely: its votes expire in between",
    "late": "reports came twice or out of order",
}


def reason(late: Late, clock: int | None) -> str:
    """Return why an agent's reports came too late, in words; empty if they did not."""
    cause = cause_of_lateness(late, clock)
    return _REASONS[cause[0]].format(span(cause[1])) if cause else ""


# ---- report counts -------------------------------------------------------------------------------
# The materialiser's counts of agents, in its own transaction, summed in memory for each batch.

# A time from a bucket whose clock was ahead does not prevent later times from being stored.
SEEN = """\
INSERT INTO agents_agent (scenario, agent, first_seen, last_seen, clock)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (scenario, agent) DO UPDATE SET
gap = CASE WHEN excluded.last_seen <= agents_agent.last_seen THEN agents_agent.gap
WHEN agents_agent.gap = 0 THEN excluded.last_seen - agents_agent.last_seen
ELSE (4 * agents_agent.gap + excluded.last_seen - agents_agent.last_seen) / 5 END,
last_seen = excluded.last_seen, clock = excluded.clock
WHERE excluded.last_seen - agents_agent.last_seen >= 1000 OR agents_agent.last_seen > %s"""

LEFT = """\
UPDATE agents_agent SET left_at = %s WHERE scenario = %s AND agent = %s AND left_at < %s"""

AGENT_HOURS = """\
INSERT INTO agents_agenthour (scenario, agent, hour, records, changes) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (scenario, hour, agent) DO UPDATE SET
records = agents_agenthour.records + excluded.records,
changes = agents_agenthour.changes + excluded.changes"""

NEVER = (-1, 0)


class ReportCounts:
    """The counts of agents in a batch's new records. Times in ms of the broker's clock."""

    def __init__(self) -> None:
        self._hours: dict[tuple[str, str, int], list[int]] = {}
        self._seen: dict[str, dict[str, tuple[int, int]]] = {}
        self._left: dict[tuple[str, str], int] = {}

    def record(self, scenario: str, cause: CauseValue, changed: bool) -> None:
        """Count a new record. changed: whether it changed the state."""
        hour = cause.time // HOUR_MS
        self._add((scenario, "", hour), changed)
        if cause.agent and cause.type == "report":
            self._add((scenario, cause.agent, hour), changed)
        elif cause.agent and cause.type == "leave":
            self._left[scenario, cause.agent] = cause.time

    def votes(self, scenario: str, votes: Iterable[VoteValue]) -> None:
        """Count the votes of an asset's newest record: each agent was seen, with its clock."""
        seen = self._seen.setdefault(scenario, {})
        for vote in votes:
            agent, at = vote.agent, vote.time
            if at > seen.get(agent, NEVER)[0]:
                seen[agent] = (at, vote.reported_at - at)

    def _add(self, key: tuple[str, str, int], changed: bool) -> None:
        counts = self._hours.get(key)
        if counts is None:
            self._hours[key] = [1, int(changed)]
        else:
            counts[0] += 1
            counts[1] += changed

    def write(self, now: int) -> None:
        """Add all counts to the tables, in order to avoid deadlocks."""
        limit = now + AHEAD_MS
        execute_many(
            SEEN,
            [
                (scenario, agent, at, at, off if at <= limit else None, limit)
                for scenario, of_scenario in sorted(self._seen.items())
                for agent, (at, off) in sorted(of_scenario.items())
                if _named(agent)
            ],
        )
        left = sorted(self._left.items())
        execute_many(LEFT, [(at, *agent, at) for agent, at in left if at <= limit])
        hours = sorted(self._hours.items())
        execute_many(AGENT_HOURS, [(*key, *n) for key, n in hours if not key[1] or _named(key[1])])

    def newest(self, now: int) -> dict[str, int]:
        """Return when the newest report on each scenario came, ignoring times ahead of `now`."""
        times: dict[str, int] = {}
        for scenario, seen in self._seen.items():
            for agent, (at, _) in seen.items():
                if at <= now + AHEAD_MS and _named(agent):
                    times[scenario] = max(at, times.get(scenario, 0))
        return times


def _named(agent: str) -> bool:
    return name_ok(agent) and not agent.startswith(USER_PREFIX)


def ingest_changes(changes: BatchChanges) -> None:
    """Count the agents' reports in a batch."""
    counts = ReportCounts()
    for scenario, seen, before, after in changes.records:
        counts.record(scenario.name, seen.shape.cause, after.state != before.shown.state)
    for name, newest in changes.newest.items():
        for seen in newest.values():
            if isinstance(seen.shape, StateValue):
                counts.votes(name, seen.shape.votes)
    counts.write(changes.now)
    changes.reported = counts.newest(changes.now)


def ingest_lateness(changes: BatchChanges) -> None:
    """Count the late reports in a batch, and store when the newest report came."""
    late = changes.batch.late
    # Of a log that was created again the first heartbeat counts, whatever its offset.
    LateMark.objects.filter(bucket__in=[beat.bucket for beat in changes.replaced]).delete()
    changes.batch.counted.update(ingest_late_reports(late))
    keep_last_reports(changes.reported, newest_late_reports(late))


def metrics() -> Iterator[MetricFamily]:
    """Yield how many reports came too late or were refused."""
    kept = event_counts()
    names = [bucket_name(s.name, at) for s in scenarios().values() for at in range(s.partitions)]
    yield LATE_REPORTS.family(
        ((*bucket.split("/"), kind), n)
        for kind in KINDS
        for bucket, n in from_zero(kept, kind, names)
    )
