"""Faults of agents, judged by what is known, and counts of what the board holds against them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from dashboard.core.common.times import MINUTE_MS
from dashboard.core.states.models import AssetState
from dashboard.watch.agents.models import AGENTS_KEPT_MS, LEAST_GAP_MS, SILENT_GAPS, VoteFault
from dashboard.watch.agents.reports import Lately, cause_of_lateness, clock_now, lately_ms
from domain.names import USER_PREFIX, name_ok
from domain.records import (
    CLOCK_AHEAD,
    CLOCK_BACK,
    CONTRADICTION,
    DOUBT_REASONS,
    PURGED,
    STALE,
    VOTE_DOUBTS,
)
from domain.scenario import Scenario
from wire.sink import StateValue, state_value

if TYPE_CHECKING:
    from dashboard.watch.agents.models import Agent


# ---- fault counts --------------------------------------------------------------------------------
# Counts of what the board holds against agents: votes in doubt, and agents in doubt.
#
# Rows in doubt have an index of their own, so they are counted every few seconds. Faults of other
# votes are counted with all votes, a portion of the board at a time (`statistics.py`).

MOST_ROWS = 10_000
"""Most rows in doubt that are counted; above that, this number is reported."""
MOST_SAID = 64
CHUNK = 500

DOUBTS = (*VOTE_DOUBTS, *DOUBT_REASONS)
"""The faults of rows in doubt, by their names in the records."""
FLAPPING, DETAIL = "flapping", "detail"
OF_ALL_VOTES = (FLAPPING, DETAIL)
"""The faults of other votes: one that flaps, one whose detail was left out."""

FaultKey = tuple[str, str, str]
"""Scenario, agent and kind of a fault."""


class FaultCount(NamedTuple):
    """A fault of an agent's votes.

    assets: on how many; since, last: its oldest and newest cause, Unix ms; said: the newest word;
    ms: the least time by which a clock is ahead.
    """

    assets: int
    since: int
    last: int
    said: str = ""
    ms: int = 0

    def plus(self, more: FaultCount) -> FaultCount:
        """Return the sum of both."""
        return FaultCount(
            self.assets + more.assets,
            min(self.since, more.since),
            max(self.last, more.last),
            self.said if self.last > more.last else more.said,
            min(self.ms, more.ms),
        )


Counts = dict[FaultKey, FaultCount]


def add(counts: Counts, place: FaultKey, more: FaultCount) -> None:
    """Add to an agent's counts; operators and invalid names are not counted."""
    agent = place[1]
    if name_ok(agent) and not agent.startswith(USER_PREFIX):
        counts[place] = counts[place].plus(more) if place in counts else more


def count_doubts() -> None:
    """Count the rows in doubt by agent, and replace the previous counts."""
    rows = AssetState.objects.filter(purged=False, doubt__isnull=False).order_by()
    counts: Counts = {}
    for scenario, record in rows.values_list("scenario", "record")[:MOST_ROWS].iterator(2_000):
        for agent, kind, more in _doubts(state_value(record)):
            add(counts, (scenario, agent, kind), more)
    publish_fault_counts(counts, DOUBTS)


def _doubts(record: StateValue) -> Iterator[tuple[str, str, FaultCount]]:
    """Yield agent, kind and count of everything in doubt on an asset that counts."""
    for vote in record.votes:
        if vote.doubt is not None and vote.muted is None:
            ahead = max(0, vote.reported_at - vote.time) if vote.doubt == CLOCK_AHEAD else 0
            yield vote.agent, vote.doubt, FaultCount(1, vote.time, vote.time, ms=ahead)
    for doubt in record.doubts:
        if doubt.counts:
            said = (doubt.said or "")[:MOST_SAID]
            yield doubt.agent, doubt.reason, FaultCount(1, doubt.time, doubt.time, said)


def publish_fault_counts(counts: Mapping[FaultKey, FaultCount], kinds: Collection[str]) -> None:
    """Replace the counts of these kinds; a fault that persists keeps its beginning."""
    known = VoteFault.objects.filter(kind__in=kinds)
    before = {(row.scenario, row.agent, row.kind): row for row in known}
    counts_of_kinds = {place: each for place, each in counts.items() if place[2] in kinds}
    gone = [row.pk for place, row in before.items() if place not in counts_of_kinds]
    for begin in range(0, len(gone), CHUNK):
        VoteFault.objects.filter(pk__in=gone[begin : begin + CHUNK]).delete()
    VoteFault.objects.bulk_create(
        _rows(counts_of_kinds, before),
        update_conflicts=True,
        unique_fields=["scenario", "agent", "kind"],
        update_fields=["assets", "last", "said", "ms"],
        batch_size=CHUNK,
    )


def _rows(counts: Counts, before: Mapping[FaultKey, VoteFault]) -> list[VoteFault]:
    """Return the rows that are new or differ from before."""
    return [
        VoteFault(scenario=place[0], agent=place[1], kind=place[2], **each._asdict())
        for place, each in sorted(counts.items())
        if place not in before or _is_other(each, before[place])
    ]


def _is_other(count: FaultCount, row: VoteFault) -> bool:
    return (count.assets, count.last, count.said, count.ms) != (
        row.assets,
        row.last,
        row.said,
        row.ms,
    )


# ---- faults --------------------------------------------------------------------------------------
# What is wrong with an agent, judged by what is known about it. Pure: no clock, no database. Times
# in ms.

Kind = Literal[
    "refused", "silent", "contradiction", "ahead", "purged", "clock-back", "behind", "shorter",
    "partly", "late", "stale", "spool", "rare", "flapping", "detail", "unseen",
]  # fmt: skip
"""What may be wrong, most important first.

refused: its reports are refused, for their state or time; silent: it has reported nothing for long,
and the log went on; contradiction: a report that came too late says worse than its vote; ahead: its
clock is ahead; purged: reports are from before a purge; clock-back: the broker's clock was set
back; behind, shorter, spool, rare, late: see `late_reports.Cause`; partly: silent on some assets;
stale: its last word on an asset came too old; flapping: a vote goes to and fro; detail: details are
left out; unseen: not seen for three times its usual gap.
"""

REFUSALS = ("unknown-state", "bad-time", "bad-field", "not-json")
QUIET_MS = MINUTE_MS
EXPECTED_MS = AGENTS_KEPT_MS
"""An agent not seen for longer than this is no longer expected."""


class Fault(NamedTuple):
    """Something wrong with an agent.

    since: when it began, Unix ms, as far as known; assets: on how many assets it shows, 0 if on
    none; of: out of how many; ms: how far its clock is off, how late its reports came, or its usual
    gap; reason, said: why reports are refused, and the word in question; minutes: in how many
    recent minutes there were such reports; steady: whether these were equally late, or came again
    and again.
    """

    kind: Kind
    since: int = 0
    assets: int = 0
    of: int = 0
    ms: int = 0
    reason: str = ""
    said: str = ""
    minutes: int = 0
    steady: bool = True


class AgentFacts(NamedTuple):
    """What is known about an agent.

    lately: its late, refused and doubtful reports; on_board: what the board holds against its
    votes, by kind; known_until: up to when it is known which agents of the scenario have reported.
    """

    agent: Agent
    lately: Lately = Lately()
    on_board: Mapping[str, VoteFault] = {}
    known_until: int = 0

    @property
    def clock(self) -> int | None:
        """How far its clock is off now, ms; negative if behind; None if nothing shows it."""
        return clock_now(self.lately.sums, self.agent.clock, self.agent.last_seen)

    @property
    def last_contact_at(self) -> int:
        """When it was last heard from: seen in a record, or by reports that were not taken."""
        board = (row.last for row in self.on_board.values())
        return max(self.agent.last_seen, self.lately.sums.last, *board)


def faults_of(scenario: Scenario, known: AgentFacts, now: int) -> list[Fault]:
    """Return everything that is wrong with an agent at `now`, most important first."""
    faults = list(_faults(scenario, known, now))
    kinds = {fault.kind for fault in faults}
    faults = [fault for fault in faults if kinds.isdisjoint(EXPLAINED_BY.get(fault.kind, ()))]
    if not faults and known.agent.is_unseen(now):
        faults.append(Fault("unseen", since=known.agent.last_seen, ms=known.agent.gap))
    return faults


EXPLAINED_BY: Mapping[Kind, tuple[Kind, ...]] = {
    "partly": ("silent",),
    "late": ("contradiction", "behind", "shorter"),
}
"""Faults that are left out if a fault that explains them is present."""


def _faults(scenario: Scenario, known: AgentFacts, now: int) -> Iterator[Fault]:
    yield from _refused(known)
    yield from _silent(scenario, known, now)
    yield from _on_board(known, CONTRADICTION, "contradiction")
    yield from _ahead(known)
    yield from _on_board(known, PURGED, "purged")
    yield from _on_board(known, CLOCK_BACK, "clock-back")
    yield from _lateness(known, "behind", "shorter")
    yield from _partly_silent(known)
    yield from _late(scenario, known)
    yield from _on_board(known, STALE, "stale")
    yield from _lateness(known, "spool", "rare")
    yield from _on_board(known, FLAPPING, "flapping")
    yield from _detail(known)


def _on_board(known: AgentFacts, counted: str, kind: Kind) -> Iterator[Fault]:
    """Yield a fault that only assets show."""
    if row := known.on_board.get(counted):
        yield Fault(kind, row.since, row.assets, said=row.said)


def _refused(known: AgentFacts) -> Iterator[Fault]:
    rows = [known.on_board[kind] for kind in REFUSALS if kind in known.on_board]
    run = known.lately.run("refused")
    if not rows and not run.minutes:
        return
    newest = max(rows, key=lambda row: row.last, default=None)
    yield Fault(
        "refused",
        since=min((row.since for row in rows), default=run.since),
        assets=sum(row.assets for row in rows),
        reason=newest.kind if newest else known.lately.sums.reason,
        said=newest.said if newest else "",
        minutes=run.minutes,
    )


def _ahead(known: AgentFacts) -> Iterator[Fault]:
    row, ahead = known.on_board.get(CLOCK_AHEAD), known.lately.sums.ahead
    if row is None and not ahead:
        return
    run = known.lately.run("doubtful") if ahead else known.lately.run("")
    yield Fault(
        "ahead",
        since=row.since if row else run.since,
        assets=row.assets if row else 0,
        ms=ahead or (row.ms if row else 0),
        minutes=run.minutes,
    )


# ---- silence ------------------------------------------------------------------------------------


def quiet_ms(scenario: Scenario, gap: int) -> int:
    """Return the time without a report after which an agent has no live vote and is missed, ms."""
    return LEAST_GAP_MS + max(scenario.lifetime or 0, QUIET_MS, SILENT_GAPS * gap)


def _silent(scenario: Scenario, known: AgentFacts, now: int) -> Iterator[Fault]:
    """Yield a fault if an agent has long been silent everywhere while the log went on."""
    agent = known.agent
    quiet = quiet_ms(scenario, agent.gap)
    missed = quiet < now - known.last_contact_at and now - agent.last_seen < EXPECTED_MS
    certain = known.known_until >= agent.last_seen + quiet
    if scenario.forget_delay is not None and missed and certain and agent.is_unseen(now):
        yield Fault("silent", agent.last_seen, agent.silent, agent.silent + agent.votes)


def _partly_silent(known: AgentFacts) -> Iterator[Fault]:
    agent = known.agent
    if agent.silent:
        yield Fault("partly", agent.silent_since or 0, agent.silent, agent.silent + agent.votes)


# ---- lateness -----------------------------------------------------------------------------------

SPREAD_MS, SPREAD_PART = 20_000, 0.1
"""With a clock that is behind, the ages of reports differ by this at most, ms or as a share."""


def _lateness(known: AgentFacts, *kinds: Kind) -> Iterator[Fault]:
    """Yield why reports come too late, if that is one of these kinds."""
    sums = known.lately.sums
    why = cause_of_lateness(sums, known.clock)
    if why is not None and why[0] in kinds:
        run = known.lately.run("rare" if why[0] in ("shorter", "rare") else "old")
        steady = sums.oldest - sums.age <= max(SPREAD_MS, SPREAD_PART * sums.age)
        yield Fault(why[0], run.since, ms=why[1], minutes=run.minutes, steady=steady)


def _late(scenario: Scenario, known: AgentFacts) -> Iterator[Fault]:
    """Yield a fault if reports come twice or out of order; steady: in every other minute."""
    run = known.lately.run("late")
    if run.minutes:
        steady = 2 * MINUTE_MS * run.minutes >= lately_ms(scenario)
        yield Fault("late", run.since, minutes=run.minutes, steady=steady)


def _detail(known: AgentFacts) -> Iterator[Fault]:
    row, run = known.on_board.get(DETAIL), known.lately.run("detail")
    if row is not None or run.minutes:
        since = row.since if row else run.since
        reason = row.said if row else ""
        yield Fault("detail", since, row.assets if row else 0, reason=reason, minutes=run.minutes)
