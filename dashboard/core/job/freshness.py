"""Problems that keep the board from being fresh, and what to do about them.

A pure function over what a web process has received; that a browser is cut off only the browser
knows. Times in Unix ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypedDict, get_args

from config.jobs import MAIN, process_of, words_of
from dashboard.core.common.access import Role
from dashboard.core.common.times import HOUR_MS, MINUTE_MS, span
from dashboard.core.job.agent_findings import AgentNews, LastSeen, lines
from domain.scenario import Scenario
from wire.job import ClockBehind, bucket_name, job_of

SILENT_MS = 5_000
"""Heartbeats come each second: a job without one for so long is stalled."""
REBUILD_SILENT_MS = MINUTE_MS
"""One that begins its log again may take so long until it is heard of."""
BEGIN_MS = 20_000
"""One that somebody has started may take so long."""
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
USUAL_MOST_MS = HOUR_MS
"""Of what heartbeats show as usual, no more than this counts: a rule's record is one, too."""
NAMED = 3
"""Most partitions that are named."""
Kind = Literal[
    "kafka",
    "web",
    "job",
    "stopped",
    "behind",
    "dropped",
    "clock",
    "rebuild",
    "late",
    "agents",
    "database",
]
ORDER: tuple[Kind, ...] = get_args(Kind)
"""The kinds of problem, the most severe first; what makes a board's rows stale comes before what
does not."""
STANDSTILL: frozenset[Kind] = frozenset(("kafka", "web", "job", "stopped", "behind"))
"""While one of these lasts nothing on a page is live, whatever its socket says."""


class Link(NamedTuple):
    """Where something can be done about a problem, the text of it, and who may open it."""

    address: str
    text: str
    roles: tuple[Role, ...]


class BoardProblem(TypedDict):
    """One thing that keeps the board from being fresh: since (or at) when, and what it means.

    since: None where it is not known; quote: somebody's reason for it; call: whom to call, for
    those who are no admin; details: what an admin needs to know; links: a reader's is the first
    that is open to their role; stale: the rows of the board are as they were then; scenario: whose
    problem it is, empty for everybody's.
    """

    kind: Kind
    what: str
    when: Literal["since", "at"]
    since: int | None
    quote: str
    todo: str
    call: str
    details: str
    links: Sequence[Link]
    stale: bool
    scenario: str


@dataclass(frozen=True, slots=True)
class Beat:
    """The newest heartbeat of a bucket: when it was appended, and the bucket's clock in it.

    query: whose it is. ahead: how far the bucket's clock is ahead of the
    job's own, ms; ahead_since: since when by too much, None where it is not. epoch: in which it was
    written; above: the highest epoch known of the bucket; furthest: how far the bucket's clock has
    been in this epoch, which a job that was killed has to reach again.
    """

    received_at: int
    log_time: int
    query: str = field(default="", compare=False)
    ahead: int = 0
    ahead_since: int | None = None
    epoch: int = field(default=0, compare=False)
    above: int = field(default=0, compare=False)
    furthest: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Pause:
    """A query that was stopped, or begun again, on purpose: by whom, since when and why."""

    user: str
    since: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """What keeps a query from running until somebody does something.

    why: in words: what is wrong, what to do, and the error in brackets; since: Unix ms; replaced:
    the scenarios whose source topic was deleted and created again.
    """

    why: str
    since: int
    replaced: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """What is wrong."""
        return self.why.partition(" (")[0].partition(": ")[0]


@dataclass(frozen=True, slots=True)
class KafkaRefusal:
    """What Kafka refuses this process, in words, and since when."""

    why: str
    since: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a web process has received.

    reached: when it last was at the end of the log, None before the first time; unwritten: when
    the oldest heartbeat was appended that the database lacks, None if it lacks none; beats: by
    bucket; usual: by scenario, how long its agents usually pause by heartbeats, ms; pauses: by
    query, those that were stopped on purpose; starts: by query, when such a stop ended; rebuilds:
    by query, those that read their log again on purpose; agents: what there is to say of agents;
    clocks_behind: by bucket, where the broker's clock is behind the job's own; refusal: what Kafka
    refuses this process, None where nothing; jobs: by scenario, the named job that is to carry it;
    waits: by query, what keeps it from running.
    """

    reached: int | None = None
    unwritten: int | None = None
    beats: Mapping[str, Beat] = field(default_factory=dict)
    usual: Mapping[str, int] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)
    rebuilds: Mapping[str, Pause] = field(default_factory=dict)
    agents: AgentNews = field(default_factory=AgentNews)
    clocks_behind: Mapping[str, ClockBehind] = field(default_factory=dict)
    refusal: KafkaRefusal | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[str, Wait] = field(default_factory=dict)

    def of_job(self, job: str) -> Facts:
        """Return the facts of one job."""
        beats = {n: beat for n, beat in self.beats.items() if self.carrier(n) == job}
        starts = {query: at for query, at in self.starts.items() if job_of(query) == job}
        rebuilds = {query: each for query, each in self.rebuilds.items() if job_of(query) == job}
        waits = {query: wait for query, wait in self.waits.items() if job_of(query) == job}
        return replace(self, beats=beats, starts=starts, rebuilds=rebuilds, waits=waits)

    def carrier(self, bucket: str) -> str:
        """Return the job that is to carry a bucket, or a scenario."""
        return self.jobs.get(bucket.partition("/")[0], MAIN)


MISSING = Link("/job/#missing", "What is missing", (Role.ADMIN, Role.OPERATOR))
JOB = Link("/job/", "The job's page", (Role.ADMIN, Role.OPERATOR))
REPLAY = Link("/replay/", "Replay", (Role.ADMIN,))
IF_IT_LASTS, AN_ADMIN = "If it lasts, call an admin.", "Call an admin."


def lasting_problem(
    kind: Kind,
    what: str,
    since: int | None,
    todo: str,
    *,
    call: str = "",
    details: str = "",
    links: Sequence[Link] = (MISSING,),
    stale: bool = True,
    scenario: str = "",
) -> BoardProblem:
    """Return a problem that has lasted since a time, Unix ms."""
    return BoardProblem(
        kind=kind,
        what=what,
        when="since",
        since=since,
        quote="",
        todo=todo,
        call=call,
        details=details,
        links=links,
        stale=stale,
        scenario=scenario,
    )


def find_problems(
    facts: Facts, scenarios: Sequence[Scenario], current: str, now: int
) -> list[BoardProblem]:
    """Return the problems of the `current` scenario's board, the most severe first; of all boards
    where it is empty.

    A web process that is behind cannot judge the job, and a silent job says nothing of agents. One
    that Kafka refuses is behind for that.
    """
    if facts.refusal is not None:
        return [_refused(facts.refusal)]
    if web := _web(facts, now):
        return web
    judged = [scenario for scenario in scenarios if current in ("", scenario.name)]
    problems = [*_paused(facts, current), *_database(facts, now)]
    if facts.pauses:
        facts, judged = _going_on(facts, judged)
    if judged or not facts.pauses:
        problems += _by_job(facts, judged, now)
    return sorted(problems, key=lambda each: (not each["stale"], ORDER.index(each["kind"])))


def board_problems(facts: Facts, scenarios: Sequence[Scenario], now: int) -> dict[str, str]:
    """Return by scenario what its tab is marked with at `now`, where it is: the most severe of what
    is wrong with its board, but for what is everybody's and leaves the rows live."""
    marks = {}
    for scenario in scenarios:
        for each in find_problems(facts, scenarios, scenario.name, now):
            if each["stale"] or each["scenario"]:
                marks[scenario.name] = each["what"]
                break
    return marks


def standstill(problems: Iterable[BoardProblem]) -> BoardProblem | None:
    """Return the problem of a board by which nothing on it is live, None where there is none."""
    return next((each for each in problems if each["kind"] in STANDSTILL), None)


def _paused(facts: Facts, current: str) -> list[BoardProblem]:
    """Return the problems of queries that were stopped on purpose and carry this board, or may."""
    queries = _queries(facts)
    return [
        _asked(
            "stopped",
            f"{_subject(job_of(query))} was stopped by {pause.user}",
            pause,
            "The board is as of then until an admin starts it.",
        )
        for query, pause in facts.pauses.items()
        if not current or queries.get(current, query) == query
    ]


def _going_on(facts: Facts, scenarios: Sequence[Scenario]) -> tuple[Facts, list[Scenario]]:
    """Return the facts and scenarios of the queries that nobody has stopped: they are judged as
    ever."""
    queries = _queries(facts)
    beats = {n: beat for n, beat in facts.beats.items() if beat.query not in facts.pauses}
    going = [s for s in scenarios if queries.get(s.name, "") not in ("", *facts.pauses)]
    return replace(facts, beats=beats), going


def _queries(facts: Facts) -> dict[str, str]:
    """Return the query that carries each scenario, as far as one was heard of."""
    return {name.partition("/")[0]: beat.query for name, beat in facts.beats.items()}


def _subject(job: str) -> str:
    """Return the job as a sentence begins with it."""
    return f"The{words_of(job).removeprefix('the')}"


def _asked(kind: Kind, what: str, pause: Pause, todo: str) -> BoardProblem:
    """Return a problem that somebody caused on purpose."""
    made = lasting_problem(kind, what, pause.since, todo, links=(JOB,))
    made["when"], made["quote"] = "at", pause.reason.rstrip(".")
    return made


def _fresh(facts: Facts, scenarios: Sequence[Scenario], now: int) -> list[BoardProblem]:
    """Return the problems while the job sends heartbeats."""
    problems = []
    for scenario in scenarios:
        problems += _agents(facts, scenario, now)
    return [
        *_dropped(facts, scenarios),
        *_ahead(facts, scenarios),
        *_slow_brokers(facts, scenarios),
        *_late(facts, scenarios, now),
        *problems,
    ]


def _refused(refusal: KafkaRefusal) -> BoardProblem:
    return lasting_problem(
        "kafka",
        "Kafka refuses this server",
        refusal.since,
        "States are as of then.",
        call=AN_ADMIN,
        details=f"{refusal.why}. It resumes by itself once that is fixed.",
    )


def _web(facts: Facts, now: int) -> list[BoardProblem]:
    if facts.reached is None or now - facts.reached <= WEB_LATE_MS:
        return []
    return [
        lasting_problem(
            "web",
            "States are late on this server",
            facts.reached,
            "They are as of then, and catch up by themselves.",
            call=IF_IT_LASTS,
            details="This server is behind the log: look at its own log.",
        )
    ]


def _by_job(facts: Facts, scenarios: Sequence[Scenario], now: int) -> list[BoardProblem]:
    """Return the problems of these scenarios, job by job: one that is silent says nothing of what
    another carries."""
    problems: list[BoardProblem] = []
    for job in dict.fromkeys(facts.carrier(scenario.name) for scenario in scenarios) or [MAIN]:
        mine, own = [s for s in scenarios if facts.carrier(s.name) == job], facts.of_job(job)
        problems += _silent_job(own, mine, now) or _fresh(own, mine, now)
    return problems


def _silent_job(facts: Facts, mine: Sequence[Scenario], now: int) -> list[BoardProblem]:
    """Return the problem of a job of which nothing is heard. facts: its own; mine: the scenarios
    that it is to carry, of those that are looked at."""
    job = facts.carrier(mine[0].name) if mine else MAIN
    whose = mine[0].name if mine and facts.jobs else ""
    last_beat = max((beat.received_at for beat in facts.beats.values()), default=None)
    silent_ms = REBUILD_SILENT_MS if facts.rebuilds else SILENT_MS
    if last_beat is not None and now - last_beat <= silent_ms:
        return []
    if last_beat is not None and now - max(facts.starts.values(), default=0) <= BEGIN_MS:
        what, todo = f"{_subject(job)} is starting", "States are as of then."
        return [lasting_problem("job", what, last_beat, todo, scenario=whose)]
    if waits := [*_waiting(facts.waits, last_beat, whose)]:
        return waits
    what, todo = f"{_subject(job)} has not answered", "States are as of then."
    if last_beat is None:
        what = f"No heartbeat has come from {words_of(job)} yet"
        todo = "No report counts until it runs."
    details = (
        f"Check that {words_of(job)} and Kafka run: make status, then logs/{process_of(job)}.log "
        "of the data folder."
    )
    return [
        lasting_problem(
            "job", what, last_beat, todo, call=IF_IT_LASTS, details=details, scenario=whose
        )
    ]


def _waiting(
    waits: Mapping[str, Wait], last_beat: int | None, scenario: str
) -> Iterator[BoardProblem]:
    """Yield the problem of each query that waits for somebody to do something."""
    for query, wait in waits.items():
        yield lasting_problem(
            "job",
            f"{_subject(job_of(query))} waits: {wait.cause}",
            last_beat or wait.since,
            "No report that came since is on the board.",
            call=AN_ADMIN,
            details=f"{wait.why}.",
            links=(*(new_log_link(query, name) for name in wait.replaced[:1]), JOB),
            scenario=scenario,
        )


def new_log_link(query: str, scenario: str) -> Link:
    """Return where an admin has the job read a log that was created again."""
    address = f"/replay/?query={query}&scenario={scenario}&start=earliest"
    return Link(address, "Read the new log", (Role.ADMIN,))


def _dropped(facts: Facts, scenarios: Sequence[Scenario]) -> list[BoardProblem]:
    """Return the problem of buckets of which all states are dropped: they are of a lower epoch than
    those that the board has."""
    names = [name for name in _buckets(scenarios) if name in facts.beats]
    lower = {n: facts.beats[n] for n in names if facts.beats[n].epoch < facts.beats[n].above}
    if not lower:
        return []
    beat = next(iter(lower.values()))
    return [
        lasting_problem(
            "dropped",
            f"New states of {named(list(lower))} are dropped as older",
            None,
            "The board keeps what it had.",
            call=AN_ADMIN,
            details=f"What the job writes is of epoch {beat.epoch}, and the board has epoch "
            f"{beat.above}: its checkpoint was lost or is an old copy. Restart the job: it begins "
            "a higher epoch. If it does not, replay the log.",
            links=(REPLAY, MISSING),
            scenario=_whose(lower),
        )
    ]


def _ahead(facts: Facts, scenarios: Sequence[Scenario]) -> list[BoardProblem]:
    """Return the problem of buckets whose clock is ahead of the job's own.

    Until that is past, no time passes there.
    """
    names = _buckets(scenarios)
    beats = {n: facts.beats[n] for n in names if n in facts.beats and facts.beats[n].ahead_since}
    if not beats:
        return []
    furthest = span(max(beat.ahead for beat in beats.values()))
    its = "its clock is" if len(beats) == 1 else "their clocks are up to"
    return [
        lasting_problem(
            "clock",
            f"No time passes in {named(list(beats))}: {its} {furthest} ahead",
            min(beat.ahead_since or 0 for beat in beats.values()),
            "No vote falls silent and no hold or override ends until that time is past.",
            call=AN_ADMIN,
            details="A broker's clock was wrong: set it, then replay the log with a bound "
            "on its times.",
            links=(REPLAY, MISSING),
            scenario=_whose(beats),
        )
    ]


def _slow_brokers(facts: Facts, scenarios: Sequence[Scenario]) -> list[BoardProblem]:
    """Return the problem of a broker's clock that is behind: one, whatever that broker stamps."""
    names = _buckets(scenarios)
    clocks = {n: facts.clocks_behind[n] for n in names if n in facts.clocks_behind}
    if not clocks:
        return []
    furthest = furthest_behind(clocks.values())
    what = f"The broker's clock is {furthest} behind"
    if len(clocks) < len(names):
        what = f"A broker's clock is {furthest} behind in {named(list(clocks))}"
    return [
        lasting_problem(
            "clock",
            what,
            min(clock.since for clock in clocks.values()),
            "Agents look as if their clocks were ahead. No vote falls silent and no hold or "
            "override ends until it has passed where it was.",
            call=AN_ADMIN,
            details="Set the broker's clock. No replay is needed.",
            scenario=_whose(clocks),
        )
    ]


def furthest_behind(clocks: Iterable[ClockBehind]) -> str:
    """Return in words how far the furthest of these clocks is behind.

    What was measured lacks the milliseconds that a tick was on its way: 10 min are not 9.
    """
    return span(round(max(clock.by for clock in clocks), -3))


def _buckets(scenarios: Iterable[Scenario]) -> list[str]:
    return [bucket_name(s.name, number) for s in scenarios for number in range(s.partitions)]


def _whose(buckets: Iterable[str]) -> str:
    """Return the scenario of buckets, the first's where they are of several."""
    return next(iter(buckets)).partition("/")[0]


def _late(facts: Facts, scenarios: Sequence[Scenario], now: int) -> list[BoardProblem]:
    """Return the problem of buckets whose clock is behind, or that have never been heard of, and of
    queries that read their log again: while they do, they write nothing new.

    One that is no further behind than its broker's clock has applied all that there is.
    """
    names = _buckets(scenarios)
    beats = {name: facts.beats[name] for name in names if name in facts.beats}
    clocks = {name: beat.log_time for name, beat in beats.items()}
    slow = {name: clock.by for name, clock in facts.clocks_behind.items()}
    late = [name for name in names if now - clocks.get(name, 0) > LATE_MS + slow.get(name, 0)]
    queries = {name: beat.query for name, beat in beats.items()}
    rebuilds = {q: pause for q, pause in facts.rebuilds.items() if q in queries.values()}
    going_on = ("", *rebuilds) if rebuilds else ()
    waiting = {queries.get(name, "") for name in late} & facts.waits.keys()
    rest = [name for name in late if queries.get(name, "") not in (*going_on, *waiting)]
    return [
        *(
            _asked(
                "rebuild", f"Rebuild requested by {pause.user}", pause, "The board is as of then."
            )
            for pause in rebuilds.values()
        ),
        *(
            each
            for query in sorted(waiting)
            for each in _waiting({query: facts.waits[query]}, None, _whose(late))
        ),
        *([_behind(rest, beats, everywhere=rest == names)] if rest else []),
    ]


def _behind(late: Sequence[str], beats: Mapping[str, Beat], *, everywhere: bool) -> BoardProblem:
    """Return the problem of buckets that are late. The rows are as of the furthest that each has
    been, also while a job reads again what it has shown already."""
    reached = (max(beats[n].furthest, beats[n].log_time) for n in late if n in beats)
    return lasting_problem(
        "behind" if everywhere else "late",
        "States are late" if everywhere else f"States are late in {named(late)}",
        min(reached, default=None),
        "They are as of then, and catch up by themselves.",
        call=IF_IT_LASTS,
        details="The job is behind in the log there: it catches up unless a process is missing. "
        "Look at make status and at Partitions.",
        scenario=_whose(late),
    )


def named(names: Sequence[str]) -> str:
    """Return partitions in words: the first ones by name, and how many more."""
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"


def _database(facts: Facts, now: int) -> list[BoardProblem]:
    if not _unwritten(facts, now):
        return []
    return [
        lasting_problem(
            "database",
            "States are current; history is late",
            facts.unwritten,
            "Outcomes of commands come late, too.",
            call=IF_IT_LASTS,
            details="The database is behind the log: check that the materialiser runs, and that "
            "the database answers.",
            stale=False,
        )
    ]


def _unwritten(facts: Facts, now: int) -> bool:
    """Return whether the database is behind the log."""
    return facts.unwritten is not None and now - facts.unwritten > DATABASE_LATE_MS


def _agents(facts: Facts, scenario: Scenario, now: int) -> list[BoardProblem]:
    """Return the problem of a scenario whose agents are silent for unusually long, and of agents
    with which something is wrong."""
    problems = []
    findings = facts.agents.findings
    if seen := silence(facts, scenario, now):
        problems.append(_silence(scenario, seen))
        findings = [each for each in findings if each.kind != "silent"]  # that says it of all
    for what, since, todo, (address, text) in lines(scenario, findings):
        link = Link(address, text, MISSING.roles)
        problems.append(
            lasting_problem(
                "agents", what, since, todo, links=(link,), stale=False, scenario=scenario.name
            )
        )
    return problems


def silence(facts: Facts, scenario: Scenario, now: int) -> LastSeen | None:
    """Return when a scenario's agents were last seen if all of them are silent for unusually long,
    else None."""
    seen = facts.agents.last.get(scenario.name)
    return seen if seen is not None and _unusual(facts, scenario, seen, now) else None


def _unusual(facts: Facts, scenario: Scenario, seen: LastSeen, now: int) -> bool:
    """Return whether a silence is unusual, by the time up to which the database knows of reports.
    However long it lasts, it stays so."""
    usual = max(seen.gap, min(facts.usual.get(scenario.name, 0), USUAL_MOST_MS))
    return _known_until(facts, scenario, now) - seen.at > max(QUIET_MS, UNUSUAL * usual)


def _known_until(facts: Facts, scenario: Scenario, now: int) -> int:
    """Return the time up to which the database knows of a scenario's reports: now, or where the job
    or the database is late, as far as they have come."""
    names = [name for name in _buckets([scenario]) if name in facts.beats]
    clocks = [facts.beats[name].log_time for name in names]
    if facts.unwritten is not None and _unwritten(facts, now):
        clocks.append(facts.unwritten)
    return min([now, *(clock for clock in clocks if now - clock > LATE_MS)])


def _silence(scenario: Scenario, seen: LastSeen) -> BoardProblem:
    details, todo = "", "Nobody confirms its states. Start the agents, or call whoever runs them."
    if seen.off:
        todo = f"Nobody confirms its states: the pipeline {seen.off} is switched off."
        details = "To turn it on, name it in TALLYBOARD_PIPELINES and restart Tallyboard."
    agents = Link(f"/agents/?scenario={scenario.name}", "The agents", MISSING.roles)
    return lasting_problem(
        "agents",
        f"{scenario.title}: no agent has reported",
        seen.at,
        todo,
        call=AN_ADMIN if seen.off else "",
        details=details,
        links=(MISSING if seen.off else agents,),
        stale=False,
        scenario=scenario.name,
    )
