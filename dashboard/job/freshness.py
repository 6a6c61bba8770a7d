"""Troubles that keep the board from being fresh, and what to do about them.

A pure function over what a web process has heard; that a browser is cut off only the browser
knows. Times in Unix ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

from dashboard.core.times import HOUR_MS, MINUTE_MS, span
from dashboard.job.agent_findings import AgentNews, lines
from domain.scenario import Scenario
from wire.job import ClockBehind, bucket_name

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
"""Agents of a life cycle that have been silent for longer than this are not expected any more."""
NAMED = 3
"""Most partitions that are named."""
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
class Facts:
    """The facts that a web process has heard.

    reached: when it last was at the end of the log, None before the first time; unwritten: when
    the oldest heartbeat was appended that the database lacks, None if it lacks none; beats: by
    bucket; talks: by scenario; pauses: by query, those that were stopped on purpose; rebuilds: by
    query, those that read their log again on purpose; agents: what there is to say of agents;
    clocks_behind: by bucket, where the broker's clock is behind the job's own.
    """

    reached: int | None = None
    unwritten: int | None = None
    beats: Mapping[str, Beat] = field(default_factory=dict)
    talks: Mapping[str, Talk] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    rebuilds: Mapping[str, Pause] = field(default_factory=dict)
    agents: AgentNews = field(default_factory=AgentNews)
    clocks_behind: Mapping[str, ClockBehind] = field(default_factory=dict)


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
    brokers = _slow_brokers(facts, here, others)
    return [
        *_ahead(facts, here, stale=True),
        *(trouble for trouble in brokers if trouble["stale"]),
        *first,
        *_agents(facts, here, now),
        *_database(facts, now),
        *_ahead(facts, others, stale=False),
        *(trouble for trouble in brokers if not trouble["stale"]),
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
            what=f"No time passes in {named(list(beats))}: {its} {furthest} ahead",
            since=min(beat.ahead_since or 0 for beat in beats.values()),
            todo="A broker's clock was wrong. No vote falls silent and no hold or override ends "
            "until that time is past: set the broker's clock, then have the log read again with a "
            "bound on its times.",
            link=REPLAY,
            stale=stale,
        )
    ]


def _slow_brokers(
    facts: Facts, here: Sequence[Scenario], others: Sequence[Scenario]
) -> list[Trouble]:
    """Return the trouble of a broker's clock that is behind: one, whatever that broker stamps."""
    names = _buckets([*here, *others])
    clocks = {n: facts.clocks_behind[n] for n in names if n in facts.clocks_behind}
    if not clocks:
        return []
    furthest = furthest_behind(clocks.values())
    what = f"The broker's clock is {furthest} behind"
    if len(clocks) < len(names):
        what = f"A broker's clock is {furthest} behind in {named(list(clocks))}"
    return [
        Trouble(
            kind="clock",
            what=what,
            since=min(clock.since for clock in clocks.values()),
            todo="Agents look as if their clocks were ahead. No vote falls silent and no hold or "
            "override ends until it has passed where it was: set the broker's clock. Nothing has "
            "to be read again.",
            link=JOB,
            stale=not clocks.keys().isdisjoint(_buckets(here)),
        )
    ]


def furthest_behind(clocks: Iterable[ClockBehind]) -> str:
    """Return in words how far the furthest of these clocks is behind.

    What was measured lacks the milliseconds that a tick was on its way: 10 min are not 9.
    """
    return span(round(max(clock.by for clock in clocks), -3))


def _buckets(scenarios: Iterable[Scenario]) -> list[str]:
    return [bucket_name(s.name, number) for s in scenarios for number in range(s.partitions)]


def _late(facts: Facts, scenarios: Iterable[Scenario], now: int, *, stale: bool) -> list[Trouble]:
    """Return the trouble of buckets whose clock is behind, or that have never been heard of.

    One that is no further behind than its broker's clock has applied all that there is.
    """
    names = _buckets(scenarios)
    clocks = {name: facts.beats[name].log_time for name in names if name in facts.beats}
    slow = {name: clock.by for name, clock in facts.clocks_behind.items()}
    late = [name for name in names if now - clocks.get(name, 0) > LATE_MS + slow.get(name, 0)]
    if not late:
        return []
    query = next((facts.beats[name].engine for name in late if name in facts.beats), "")
    if query in facts.rebuilds:
        return [_rebuild(facts.rebuilds[query], stale=stale)]
    since = min((clocks[name] for name in late if name in clocks), default=None)
    what = f"The job is behind in {named(late)}"
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


def named(names: Sequence[str]) -> str:
    """Return partitions in words: the first ones by name, and how many more."""
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"


def _database(facts: Facts, now: int) -> list[Trouble]:
    if facts.unwritten is None or now - facts.unwritten <= DATABASE_LATE_MS:
        return []
    what, since = "The database is behind the log", facts.unwritten
    todo = "History and outcomes of commands come late: check that the materialiser runs."
    return [Trouble(kind="database", what=what, since=since, todo=todo, link=READY, stale=False)]


def _agents(facts: Facts, scenarios: Iterable[Scenario], now: int) -> list[Trouble]:
    """Return the trouble of scenarios whose agents are silent for unusually long, and of agents
    with which something is wrong."""
    troubles = []
    for scenario in scenarios:
        talk = _talk(facts, scenario.name)
        if talk is not None and _unusual(talk, now, for_ever=scenario.name in facts.agents.last):
            troubles.append(_silence(scenario, talk))
        for what, since, todo, link in lines(scenario, facts.agents.findings):
            trouble = Trouble(
                kind="agents", what=what, since=since, todo=todo, link=link, stale=False
            )
            troubles.append(trouble)
    return troubles


def _talk(facts: Facts, scenario: str) -> Talk | None:
    """Return when a scenario's agents last reported: as heard, or else as the database has it."""
    seen = facts.agents.last.get(scenario)
    return facts.talks.get(scenario) or (seen and Talk(seen.at, seen.gap))


def _unusual(talk: Talk, now: int, *, for_ever: bool) -> bool:
    """Return whether a silence is unusual. for_ever: whether it stays so however long it lasts."""
    ago = now - talk.last
    return max(QUIET_MS, UNUSUAL * talk.usual) < ago and (for_ever or ago < EXPECTED_MS)


def _silence(scenario: Scenario, talk: Talk) -> Trouble:
    what = f"{scenario.title}: no agent has reported"
    todo = "States are kept, and votes expire: check that the agents run and reach Kafka."
    return Trouble(kind="agents", what=what, since=talk.last, todo=todo, link=None, stale=False)
