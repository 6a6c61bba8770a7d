"""What a summary says. All durations in ms, all times in Unix ms; docs/summary.md has the meaning.

`dashboard.summaries.calculation.summary` answers a question.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from domain.history.periods import Period, Span

MOST_WORST = 50
"""Most assets that are named as the worst."""
MOST_INCIDENTS = 500
"""Most incidents that are listed, the longest within the period."""
MOST_DEEDS = 500
"""Most overrides, and most bulk runs, that are listed, the newest."""
MOST_VALUES = 200
"""Most values of a label, those with most bad time."""
FLAP_MS = 15 * 60_000
"""An incident that begins sooner than this after the one before it of its asset is flapping."""


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


class Budget(NamedTuple):
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
    budget: Budget | None
    acknowledged: Delays
    cleared: Delays
    flapping: int
    false_alarms: int
    observed: Observed


@dataclass(frozen=True)
class Group:
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


class Override(NamedTuple):
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
class Summary:
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
    whole: Group
    scenarios: tuple[Group, ...] = ()
    labels: tuple[Group, ...] = ()
    labels_total: int = 0
    heat: tuple[HeatDay, ...] = ()
    week: tuple[tuple[int | None, ...], ...] = ()
    week_unobserved: tuple[tuple[int, ...], ...] = ()
    worst: tuple[WorstAsset, ...] = ()
    incidents: tuple[LongIncident, ...] = ()
    incidents_total: int = 0
    overrides: tuple[Override, ...] = ()
    overrides_total: int = 0
    runs: tuple[BulkRun, ...] = ()
    runs_total: int = 0
    empty: bool = False
    first_at: int | None = None
    counting: tuple[str, ...] = ()
    unobserved: tuple[Span, ...] = ()

    @property
    def counted(self) -> tuple[Group, ...]:
        """The scenarios that make up the whole."""
        return tuple(each for each in self.scenarios if each.name in self.counting)
