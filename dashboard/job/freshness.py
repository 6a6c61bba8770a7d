"""Troubles that keep the board from being fresh, and what to do about them.

A pure function over what a web process has heard; that a browser is cut off only the browser
knows. Times in Unix ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

from dashboard.core.bidi import isolated
from dashboard.core.paths import agent_path
from dashboard.core.times import HOUR_MS, MINUTE_MS, span
from domain.scenario import Scenario
from wire.job import bucket_name

SILENT_MS = 5_000
"""Heartbeats come each second: a job without one for so long is stalled."""
REBUILD_SILENT_MS = MINUTE_MS
"""One that begins its log again may take so long until it is heard of."""
LATE_MS = 10_000
"""Ticks move a bucket's clock four times a second: one so far behind is late."""
WEB_LATE_MS = 5_000
"""So long after it last reached the end of the log, a web process shows old rows."""
DATABASE_LATE_MS = 5_000
"""So long after it was appended, the database should hold a heartbeat."""
QUIET_MS = MINUTE_MS
"""Shorter than this is no silence of a scenario's agents."""
UNUSUAL = 3
"""Nor is a silence of less than so many times the usual one."""
EXPECTED_MS = 24 * HOUR_MS
"""Agents that have been silent for longer than this are not expected any more."""
NAMED = 3
"""Most partitions that are named."""
LOSING_MS = 5 * MINUTE_MS
"""An agent whose reports came too old no longer ago than this loses votes now."""
LOOKED_AT_MS = 15 * MINUTE_MS
"""Of so long it is looked how old they came."""
LEAST_MINUTES = 2
"""In fewer minutes of it than this, they may have come from a spool."""
SPREAD_MS, SPREAD_PART = 20_000, 0.1
"""By a clock that is behind they are equally old, but for so much, or such a part of it."""

Kind = Literal["kafka", "web", "clock", "job", "database", "agents"]


class Trouble(TypedDict):
    """One thing that keeps the board from being fresh: since when (or None) and what to do.

    link: an address and its text, or None; stale: the rows of this board are as they were then.
    """

    kind: Kind
    what: str
    since: int | None
    todo: str
    link: tuple[str, str] | None
    stale: bool


@dataclass(frozen=True, slots=True)
class Beat:
    """The newest heartbeat of a bucket: when it was appended, and the bucket's clock in it.

    engine: whose it is; a query is one engine's. ahead: how far the bucket's clock is ahead of the
    job's own, ms; ahead_since: since when by too much, None where it is not.
    """

    heard: int
    log_time: int
    engine: str = field(default="", compare=False)
    ahead: int = 0
    ahead_since: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A query that was stopped, or begun again, on purpose: by whom, since when and why."""

    user: str
    since: int
    reason: str


@dataclass(frozen=True, slots=True)
class Talk:
    """The time of a scenario's agents' last report, and how long they usually pause."""

    last: int
    usual: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """Reports of an agent that came too old to count, by the minute in which they came.

    since: when that began, without a pause of LOSING_MS; last: the newest; ages: by minute, the
    least and the greatest that heartbeats reported, ms.
    """

    scenario: str
    agent: str
    since: int
    last: int
    ages: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a web process has heard.

    reached: when it last was at the end of the log, None before the first time; unwritten: when
    the oldest heartbeat was appended that the database lacks, None if it lacks none; beats: by
    bucket; talks: by scenario; pauses: by query, those that were stopped on purpose; rebuilds: by
    query, those that read their log again on purpose; losses: of agents whose reports came too old.
    """

    reached: int | None = None
    unwritten: int | None = None
    beats: Mapping[str, Beat] = field(default_factory=dict)
    talks: Mapping[str, Talk] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    rebuilds: Mapping[str, Pause] = field(default_factory=dict)
    losses: Sequence[Loss] = ()


READY = ("/readyz", "What is missing")
JOB = ("/job/", "The job's page")
REPLAY = ("/replay/", "Replay")


def find_troubles(
    facts: Facts, scenarios: Sequence[Scenario], current: str, now: int
) -> list[Trouble]:
    """Return all troubles, the most important first, with those of the `current` scenario on top.

    A web process that is behind cannot judge the job, and a silent job says nothing of agents.
    """
    if web := _web(facts, now):
        return web
    if facts.pauses:
        return _paused(facts, scenarios, current, now)
    if job := _silent_job(facts, now):
        return job + _database(facts, now)
    return _fresh(facts, scenarios, current, now)


def _paused(facts: Facts, scenarios: Sequence[Scenario], current: str, now: int) -> list[Trouble]:
    """Return the troubles while queries are stopped on purpose.

    That is no fault; what the other queries carry is judged as ever.
    """
    by = {name.partition("/")[0]: beat.engine for name, beat in facts.beats.items()}
    troubles = [
        _pause(pause, stale=by.get(current, query) == query)
        for query, pause in facts.pauses.items()
    ]
    going = [s for s in scenarios if by.get(s.name, "") not in ("", *facts.pauses)]
    if going:
        beats = {n: beat for n, beat in facts.beats.items() if beat.engine not in facts.pauses}
        rest = replace(facts, beats=beats, pauses={})
        troubles += _silent_job(rest, now) or _fresh(rest, going, current, now)
    return sorted(troubles, key=lambda trouble: not trouble["stale"])


def _pause(pause: Pause, *, stale: bool) -> Trouble:
    return Trouble(
        kind="job",
        what=f"The job was stopped by {pause.user}",
        since=pause.since,
        todo=f"{pause.reason.rstrip('.')}. States stand as they are until an admin starts it.",
        link=JOB,
        stale=stale,
    )


def _fresh(facts: Facts, scenarios: Sequence[Scenario], current: str, now: int) -> list[Trouble]:
    """Return the troubles while the job is heard of."""
    here = [scenario for scenario in scenarios if scenario.name == current]
    others = [scenario for scenario in scenarios if scenario.name != current]
    first = _late(facts, here, now, stale=True)
    known = {trouble["what"] for trouble in first}  # one rebuild is one, whatever it carries
    return [
        *_ahead(facts, here, stale=True),
        *first,
        *_agents(facts, here, now),
        *_database(facts, now),
        *_ahead(facts, others, stale=False),
        *(t for t in _late(facts, others, now, stale=False) if t["what"] not in known),
        *_agents(facts, others, now),
    ]


def _web(facts: Facts, now: int) -> list[Trouble]:
    if facts.reached is None or now - facts.reached <= WEB_LATE_MS:
        return []
    what = "This server is behind the log"
    todo = "States are as of then. It catches up by itself; if not, look at its log."
    return [Trouble(kind="web", what=what, since=facts.reached, todo=todo, link=None, stale=True)]


def _silent_job(facts: Facts, now: int) -> list[Trouble]:
    heard = max((beat.heard for beat in facts.beats.values()), default=None)
    if heard is not None and now - heard <= (REBUILD_SILENT_MS if facts.rebuilds else SILENT_MS):
        return []
    todo = "States are as of then: check that the job and Kafka run."
    if heard is None:
        todo = "No report counts until it runs."
        what = "No heartbeat has come from the job yet"
        return [Trouble(kind="job", what=what, since=None, todo=todo, link=READY, stale=True)]
    what = "The job has not answered"
    return [Trouble(kind="job", what=what, since=heard, todo=todo, link=READY, stale=True)]


def _ahead(facts: Facts, scenarios: Iterable[Scenario], *, stale: bool) -> list[Trouble]:
    """Return the trouble of buckets whose clock is ahead of the job's own.

    Until that is past, no time passes there.
    """
    names = _buckets(scenarios)
    beats = {n: facts.beats[n] for n in names if n in facts.beats and facts.beats[n].ahead_since}
    if not beats:
        return []
    furthest = span(max(beat.ahead for beat in beats.values()))
    its = "its clock is" if len(beats) == 1 else "their clocks are up to"
    return [
        Trouble(
            kind="clock",
            what=f"No time passes in {_named(list(beats))}: {its} {furthest} ahead",
            since=min(beat.ahead_since or 0 for beat in beats.values()),
            todo="A broker's clock was wrong. No vote falls silent and no hold or override ends "
            "until that time is past: set the broker's clock, then have the log read again with a "
            "bound on its times.",
            link=REPLAY,
            stale=stale,
        )
    ]


def _buckets(scenarios: Iterable[Scenario]) -> list[str]:
    return [bucket_name(s.name, number) for s in scenarios for number in range(s.partitions)]


def _late(facts: Facts, scenarios: Iterable[Scenario], now: int, *, stale: bool) -> list[Trouble]:
    """Return the trouble of buckets whose clock is behind, or that have never been heard of."""
    names = _buckets(scenarios)
    clocks = {name: facts.beats[name].log_time for name in names if name in facts.beats}
    late = [name for name in names if now - clocks.get(name, 0) > LATE_MS]
    if not late:
        return []
    query = next((facts.beats[name].engine for name in late if name in facts.beats), "")
    if query in facts.rebuilds:
        return [_rebuild(facts.rebuilds[query], stale=stale)]
    since = min((clocks[name] for name in late if name in clocks), default=None)
    what = f"The job is behind in {_named(late)}"
    todo = "Its states are as of then. It catches up by itself unless a process is missing."
    return [Trouble(kind="job", what=what, since=since, todo=todo, link=READY, stale=stale)]


def _rebuild(pause: Pause, *, stale: bool) -> Trouble:
    return Trouble(
        kind="job",
        what=f"The job is rebuilding its states, as {pause.user} asked",
        since=pause.since,
        todo=f"{pause.reason.rstrip('.')}. The board shows what it showed before until it is done.",
        link=JOB,
        stale=stale,
    )


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"


def _database(facts: Facts, now: int) -> list[Trouble]:
    if facts.unwritten is None or now - facts.unwritten <= DATABASE_LATE_MS:
        return []
    what, since = "The database is behind the log", facts.unwritten
    todo = "History and outcomes of commands come late: check that the materialiser runs."
    return [Trouble(kind="database", what=what, since=since, todo=todo, link=READY, stale=False)]


def _agents(facts: Facts, scenarios: Iterable[Scenario], now: int) -> list[Trouble]:
    """Return the trouble of agents that are silent for unusually long, or whose clocks cost
    votes."""
    troubles = []
    for scenario in scenarios:
        if scenario.name in facts.talks and _unusual(facts.talks[scenario.name], now):
            troubles.append(_silence(scenario, facts.talks[scenario.name]))
        losing = [(each, age) for each in facts.losses if each.scenario == scenario.name
                  and (age := _behind(each, now)) is not None]  # fmt: skip
        if losing:
            troubles.append(_losing(scenario, losing))
    return troubles


def _behind(loss: Loss, now: int) -> int | None:
    """Return how far an agent's clock is behind, ms, by the reports that it loses; None if none.

    What a spool sends late is of any age, and is no fault.
    """
    ages = [ages for minute, ages in loss.ages.items() if now - minute * MINUTE_MS <= LOOKED_AT_MS]
    if now - loss.last > LOSING_MS or len(ages) < LEAST_MINUTES:
        return None
    least, greatest = min(age for age, _ in ages), max(age for _, age in ages)
    return least if greatest - least <= max(SPREAD_MS, SPREAD_PART * least) else None


def _losing(scenario: Scenario, losses: list[tuple[Loss, int]]) -> Trouble:
    loss, age = max(losses, key=lambda each: each[1])
    agent, others = isolated(loss.agent), len(losses) - 1
    what = f"{scenario.title}: the clock of {agent} is {span(age)} behind"
    todo = "Its reports come too old to count as votes: set its clock."
    link = (agent_path(scenario.name, loss.agent), "The agent's page")
    if others:
        what = f"{what}, and of {others} more agent{'' if others == 1 else 's'}"
        todo = "Their reports come too old to count as votes: set their clocks."
        link = (f"/agents/?scenario={scenario.name}", "The agents")
    since = min(each.since for each, _ in losses)
    return Trouble(kind="agents", what=what, since=since, todo=todo, link=link, stale=False)


def _unusual(talk: Talk, now: int) -> bool:
    return max(QUIET_MS, UNUSUAL * talk.usual) < now - talk.last < EXPECTED_MS


def _silence(scenario: Scenario, talk: Talk) -> Trouble:
    what = f"{scenario.title}: no agent has reported"
    todo = "States are kept, and votes expire: check that the agents run and reach Kafka."
    return Trouble(kind="agents", what=what, since=talk.last, todo=todo, link=None, stale=False)
