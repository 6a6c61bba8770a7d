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
from dashboard.summaries.phrases import count, percent
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
    attacks: int
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
    return Content(
        f"{title}, {period.title}: {_short(found)}",
        f"{title}, {period.title}: {sentence(found)}",
        late.words() if late else "",
        list(_changes(found.whole.now, found.whole.before)),
        [_row(each) for each in worst[:MOST]],
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
    if found.empty:
        return "no asset was on the board."
    now, before = found.whole.now, found.whole.before
    words = f"{count(now.attacks, 'attack')} on {count(now.assets, 'asset')}"
    words += f", {duration(now.times.bad)} under attack{_trend(now, before)}"
    return f"{words}; available {percent(now.times.availability)}."


def _trend(now: Figures, before: Figures) -> str:
    """Return how the time under attack differs from the one before."""
    difference = now.times.bad - before.times.bad
    if not before.times.present:
        return ", with nothing before to compare with"
    if not difference:
        return ", as much as before"
    return f", {duration(abs(difference))} {'more' if difference > 0 else 'less'} than before"


def _short(found: Summary) -> str:
    attacks = found.whole.now.attacks
    if found.empty:
        return "no asset on the board"
    return f"{count(attacks, 'attack')}, available {percent(found.whole.now.times.availability)}"


def _row(each: WorstAsset) -> Row:
    address = f"{settings.TALLYBOARD.own_url}{asset_path(each.scenario, each.asset)}"
    before = duration(each.before) if each.before else "none"
    return Row(each.asset, address, duration(each.bad), each.attacks, before)


def _changes(now: Figures, before: Figures) -> Iterator[Change]:
    """Yield the figures that a digest compares."""
    yield Change("Attacks", f"{now.attacks:,}", f"{before.attacks:,}")
    yield Change("Assets under attack", f"{now.assets:,}", f"{before.assets:,}")
    yield Change("Time under attack", duration(now.times.bad), duration(before.times.bad))
    shares = (now.times.availability, before.times.availability)
    yield Change("Availability", *map(percent, shares))
    yield Change("Time unconfirmed", duration(now.times.unconfirmed),
                 duration(before.times.unconfirmed))  # fmt: skip
    yield Change("False alarms", f"{now.false_alarms:,}", f"{before.false_alarms:,}")


def _was(n: int) -> str:
    return "was" if n == 1 else "were"


def _lines(content: Content) -> Iterator[str]:
    yield content.sentence
    if content.late:
        yield from ("", content.late)
    if content.rows:
        yield from ("", "Assets by time under attack", "")
        yield from _columns(
            ("asset", "lost", "attacks", "the time before"),
            [(row.asset, row.lost, f"{row.attacks:,}", row.before) for row in content.rows],
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
