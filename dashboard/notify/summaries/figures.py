"""What a summary says and what it is measured by. Durations in ms, times in Unix ms;
docs/summary.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from domain.history.periods import Hour, Period, Span

# ---- slots ---------------------------------------------------------------------------------------
# The hours of a week.


def slot_of(hour: Hour) -> int:
    """Return the place of an hour in a week: 24 times the weekday, Monday 0, plus the hour."""
    return 24 * hour.day.weekday() + hour.hour


def in_slots(slots: frozenset[int]) -> Callable[[Hour], bool]:
    """Return whether an hour is in one of these slots, as a function."""
    return lambda hour: slot_of(hour) in slots


# ---- figures -------------------------------------------------------------------------------------
# What a summary says. All durations in ms, all times in Unix ms; docs/summary.md has the meaning.
#
# `dashboard.notify.summaries.calculation.summary` answers a question.

MOST_WORST = 50
"""Most assets that are named as the worst."""
MOST_INCIDENTS = 500
"""Most incidents that are listed, the longest within the period."""
MOST_ACTIONS = 500
"""Most overrides, and most bulk runs, that are listed, the newest."""
MOST_VALUES = 200
"""Most values of a label, those with most bad time."""


@dataclass(frozen=True)
class Question:
    """What is asked. scenarios: names; label: a key to group by, "" for none; service: whether only
    the service hours of each scenario count as time (incidents and delays count at any hour)."""

    scenarios: tuple[str, ...]
    period: Period
    label: str = ""
    service: bool = False


class Times(NamedTuple):
    """The time that assets were on the board, by what it was. All added up over assets, ms."""

    good: int = 0
    bad: int = 0
    unconfirmed: int = 0
    maintenance: int = 0

    @property
    def present(self) -> int:
        """All of it."""
        return sum(self)

    @property
    def availability(self) -> float | None:
        """The good part of the good and the bad time, 0 to 1; None where there is neither."""
        counted = self.good + self.bad
        return self.good / counted if counted else None

    def plus(self, other: Times) -> Times:
        """Return both added up."""
        return Times(*(one + two for one, two in zip(self, other, strict=True)))

    def less(self, other: Times) -> Times:
        """Return what is left of this without the other; nothing rather than less."""
        return Times(*(max(0, one - two) for one, two in zip(self, other, strict=True)))


class Observed(NamedTuple):
    """How much of a time was observed, ms, and how long the time is up to now, in the hours that
    count; seen: whether anything of it was, at any hour."""

    ms: int
    whole: int
    seen: bool

    @property
    def complete(self) -> bool:
        """Whether all of it was."""
        return self.seen and self.ms == self.whole


class ErrorBudget(NamedTuple):
    """The time that may be bad by the target, of the time that was observed. whole: of the time so
    far; left: below 0 where more was bad; target: percent."""

    target: float
    whole: int
    left: int

    @property
    def share(self) -> float | None:
        """The part that is left, 0 to 1, below 0 where more was bad; None of an empty budget."""
        return self.left / self.whole if self.whole else None


@dataclass(frozen=True)
class Delays:
    """How long something took. p95: nearest rank; both None where count is 0."""

    count: int = 0
    mean: int | None = None
    p95: int | None = None


@dataclass(frozen=True)
class Figures:
    """The figures of one group in one period.

    incidents: those that overlap the period; assets: how many different assets these were of (of
    values of a label the incidents are of the group: times in which at least one of its assets has
    one); budget: None where a scenario has no target, or another one; acknowledged: of incidents
    that began in the period; cleared: of those that ended in it; flapping: incidents that began
    within FLAP_MS of the asset's last; false_alarms: waits for a worse state that came to nothing;
    observed: what all of them are of: where nothing was seen, none of them says anything.
    """

    times: Times
    incidents: int
    assets: int
    budget: ErrorBudget | None
    acknowledged: Delays
    cleared: Delays
    flapping: int
    false_alarms: int
    observed: Observed


@dataclass(frozen=True)
class FigureGroup:
    """Figures of a scenario (name, title), or of a label's value ("" has the assets without it)."""

    name: str
    title: str
    now: Figures
    before: Figures


class WorstAsset(NamedTuple):
    """An asset with much time in bad states. before: its bad time in the period before."""

    scenario: str
    asset: str
    bad: int
    unconfirmed: int
    incidents: int
    before: int


class LongIncident(NamedTuple):
    """An incident for a timeline. id: of its page; ended_at: None while it goes on; label: the
    asset's value of the question's key; within: how much of it lies in the period, ms."""

    id: int
    scenario: str
    asset: str
    label: str
    worst: str
    began_at: int
    ended_at: int | None
    acknowledged_at: int | None
    acknowledged_by: str
    within: int


class OverrideSpan(NamedTuple):
    """A state that somebody pinned. until: its end as it was given, None for an open one; ended:
    when another command ended it before that, None where none did."""

    at: int
    scenario: str
    asset: str
    state: str
    username: str
    reason: str
    until: int | None
    ended: int | None = None


class BulkRun(NamedTuple):
    """One command for many assets. id: of its page; state: that was set, "" for none; applied: to
    how many assets of those that matched."""

    id: str
    at: int
    scenario: str
    kind: str
    state: str
    username: str
    reason: str
    matched: int
    applied: int


class HeatDay(NamedTuple):
    """A day of the period and what was bad of it, ms; None for a day that has not begun, or of
    which nothing was observed. unobserved: how much of it was not, up to now, ms."""

    day: date
    bad: int | None
    unobserved: int = 0


@dataclass(frozen=True)
class PeriodSummary:
    """The answer to a question.

    span, before: the times that are counted; running: whether the period goes on (both are clipped
    then); raw_since: where raw history begins, before it only roll-ups exist (None: it has not
    begun); counting: the scenarios that make up the whole: those whose states have severity, where
    any is asked for; first_at: when the first asset of these came onto the board, None where none
    ever did; unobserved: what of the span was not observed; summed_to: roll-ups reach to it, what
    comes after is counted from raw history; computed_at: when it was counted; zone: the reporting
    zone; whole: everything together; week: bad ms by weekday (Monday first) and hour, None where
    nothing of it was observed; week_unobserved: how much of it was not, ms; *_total: how many there
    are of what is listed; empty: no asset of these scenarios was on the board in the period.
    """

    question: Question
    zone: str
    span: Span
    before: Span
    running: bool
    computed_at: int
    raw_since: int | None
    summed_to: int | None
    whole: FigureGroup
    scenarios: tuple[FigureGroup, ...] = ()
    labels: tuple[FigureGroup, ...] = ()
    labels_total: int = 0
    heat: tuple[HeatDay, ...] = ()
    week: tuple[tuple[int | None, ...], ...] = ()
    week_unobserved: tuple[tuple[int, ...], ...] = ()
    worst: tuple[WorstAsset, ...] = ()
    incidents: tuple[LongIncident, ...] = ()
    incidents_total: int = 0
    overrides: tuple[OverrideSpan, ...] = ()
    overrides_total: int = 0
    runs: tuple[BulkRun, ...] = ()
    runs_total: int = 0
    empty: bool = False
    first_at: int | None = None
    counting: tuple[str, ...] = ()
    unobserved: tuple[Span, ...] = ()

    @property
    def counted(self) -> tuple[FigureGroup, ...]:
        """The scenarios that make up the whole."""
        return tuple(each for each in self.scenarios if each.name in self.counting)


# ---- explanations --------------------------------------------------------------------------------
# How each figure of a summary is counted, in a few sentences; docs/summary.md has the whole.

EXPLAINED = {
    "availability": (
        "The time in good states, divided by the time in good and bad states, added up "
        "over all assets. Unconfirmed time and maintenance are in neither."
    ),
    "budget": (
        "What the target leaves for bad time: of a target of 99.5 %, half a percent of "
        "the good and bad time that was observed so far. What was bad is taken off it."
    ),
    "incidents": (
        "Incidents that were going on at some time of the period. An incident is the "
        "unbroken time that an asset spends outside its good states."
    ),
    "bad": (
        "The time that assets spent in a state that is not good, added up over assets: "
        "two assets for one hour are two hours. Unconfirmed time and maintenance are not "
        "in it."
    ),
    "acknowledged": (
        "From the beginning of an incident to its first acknowledgement, of those that "
        "began in the period and were acknowledged. 95 of 100 took no longer than the "
        "second figure."
    ),
    "cleared": (
        "From the beginning of an incident to its end, of those that ended in the period. "
        "95 of 100 took no longer than the second figure."
    ),
    "flapping": (
        "Incidents that began in the period, less than 15 minutes after the one before of "
        "the same asset had ended."
    ),
    "false_alarms": "Times in which an asset was about to enter a worse state, and did not.",
    "unconfirmed": (
        "Time in which too few agents voted to be sure of the state, or no vote said it. It "
        "is neither good nor bad."
    ),
    "maintenance": (
        "Time of planned work that is not to count. It is neither good nor bad; incidents "
        "in it are still listed."
    ),
    "heat": (
        "The time in bad states of each day of the reporting zone, added up over assets. "
        "The darker, the more; the figure is in each day. What is hatched was not observed."
    ),
    "week": (
        "The time in bad states by weekday and hour of the reporting zone, over the whole period. "
        "What is hatched was not observed."
    ),
    "worst": "The assets with most time in bad states in the period.",
    "timelines": (
        "The incidents of the period, of the assets with most time in them. What is hatched was "
        "not observed."
    ),
    "labels": (
        "An asset counts by the label that it has now. Incidents are those of the label as "
        "one: unbroken times in which at least one of its assets had one."
    ),
    "overrides": "States that somebody pinned in the period, by hand, with their reason.",
    "runs": "Commands for many assets at once that were started in the period.",
}
