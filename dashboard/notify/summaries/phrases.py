"""The figures of a summary in words, and how they have changed since the period before."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import floor
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.text import whole_percent
from dashboard.core.common.times import duration, zoned
from dashboard.notify.summaries.figures import (
    Burn,
    ErrorBudget,
    FigureGroup,
    Figures,
    Observed,
    PeriodSummary,
)
from dashboard.notify.summaries.models import FigureCheck
from dashboard.notify.summaries.raw_history import first_record, ms_within, unobserved
from domain.history.periods import DATES, DAY, Period, Span
from domain.scenario import INCIDENT, Scenario

NOTHING = "–"
"""Shown if there is no such figure."""
NOT_OBSERVED = "not observed"
"""Shown if nothing was observed for a figure."""

Verdict = Literal["better", "worse", "same"]


class FigureTrend(NamedTuple):
    """How a figure differs from the period before. verdict: "" if neither is better."""

    words: str
    arrow: str = ""
    verdict: str = ""


def percent(share: float | None) -> str:
    """Return a share as a percentage, `99.512 %`, never rounded up to the whole."""
    if share is None:
        return NOTHING
    return f"{floor(share * 100_000 + 1e-6) / 1_000:.3f}".rstrip("0").rstrip(".") + " %"


def points(difference: float) -> str:
    """Return a difference between shares in percentage points: `0.41 points`."""
    text = f"{abs(difference) * 100:.3f}".rstrip("0").rstrip(".") or "0"
    return f"{text} point{'' if text == '1' else 's'}"


def target(value: float) -> str:
    """Return a target as a percentage: `99.5 %`."""
    return f"{value:g} %"


def verdict(of: Figures) -> str:
    """Return a target and whether it is met, `99.5 %, missed`."""
    if of.budget is None:
        return NOTHING
    judged = {True: ", met", False: ", missed", None: ""}
    return target(of.budget.target) + judged[of.target_met]


def length(ms: int | None) -> str:
    """Return a duration (ms) in words, with a minus sign if it is negative."""
    if ms is None:
        return NOTHING
    return f"−{duration(-ms)}" if ms < 0 else duration(ms)


def checked(check: FigureCheck | None, summary: PeriodSummary) -> str:
    """Return a sentence about the last check of all figures."""
    if check is None:
        return "Never checked against the changes of states."
    at = zoned(check.begun_at, ZoneInfo(summary.zone))
    old = ", more than two days ago" if check.is_old(summary.computed_at) else ""
    outcome = count(check.differences, "difference") if check.differences else "no difference"
    return f"Checked at {at} against the changes of states{old}: {outcome}."


def exact(ms: int) -> str:
    """Return a duration (ms) with nothing rounded: `27 h 05 m 04 s`, `1.25 s`."""
    minutes, rest = divmod(ms, 60_000)
    seconds = f"{rest // 1_000}.{rest % 1_000:03d}".rstrip("0").rstrip(".")
    if not minutes:
        return f"{seconds} s"
    whole, _, part = seconds.partition(".")
    seconds = f"{whole.zfill(2)}{part and '.'}{part}"
    if minutes < 60:
        return f"{minutes} m {seconds} s"
    return f"{minutes // 60:,} h {minutes % 60:02d} m {seconds} s"


def count(n: int, one: str) -> str:
    """Return a number with its noun: `1 incident`, `1,204 incidents`."""
    return f"{n:,} {one if n == 1 else plural(one)}"


def plural(noun: str) -> str:
    """Return the plural of a noun: `incidents`, `breaches`."""
    return f"{noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def incident_noun(summary: PeriodSummary) -> str:
    """Return the word for a summary's incidents: the scenario's own, if it is of one alone."""
    nouns = [scenarios()[name].incident for name in summary.counting]
    return nouns[0] if len(nouns) == 1 else INCIDENT


def period_title(period: Period) -> str:
    """Return a period's name: `2026-01-31`, `2026-01-31 to 2026-02-02`, `Week 5 of 2026`."""
    if period.unit not in (DAY, DATES):
        return period.title
    return str(period.first) if period.days == 1 else days_in_words(period)


def days_in_words(period: Period) -> str:
    """Return the days of a period, `2026-11-16 to 2026-11-22`; for one day, with its weekday."""
    if period.days == 1:
        return f"{period.first:%A} {period.first}"
    return f"{period.first} to {period.last}"


def gap_note(names: Collection[str], begin: int | None, end: int | None, now: int) -> str:
    """Return a sentence about how much of the time of a list was not observed; "" if there is
    nothing to say. names: of scenarios; times in Unix ms, None if the list is open-ended."""
    firsts = {name: first_record(name) for name in names}
    first = min((at for at in firsts.values() if at is not None), default=now)
    since, until = first if begin is None else begin, now if end is None else end
    gone = ms_within(unobserved(firsts, Span(since, min(until, now))), since, now)
    gone += max(0, until - max(since, now))
    if gone <= 0:
        return ""
    if gone >= until - since:
        return "Nothing of this time was observed."
    return f"Of this time, {duration(gone)} were not observed."


def bad_states(scenario: Scenario) -> str:
    """Return the labels of a scenario's bad states, `Under attack or Suspicious`; "" if it has
    none."""
    labels = [spec.label for spec in scenario.states if not scenario.is_good(spec.name)]
    return " or ".join(filter(None, (", ".join(labels[:-1]), *labels[-1:])))


def bad_states_of(summary: PeriodSummary) -> str:
    """Return the bad states of a summary's scenarios, with the scenarios' titles if several."""
    words = {name: bad_states(scenarios()[name]) for name in summary.counting}
    if len(words) == 1:
        return next(iter(words.values()))
    return "; ".join(f"{scenarios()[name].title}: {text}" for name, text in words.items() if text)


def observed(own: Observed) -> str:
    """Return how much of a time was observed: `7 d 00 h`, `12 m 00 s of 3 d 01 h (0.2 %)`."""
    if not own.seen:
        return NOT_OBSERVED
    if own.complete:
        return duration(own.ms)
    tenths = floor(own.share * 1_000)
    share = f"{tenths / 10:g} %" if tenths else "under 0.1 %"
    return f"{duration(own.ms)} of {duration(own.whole)} ({share})"


def burn(own: Burn) -> str:
    """Return a burn rate, `2.4 ×`; with how much was observed, if not all of its window was."""
    if not own.observed.seen:
        return NOT_OBSERVED
    if own.rate is None:
        return NOTHING
    part = "" if own.observed.complete else f" of {duration(own.observed.ms)}"
    return f"{own.rate:,.1f} ×{part}"


# ---- differences --------------------------------------------------------------------------------


def changed(
    now: float | None,
    before: float | None,
    text: Callable[[float], str],
    *,
    less_is: str = "better",
) -> FigureTrend | None:
    """Return how a figure differs; None if either is missing. text: formats a difference without
    its sign, and may return "" if it is not worth mentioning; less_is: "better", "worse", or "" for
    neither."""
    if now is None or before is None:
        return None
    difference = now - before
    words = text(abs(difference)) if difference else ""
    if not words:
        return FigureTrend("as before")
    verdicts = {"better": ("better", "worse"), "worse": ("worse", "better"), "": ("", "")}
    less, more = verdicts[less_is]
    if difference < 0:
        return FigureTrend(f"{words} less", "arrow-down", less)
    return FigureTrend(f"{words} more", "arrow-up", more)


def of_number(difference: float) -> str:
    """Return a difference between counts in words."""
    return f"{difference:,.0f}"


def of_time(difference: float) -> str:
    """Return a difference between durations (ms) in words; empty below a second."""
    return duration(int(difference)) if difference >= 1_000 else ""


def of_share(difference: float) -> str:
    """Return a difference between shares in words; empty if it is too small to show."""
    return points(difference) if difference >= 5e-6 else ""


# ---- the sentence -------------------------------------------------------------------------------


def sentence(summary: PeriodSummary) -> str:
    """Return how the period went, in plain words."""
    now = summary.whole.now
    if not now.observed.seen:
        return " ".join((f"Not observed: {why_unobserved(summary)}.", *_targets(summary)))
    if summary.empty:
        return f"No asset was on the board in this time.{_part_observed(summary)}"
    parts = (
        _incidents(summary),
        _available(summary) + _part_observed(summary),
        *_targets(summary),
    )
    return " ".join(parts)


def why_unobserved(summary: PeriodSummary) -> str:
    """Return why nothing was observed in a summary's time."""
    if summary.first_at is None:
        titles = " or ".join(scenarios()[name].title for name in summary.counting)
        return f"no asset of {titles} was ever on the board"
    if not summary.span.ms:
        return "this time has not begun"
    if summary.span.end <= summary.first_at:
        return f"the first record is from {zoned(summary.first_at, ZoneInfo(summary.zone))}"
    return "the job sent no heartbeat"


def _part_observed(summary: PeriodSummary) -> str:
    """Return a sentence about how much was observed, to follow another; empty if all was."""
    own = summary.whole.now.observed
    return "" if own.complete else f" {observed(own)} were observed."


def uncompared(summary: PeriodSummary) -> str:
    """Return why a summary is compared with nothing, to follow `and`; empty if it is."""
    if summary.whole.comparable:
        return ""
    name, before = before_name(summary).partition(",")[0], summary.whole.before
    if not before.observed.seen or not before.times.present:
        return f"there is nothing from {name} to compare with"
    if not before.observed.comparable:
        return f"too little of {name} was observed for a comparison"
    return f"too little was observed for a comparison with {name}"


def before_name(summary: PeriodSummary) -> str:
    """Return the name of the period before: `the week before`."""
    unit = summary.question.period.unit
    if unit == DATES:
        name = count(summary.question.period.days, "day")
        name = f"the {name} before"
    else:
        name = f"the {unit} before"
    return f"{name}, up to the same time" if summary.running and unit != DAY else name


def _available(summary: PeriodSummary) -> str:
    name, whole = before_name(summary), summary.whole
    share, last = whole.now.times.availability, whole.before.times.availability
    if share is None:
        return "No asset had a confirmed state in this time."
    words = f"Assets were in a good state for {percent(share)} of the time"
    if why := uncompared(summary):
        return f"{words}; {why}."
    if last is None:
        return f"{words}."
    if abs(share - last) < 5e-6:
        return f"{words}, as in {name}."
    direction = "better" if share > last else "worse"
    return f"{words}, {points(share - last)} {direction} than {name}."


def _incidents(summary: PeriodSummary) -> str:
    now, before, noun = summary.whole.now, summary.whole.before, incident_noun(summary)
    if not now.incidents:
        known = before.incidents and summary.whole.comparable
        after = f", after {before.incidents:,} {before_name(summary)}" if known else ""
        return f"There was no {noun}{after}."
    words = f"There {'was' if now.incidents == 1 else 'were'} {count(now.incidents, noun)}"
    words = f"{words} on {count(now.assets, 'asset')}{_by_scenario(summary)}"
    if not summary.whole.comparable:
        return f"{words}."
    difference = now.incidents - before.incidents
    if not difference:
        return f"{words}, as many as {before_name(summary)}."
    more = f"{abs(difference):,} {'more' if difference > 0 else 'fewer'}"
    return f"{words}, {more} than {before_name(summary)}."


def _by_scenario(summary: PeriodSummary) -> str:
    """Return how many incidents each scenario had; empty if there is only one scenario."""
    if len(summary.counted) < 2:
        return ""
    return f" ({', '.join(map(_number_of, summary.counted))})"


def _number_of(group: FigureGroup) -> str:
    """Return how many incidents one of several scenarios had, by its own word for them."""
    noun, n = scenarios()[group.name].incident, group.now.incidents
    if not group.now.observed.seen:
        return f"{group.title} {NOT_OBSERVED}"
    return f"{group.title} {n:,}" if noun == INCIDENT else count(n, noun)


def _targets(summary: PeriodSummary) -> list[str]:
    """Return whether the targets are met: a sentence about all of them, or none."""
    if len(summary.counted) == 1:
        return [_target("The target", each.now) for each in summary.targeted]
    clauses = "; ".join(_clause(each) for each in summary.targeted)
    return [f"{'So far, ' if summary.running else ''}{clauses}."] if clauses else []


def _clause(group: FigureGroup) -> str:
    """Return whether one of several scenarios met its target."""
    budget, own = group.now.budget, group.now
    if budget is None:
        return ""
    many = group.title.endswith("s") and not group.title.endswith("ss")
    name = f"{'their' if many else 'its'} target of {target(budget.target)}"
    if own.target_met is None:
        return f"{group.title} cannot be judged by {name}, as {_why_unjudged(own)}"
    if own.target_met:
        return f"{group.title} met {name}{_over(own)}{_left(budget)}"
    return f"{group.title} missed {name} by {_short_of(own)}{_over(own)}"


def _target(name: str, of: Figures) -> str:
    budget = of.budget
    if budget is None:
        return ""
    name = f"{name} of {target(budget.target)} is"
    if of.target_met is None:
        return f"{name} not judged, as {_why_unjudged(of)}."
    if of.target_met:
        return f"{name} met{_over(of)}{_left(budget)}."
    more = f"{duration(-budget.left)} more than the error budget was spent"
    return f"{name} missed by {_short_of(of)}{_over(of)}: {more}."


def _why_unjudged(of: Figures) -> str:
    return "no asset had a confirmed state" if of.observed.seen else "nothing was observed"


def _over(of: Figures) -> str:
    own = of.observed
    return "" if own.complete else f" in the {duration(own.ms)} that were observed"


def _left(budget: ErrorBudget) -> str:
    if budget.share is None:
        return ""
    return f", with {whole_percent(budget.share)} of the error budget left"


def _short_of(of: Figures) -> str:
    """Return by how much the availability is below the target."""
    goal = of.budget.target / 100 if of.budget else 0
    return of_share(goal - (of.times.availability or 0)) or "less than 0.001 points"
