"""The figures of a summary, and how they are counted. Durations in ms, times in Unix ms; see
docs/summary.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from dashboard.core.common.times import DAY_MS, HOUR_MS
from domain.history.periods import Hour, Period, Span

# ---- slots ---------------------------------------------------------------------------------------
# The hours of a week.


def slot_of(hour: Hour) -> int:
    """Return the index of an hour in a week: 24 times the weekday (Monday is 0) plus the hour."""
    return 24 * hour.day.weekday() + hour.hour


def in_slots(slots: frozenset[int]) -> Callable[[Hour], bool]:
    """Return a function that returns whether an hour is in one of these slots."""
    return lambda hour: slot_of(hour) in slots


# ---- figures -------------------------------------------------------------------------------------
# The figures of a summary. Durations in ms, times in Unix ms; docs/summary.md defines them.
#
# `dashboard.notify.summaries.calculation.summary` answers a question.

MOST_WORST = 50
"""Most assets listed as the worst."""
MOST_INCIDENTS = 500
"""Most incidents listed, those with the longest part in the period."""
MOST_ACTIONS = 500
"""Most overrides, and most bulk runs, listed, the newest ones."""
MOST_VALUES = 200
"""Most values of a label listed, those with most bad time."""


@dataclass(frozen=True)
class Question:
    """A question for a summary. scenarios: names; label: a key to group by, "" for none; service:
    whether only each scenario's service hours count as time (incidents and delays count at any
    hour)."""

    scenarios: tuple[str, ...]
    period: Period
    label: str = ""
    service: bool = False


class Times(NamedTuple):
    """The time that assets were on the board, by class, summed over assets, ms."""

    good: int = 0
    bad: int = 0
    unconfirmed: int = 0
    maintenance: int = 0

    @property
    def present(self) -> int:
        """The total time."""
        return sum(self)

    @property
    def availability(self) -> float | None:
        """Good time divided by good and bad time, 0 to 1; None if there is neither."""
        counted = self.good + self.bad
        return self.good / counted if counted else None

    def plus(self, other: Times) -> Times:
        """Return the sum of both."""
        return Times(*(one + two for one, two in zip(self, other, strict=True)))

    def less(self, other: Times) -> Times:
        """Return these times minus the others, with 0 as the minimum of each."""
        return Times(*(max(0, one - two) for one, two in zip(self, other, strict=True)))


COMPARED = 0.9
"""The part of a time, 0 to 1, that must have been observed for a comparison."""


class Observed(NamedTuple):
    """How much of a time was observed, ms, and how long the time is up to now, counting only hours
    that count; seen: whether any of it was observed, at any hour."""

    ms: int
    whole: int
    seen: bool

    @property
    def complete(self) -> bool:
        """Whether all of it was observed."""
        return self.seen and self.ms == self.whole

    @property
    def share(self) -> float:
        """The part that was observed, 0 to 1."""
        return self.ms / self.whole if self.whole else float(self.seen)

    @property
    def comparable(self) -> bool:
        """Whether enough of it was observed for a comparison."""
        return self.seen and self.share >= COMPARED


class ErrorBudget(NamedTuple):
    """The time that may be bad under the target, out of the observed time. whole: for the time so
    far; left: negative if more was bad; target: percent."""

    target: float
    whole: int
    left: int

    @property
    def share(self) -> float | None:
        """The part that is left, 0 to 1, negative if more was bad; None for an empty budget."""
        return self.left / self.whole if self.whole else None


class Burn(NamedTuple):
    """How fast an error budget was spent in the last part of a time, `window_ms` long.

    rate: 1 spends just the whole budget if it goes on like this; None without confirmed states, or
    without a budget.
    """

    window_ms: int
    rate: float | None
    observed: Observed


BURN_WINDOWS = (HOUR_MS, 6 * HOUR_MS, 3 * DAY_MS)
"""The last parts of a time for which burn rates are shown, ms."""


class BudgetPoint(NamedTuple):
    """How much of the error budget of a whole time was left at `at`, Unix ms. left: ms; seen:
    whether anything was observed since the point before."""

    at: int
    left: int
    seen: bool


@dataclass(frozen=True)
class Delays:
    """How long something took, ms. p95, median: by nearest rank; all are None if count is 0."""

    count: int = 0
    mean: int | None = None
    p95: int | None = None
    median: int | None = None


@dataclass(frozen=True)
class Figures:
    """The figures of one group in one period.

    incidents: those that overlap the period (for the value of a label, unbroken times in which at
    least one of its assets has an incident of a scenario); assets: how many different assets had
    them; budget: of a single scenario with a target, else None; acknowledged: delays of incidents
    that began in the period; cleared: delays of those that ended in it; flapping: incidents that
    began within FLAP_MS of the asset's previous one; false_alarms: pending worse states that came
    to nothing, None if they are no longer known; observed: the time that all figures are about: if
    nothing was seen, none has a meaning.
    """

    times: Times
    incidents: int
    assets: int
    budget: ErrorBudget | None
    acknowledged: Delays
    cleared: Delays
    flapping: int
    false_alarms: int | None
    observed: Observed

    @property
    def target_met(self) -> bool | None:
        """Whether the target is met; None if there is none, or nothing to judge it by."""
        known = self.observed.seen and self.times.availability is not None
        return self.budget.left >= 0 if self.budget and known else None


@dataclass(frozen=True)
class FigureGroup:
    """The figures of a scenario (name, title), or of a label's value ("": assets without it)."""

    name: str
    title: str
    now: Figures
    before: Figures

    @property
    def comparable(self) -> bool:
        """Whether the periods can be compared: enough of both was observed, and before there were
        assets."""
        both = self.now.observed.comparable and self.before.observed.comparable
        return both and self.before.times.present > 0


@dataclass(frozen=True)
class TargetStatus:
    """How a scenario with a target did in the period. line: from its beginning, with all of the
    budget, by days, or by hours of a single day; burn: by BURN_WINDOWS, none of a time to come."""

    scenario: str
    title: str
    figures: Figures
    budget: ErrorBudget
    line: tuple[BudgetPoint, ...] = ()
    burn: tuple[Burn, ...] = ()


class WorstAsset(NamedTuple):
    """An asset with much time in bad states. before: its bad time in the period before, ms; None
    if nothing of that was observed."""

    scenario: str
    asset: str
    bad: int
    unconfirmed: int
    incidents: int
    before: int | None


class LongIncident(NamedTuple):
    """An incident for a timeline. id: of its page; ended_at: None while it goes on; label: the
    asset's value of the question's label; within: how much of it lies in the period, ms."""

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
    """A state that somebody pinned. until: the end that was given, None for no end; ended: when
    another command ended it before that, or None."""

    at: int
    scenario: str
    asset: str
    state: str
    username: str
    reason: str
    until: int | None
    ended: int | None = None


class BulkRun(NamedTuple):
    """One command for many assets. id: of its page; state: the one that was set, "" for none;
    applied: to how many of the matching assets it was applied."""

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
    """A day of the period and its bad time, ms; None for a day that has not begun, or on which
    nothing was observed. ms: how long it is up to now; unobserved: how much of that was not
    observed, ms."""

    day: date
    bad: int | None
    ms: int
    unobserved: int = 0

    @property
    def share(self) -> float:
        """The part of it that was observed up to now, 0 to 1."""
        return 1 - self.unobserved / self.ms if self.ms else 0.0


@dataclass(frozen=True)
class PeriodSummary:
    """The answer to a question.

    span, before: the times that are counted; running: whether the period goes on (both are clipped
    then); raw_since: where raw history begins, before which only roll-ups exist (None: there is
    none yet); counting: the scenarios in the total: those whose states have severity, if any is
    asked for; first_at: when the first asset of these came onto the board, None if none ever did;
    unobserved: the parts of the span that were not observed; summed_to: where roll-ups end, after
    which raw history is counted; computed_at: when it was computed; zone: the reporting zone;
    whole: the total; week: bad ms by weekday (Monday first) and hour, None where nothing was
    observed; week_unobserved: how much was not observed, ms; *_total: how many there are of what is
    listed; empty: whether no asset of these scenarios was on the board in the period; targets: of
    the scenarios that have one; next_zone: the one that is being summed up, empty if it is `zone`.
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
    targets: tuple[TargetStatus, ...] = ()
    next_zone: str = ""

    @property
    def counted(self) -> tuple[FigureGroup, ...]:
        """The groups of the scenarios in the total."""
        return tuple(each for each in self.scenarios if each.name in self.counting)

    @property
    def targeted(self) -> tuple[FigureGroup, ...]:
        """Those of them that have a target, missed ones first and those not judged last."""
        order = {False: 0, True: 1, None: 2}
        groups = (each for each in self.counted if each.now.budget)
        return tuple(sorted(groups, key=lambda each: order[each.now.target_met]))


# ---- explanations --------------------------------------------------------------------------------
# How each figure of a summary is counted, in a few sentences; docs/summary.md has all of it.

EXPLAINED = {
    "availability": (
        "The time in good states, divided by the time in good and bad states, added up "
        "over all assets. Unconfirmed time and maintenance are in neither."
    ),
    "budget": (
        "What the target leaves for bad time: of a target of 99.5 %, half a percent of "
        "the good and bad time that was observed so far. What was bad is taken off it. "
        "Each scenario has its own: what one has left helps no other."
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
        "began in the period and were acknowledged. Half of them took no longer than the first "
        "figure, 95 of 100 no longer than the second; a single long one moves neither."
    ),
    "cleared": (
        "From the beginning of an incident to its end, of those that ended in the period. Half "
        "of them took no longer than the first figure, 95 of 100 no longer than the second."
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
    "targets": (
        "The line begins with the whole error budget and falls with bad time; what is hatched was "
        "not observed. A burn rate of 1 spends just the budget, and 2 in half the time."
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
        "one: unbroken times in which at least one of its assets had one, scenario by scenario."
    ),
    "overrides": "States that somebody pinned in the period, by hand, with their reason.",
    "runs": "Commands for many assets at once that were started in the period.",
}
