"""Figures of a summary in words, and what has changed since the period before."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import Literal, NamedTuple

from dashboard.core.times import duration
from dashboard.summaries.figures import Budget, Figures, Summary
from domain.history.periods import DATES, DAY

NOTHING = "–"
"""What is shown where there is no such figure."""

Verdict = Literal["better", "worse", "same"]


class Change(NamedTuple):
    """How a figure differs from the period before. verdict: "" where neither is better."""

    words: str
    arrow: str = ""
    verdict: str = ""


def percent(share: float | None) -> str:
    """Return a share as a percentage, `99.512 %`, never rounded up to the whole."""
    if share is None:
        return NOTHING
    return f"{floor(share * 100_000 + 1e-6) / 1_000:.3f}".rstrip("0").rstrip(".") + " %"


def whole_percent(share: float) -> str:
    """Return a share as a whole percentage, `49 %`, below 0 too."""
    return f"{share * 100:.0f} %".replace("-", "−")


def points(difference: float) -> str:
    """Return a difference of shares in percentage points: `0.41 points`."""
    text = f"{abs(difference) * 100:.3f}".rstrip("0").rstrip(".") or "0"
    return f"{text} point{'' if text == '1' else 's'}"


def target(value: float | None) -> str:
    """Return a target in percent: `99.5 %`."""
    return NOTHING if value is None else f"{value:g} %"


def length(ms: int | None) -> str:
    """Return a duration, with its sign where it is below 0."""
    if ms is None:
        return NOTHING
    return f"−{duration(-ms)}" if ms < 0 else duration(ms)


def count(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 attack`, `1,204 attacks`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


# ---- differences --------------------------------------------------------------------------------


def changed(
    now: float | None,
    before: float | None,
    text: Callable[[float], str],
    *,
    less_is: str = "better",
) -> Change | None:
    """Return how a figure differs; None where one of both is missing. text: of a difference without
    its sign, which may be "" for nothing worth a word; less_is: "better", "worse", or "" for
    neither."""
    if now is None or before is None:
        return None
    difference = now - before
    words = text(abs(difference)) if difference else ""
    if not words:
        return Change("as before")
    verdicts = {"better": ("better", "worse"), "worse": ("worse", "better"), "": ("", "")}
    less, more = verdicts[less_is]
    if difference < 0:
        return Change(f"{words} less", "arrow-down", less)
    return Change(f"{words} more", "arrow-up", more)


def of_number(difference: float) -> str:
    """Return a difference of counts."""
    return f"{difference:,.0f}"


def of_time(difference: float) -> str:
    """Return a difference of durations, ms; nothing below a second."""
    return duration(int(difference)) if difference >= 1_000 else ""


def of_share(difference: float) -> str:
    """Return a difference of shares; nothing where it does not show."""
    return points(difference) if difference >= 5e-6 else ""


# ---- the sentence -------------------------------------------------------------------------------


def sentence(found: Summary) -> str:
    """Return how the period went, in plain words."""
    if found.empty:
        return "No asset was on the board in this time."
    now, before = found.whole.now, found.whole.before
    parts = (
        _available(now, before, before_name(found)),
        _attacked(now, before),
        _budget(now.budget),
    )
    return " ".join(filter(None, parts))


def before_name(found: Summary) -> str:
    """Return what the period before is called: `the week before`."""
    unit = found.question.period.unit
    if unit == DATES:
        name = count(found.question.period.days, "day")
        name = f"the {name} before"
    else:
        name = f"the {unit} before"
    return f"{name}, up to the same time" if found.running and unit != DAY else name


def _available(now: Figures, before: Figures, name: str) -> str:
    share, last = now.times.availability, before.times.availability
    if share is None:
        return "No asset had a confirmed state in this time."
    words = f"Assets were in a good state for {percent(share)} of the time"
    if last is None:
        return f"{words}; there is nothing of {name.partition(',')[0]} to compare with."
    if abs(share - last) < 5e-6:
        return f"{words}, as in {name}."
    verdict = "better" if share > last else "worse"
    return f"{words}, {points(share - last)} {verdict} than {name}."


def _attacked(now: Figures, before: Figures) -> str:
    if not now.attacks:
        after = f", after {before.attacks:,} before" if before.attacks else ""
        return f"There was no attack{after}."
    words = f"There {'was' if now.attacks == 1 else 'were'} {count(now.attacks, 'attack')}"
    words = f"{words} on {count(now.assets, 'asset')}"
    if not before.times.present:
        return f"{words}."
    difference = now.attacks - before.attacks
    if not difference:
        return f"{words}, as many as before."
    return f"{words}, {abs(difference):,} {'more' if difference > 0 else 'fewer'} than before."


def _budget(budget: Budget | None) -> str:
    if budget is None:
        return ""
    met = "The target is" if budget.target is None else f"The target of {target(budget.target)} is"
    if budget.left < 0:
        return f"{met} missed: {duration(-budget.left)} more than the error budget was spent."
    if budget.share is None:
        return f"{met} met."
    return f"{met} met, with {whole_percent(budget.share)} of the error budget left."
