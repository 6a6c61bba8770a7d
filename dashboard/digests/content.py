"""What a digest says: a sentence, what changed, and the assets that lost most time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode

from dashboard.core.times import duration, utc_minute
from dashboard.states.board_rows import asset_path
from dashboard.summaries.figures import Figures, Summary, WorstAsset
from dashboard.summaries.phrases import (
    NOT_OBSERVED,
    bad_states_of,
    count,
    observed,
    percent,
    period_title,
    why_unobserved,
)
from domain.history.periods import Period

MOST = 20
"""Most assets that a digest lists."""


class Lateness(NamedTuple):
    """Why a digest comes late. due: when it was, Unix ms; missed: how many before it were not sent
    at all."""

    due: int
    missed: int

    def words(self) -> str:
        """Return it in a sentence or two."""
        when = utc_minute(self.due)
        text = f"This mail is late: it was due at {when}, and nothing was sent then."
        if self.missed:
            text += f" {count(self.missed, 'digest')} before it {_was(self.missed)} left out."
        return text


class Row(NamedTuple):
    """An asset that lost time. lost, before: in words."""

    asset: str
    url: str
    lost: str
    incidents: int
    before: str


class Change(NamedTuple):
    """A figure, in this period and in the one before it."""

    name: str
    now: str
    before: str


class Content(NamedTuple):
    """What a digest says."""

    subject: str
    sentence: str
    late: str
    changes: list[Change]
    rows: list[Row]
    more: int
    summary_url: str
    unsubscribe_url: str
    every: str

    def text(self) -> str:
        """Return it as plain text."""
        return "\n".join(_lines(self)) + "\n"

    def html(self) -> str:
        """Return it as HTML that a mail program shows."""
        return render_to_string("digests/mail.html", self._asdict())


def content_of(
    found: Summary, title: str, every: str, unsubscribe_url: str, late: Lateness | None = None
) -> Content:
    """Return the digest of a summary of one scenario. title: the scenario's; every: in words."""
    period = found.question.period
    worst = sorted((each for each in found.worst if each.bad), key=lambda each: -each.bad)
    name = f"{title}, {period_title(period)}"
    return Content(
        f"{name}: {_short(found)}",
        f"{name}: {sentence(found)}",
        late.words() if late else "",
        list(_changes(found.whole.now, found.whole.before)),
        [_row(each, found.whole.before) for each in worst[:MOST]],
        max(0, found.whole.now.assets - MOST) if len(worst) > MOST else 0,
        summary_url(found.question.scenarios[0], period),
        unsubscribe_url,
        every,
    )


def summary_url(scenario: str, period: Period) -> str:
    """Return the address of the page with the same figures."""
    query = urlencode({"period": period.unit, "date": period.first.isoformat(),
                       "scenario": scenario})  # fmt: skip
    return f"{settings.TALLYBOARD.own_url}{reverse('summaries:summary')}?{query}"


def sentence(found: Summary) -> str:
    """Return how the time went, in a sentence."""
    now, before = found.whole.now, found.whole.before
    if not now.observed.seen:
        return f"{NOT_OBSERVED}: {why_unobserved(found)}."
    part = "" if now.observed.complete else f" {observed(now.observed)} were observed."
    if found.empty:
        return f"no asset was on the board.{part}"
    words = f"{count(now.incidents, 'incident')} on {count(now.assets, 'asset')}"
    words += f", {duration(now.times.bad)} in bad states{_named(found)}{_trend(now, before)}"
    return f"{words}; available {percent(now.times.availability)}.{part}"


def _named(found: Summary) -> str:
    states = bad_states_of(found)
    return f" ({states})" if states else ""


def _trend(now: Figures, before: Figures) -> str:
    """Return how the time in bad states differs from the one before."""
    difference = now.times.bad - before.times.bad
    if not before.observed.seen or not before.times.present:
        return ", with nothing before to compare with"
    if not difference:
        return ", as much as before"
    return f", {duration(abs(difference))} {'more' if difference > 0 else 'less'} than before"


def _short(found: Summary) -> str:
    incidents = found.whole.now.incidents
    if not found.whole.now.observed.seen:
        return NOT_OBSERVED
    if found.empty:
        return "no asset on the board"
    available = percent(found.whole.now.times.availability)
    return f"{count(incidents, 'incident')}, available {available}"


def _row(each: WorstAsset, last: Figures) -> Row:
    address = f"{settings.TALLYBOARD.own_url}{asset_path(each.scenario, each.asset)}"
    before = duration(each.before) if each.before else "none"
    if not last.observed.seen:
        before = NOT_OBSERVED
    return Row(each.asset, address, duration(each.bad), each.incidents, before)


def _changes(now: Figures, before: Figures) -> Iterator[Change]:
    """Yield the figures that a digest compares; those of a time that was not observed say so."""
    names = ("Observed", "Incidents", "Assets with incidents", "Time in bad states",
             "Availability", "Time unconfirmed", "False alarms")  # fmt: skip
    for name, *both in zip(names, _figures(now), _figures(before), strict=True):
        yield Change(name, *both)


def _figures(of: Figures) -> tuple[str, ...]:
    figures = (
        observed(of.observed),
        f"{of.incidents:,}",
        f"{of.assets:,}",
        duration(of.times.bad),
        percent(of.times.availability),
        duration(of.times.unconfirmed),
        f"{of.false_alarms:,}",
    )
    return figures if of.observed.seen else (NOT_OBSERVED,) * len(figures)


def _was(n: int) -> str:
    return "was" if n == 1 else "were"


def _lines(content: Content) -> Iterator[str]:
    yield content.sentence
    if content.late:
        yield from ("", content.late)
    if content.rows:
        yield from ("", "Assets by time in bad states", "")
        yield from _columns(
            ("asset", "lost", "incidents", "the time before"),
            [(row.asset, row.lost, f"{row.incidents:,}", row.before) for row in content.rows],
        )
    if content.more:
        yield f"... and {content.more:,} more"
    yield from ("", "What changed", "")
    yield from _columns(("", "now", "the time before"), content.changes)
    yield from ("", f"All figures: {content.summary_url}")
    yield from ("", f"You get this {content.every}. To end it: {content.unsubscribe_url}")


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines in which columns stand below each other."""
    table = [head, *rows]
    widths = [max(len(row[n]) for row in table) for n in range(len(head))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
