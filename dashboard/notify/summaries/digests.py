"""Digests: when they are due, what they contain, and how they get into the outbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode

from dashboard.core.common.access import lapsed
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import HOUR_MS, duration, utc_minute
from dashboard.core.states.board_rows import asset_path
from dashboard.notify.notifications.outbox import MessageDraft, put, targets_of_user
from dashboard.notify.summaries.calculation import summary
from dashboard.notify.summaries.figures import (
    Delays,
    Figures,
    PeriodSummary,
    Question,
    WorstAsset,
)
from dashboard.notify.summaries.models import EVERY, Issue, ReportingZone, Subscription
from dashboard.notify.summaries.phrases import (
    NOT_OBSERVED,
    NOTHING,
    count,
    incident_noun,
    length,
    observed,
    percent,
    period_title,
    sentence,
    verdict,
)
from domain.history.periods import WEEK, Period, containing, day_of
from domain.wall_clock import wall_time

# ---- schedule ------------------------------------------------------------------------------------
# When digests are due. Pure: the time is an argument, in Unix ms.


class DigestPlan(NamedTuple):
    """When a user wants a digest. every: day or week; weekday: of a weekly one, 0 for Monday; hour:
    in the reporting zone."""

    every: str
    weekday: int
    hour: int


def due_at(period: Period, plan: DigestPlan, zone: ZoneInfo) -> int:
    """Return when the digest of a period is due, Unix ms: the plan's first time after its end."""
    day = period.after + timedelta(days=plan.weekday if plan.every == WEEK else 0)
    return wall_time(day, time(plan.hour), zone)


def newest_due(plan: DigestPlan, zone: ZoneInfo, now: int) -> Period:
    """Return the newest period whose digest is due at `now`."""
    period = containing(plan.every, day_of(now, zone)).before
    while due_at(period, plan, zone) > now:
        period = period.before
    return period


def between(period: Period, last: Period | None) -> int:
    """Return how many periods lie between `last` and `period`; 0 without a last one."""
    return 0 if last is None else max(0, (period.first - last.after).days // period.days)


# ---- content -------------------------------------------------------------------------------------
# The content of a digest: the sentences of the page, figures, and the assets with most bad time.

MOST = 20
"""Most assets in a digest."""


class DigestDelay(NamedTuple):
    """Why a digest is late. due: when it was due, Unix ms; missed: how many before it were never
    sent."""

    due: int
    missed: int

    def words(self) -> str:
        """Return the explanation in one or two sentences."""
        when = utc_minute(self.due)
        text = f"This mail is late: it was due at {when}, but could not be sent then."
        if self.missed:
            text += f" {count(self.missed, 'digest')} before it {_was(self.missed)} left out."
        return text


class DigestAsset(NamedTuple):
    """An asset that lost time. lost, before: durations in words."""

    asset: str
    url: str
    lost: str
    incidents: int
    before: str


class FigureChange(NamedTuple):
    """A figure in this period and in the one before it."""

    name: str
    now: str
    before: str


class Content(NamedTuple):
    """The content of a digest."""

    subject: str
    title: str
    sentence: str
    late: str
    changes: list[FigureChange]
    rows: list[DigestAsset]
    more: int
    summary_url: str
    unsubscribe_url: str
    every: str

    def text(self) -> str:
        """Return the digest as plain text."""
        return "\n".join(_lines(self)) + "\n"

    def html(self) -> str:
        """Return the digest as HTML for mail programs."""
        return render_to_string("summaries/digests/mail.html", self._asdict())


def content_of(
    period_summary: PeriodSummary,
    title: str,
    every: str,
    unsubscribe_url: str,
    late: DigestDelay | None = None,
) -> Content:
    """Return the digest of one scenario's summary. title: the scenario's; every: in words."""
    period = period_summary.question.period
    worst = sorted((each for each in period_summary.worst if each.bad), key=lambda each: -each.bad)
    name = f"{title}, {period_title(period)}"
    return Content(
        f"{name}: {_short(period_summary)}",
        name,
        sentence(period_summary),
        late.words() if late else "",
        list(_changes(period_summary.whole.now, period_summary.whole.before)),
        [_row(each, period_summary.whole.before) for each in worst[:MOST]],
        max(0, period_summary.whole.now.assets - MOST) if len(worst) > MOST else 0,
        summary_url(period_summary.question.scenarios[0], period),
        unsubscribe_url,
        every,
    )


def summary_url(scenario: str, period: Period) -> str:
    """Return the address of the summary page with the same figures."""
    query = urlencode({"period": period.unit, "date": period.first.isoformat(),
                       "scenario": scenario})  # fmt: skip
    return f"{settings.TALLYBOARD.own_url}{reverse('summaries:summary')}?{query}"


def _short(period_summary: PeriodSummary) -> str:
    incidents = period_summary.whole.now.incidents
    if not period_summary.whole.now.observed.seen:
        return NOT_OBSERVED
    if period_summary.empty:
        return "no asset on the board"
    missed = ", target missed" if period_summary.whole.now.target_met is False else ""
    available = f"{percent(period_summary.whole.now.times.availability)}{missed}"
    return f"{count(incidents, incident_noun(period_summary))}, available {available}"


def _row(each: WorstAsset, last: Figures) -> DigestAsset:
    address = f"{settings.TALLYBOARD.own_url}{asset_path(each.scenario, each.asset)}"
    before = duration(each.before) if each.before else "none"
    if not last.observed.seen:
        before = NOT_OBSERVED
    return DigestAsset(each.asset, address, duration(each.bad), each.incidents, before)


def _changes(now: Figures, before: Figures) -> Iterator[FigureChange]:
    """Yield the figures that a digest compares; those of an unobserved period say so."""
    names = ("Observed", "Availability", "Target", "Error budget left", "Incidents",
             "Assets with incidents", "Time in bad states", "Time to acknowledge",
             "Time to all-clear", "Time unconfirmed", "False alarms")  # fmt: skip
    for name, *both in zip(names, _figures(now), _figures(before), strict=True):
        yield FigureChange(name, *both)


def _figures(of: Figures) -> tuple[str, ...]:
    figures = (
        observed(of.observed),
        percent(of.times.availability),
        verdict(of),
        length(of.budget.left if of.budget else None),
        f"{of.incidents:,}",
        f"{of.assets:,}",
        duration(of.times.bad),
        _delay(of.acknowledged),
        _delay(of.cleared),
        duration(of.times.unconfirmed),
        f"{of.false_alarms:,}",
    )
    return figures if of.observed.seen else (NOT_OBSERVED,) * len(figures)


def _delay(of: Delays) -> str:
    """Return how long something took half of the time, and most of the time, in words."""
    if not of.count:
        return NOTHING
    return f"{length(of.median)}; 95 of 100 within {length(of.p95)}"


def _was(n: int) -> str:
    return "was" if n == 1 else "were"


def _lines(content: Content) -> Iterator[str]:
    yield from (content.title, "", content.sentence)
    if content.late:
        yield from ("", content.late)
    if content.rows:
        yield from ("", "Assets by time in bad states", "")
        yield from _columns(
            ("asset", "in bad states", "incidents", "before"),
            [(row.asset, row.lost, f"{row.incidents:,}", row.before) for row in content.rows],
        )
    if content.more:
        yield f"... and {content.more:,} more"
    yield from ("", "Figures", "")
    yield from _columns(("", "now", "before"), content.changes)
    yield from ("", f"All figures: {content.summary_url}")
    yield from ("", f"You get this {content.every}. Unsubscribe: {content.unsubscribe_url}")


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with aligned columns."""
    table = [head, *rows]
    widths = [max(len(row[n]) for row in table) for n in range(len(head))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


# ---- digests -------------------------------------------------------------------------------------
# Digests that are due are put into the outbox: each once, a missed one late. Times in Unix ms.

log = structlog.get_logger(__name__)

LATE_MS = HOUR_MS
"""A digest sent this long after it was due says that it is late."""


def send_due(now: int) -> int:
    """Put the digests that are due at `now` into the outbox, and return how many there were.

    One that fails does not stop the others. Raises ExceptionGroup with all failures.
    """
    sent, failures = 0, []
    known = Subscription.objects.filter(scenario__in=scenarios())
    for subscription in known.select_related("user"):
        try:
            sent += send_newest(subscription, now)
        except Exception as error:
            log.exception("a digest was not sent", subscription=subscription.pk)
            failures.append(error)
    if failures:
        raise ExceptionGroup("digests were not sent", failures)
    return sent


def send_newest(subscription: Subscription, now: int) -> bool:
    """Put the newest digest that is due into the outbox, and return whether that was done.

    Nothing is done if it was sent before, if it was due before the subscription, or if the user has
    no address or no access any more.
    """
    plan = plan_of(subscription)
    zone = ReportingZone.objects.current()
    period = newest_due(plan, zone, now)
    due = due_at(period, plan, zone)
    if (
        due < subscription.since
        or subscription.current_issues.filter(first__gte=period.first).exists()
    ):
        return False
    user = subscription.user
    targets = targets_of_user(user, ["mail"])
    if not targets or lapsed(user.pk, user.username, "read"):
        return False
    late = max(0, now - due)
    content = _content(subscription, period, _lateness(subscription, period, due, late))
    draft = MessageDraft(
        "digest",
        content.subject,
        content.text(),
        subscription.scenario,
        content.html(),
        subscription.mail_headers,
        why=f"digest, {EVERY[plan.every]}",
    )
    with transaction.atomic():
        _, new = Issue.objects.get_or_create(
            subscription=subscription,
            every=plan.every,
            first=period.first,
            defaults={"at": now, "late": late},
        )
        if new:
            key = f"digest:{subscription.pk}:{plan.every}:{period.first}"
            put(targets[0], draft, now, dedupe=key)
    return new


def plan_of(subscription: Subscription) -> DigestPlan:
    """Return the plan of a subscription."""
    return DigestPlan(subscription.every, subscription.weekday, subscription.hour)


def _lateness(
    subscription: Subscription, period: Period, due: int, late: int
) -> DigestDelay | None:
    """Return why a digest is late; None if it is in time."""
    if late < LATE_MS:
        return None
    last = subscription.current_issues.order_by("-first").first()
    before = containing(subscription.every, last.first) if last else None
    return DigestDelay(due, between(period, before))


def _content(subscription: Subscription, period: Period, late: DigestDelay | None) -> Content:
    period_summary = summary(Question((subscription.scenario,), period))
    title = scenarios()[subscription.scenario].title
    every = EVERY[subscription.every]
    return content_of(period_summary, title, every, subscription.unsubscribe_url, late)
