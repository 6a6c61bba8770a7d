"""Digests of which it is time, into the outbox: each once, a missed one late. Times in Unix ms."""

from __future__ import annotations

import structlog
from django.db import transaction
from django.db.models import QuerySet

from dashboard.core.roles import lapsed
from dashboard.core.scenarios import scenarios
from dashboard.core.times import HOUR_MS
from dashboard.digests.content import Content, Lateness, content_of
from dashboard.digests.models import EVERY, Issue, Subscription
from dashboard.digests.schedule import Plan, between, due_at, newest_due
from dashboard.digests.unsubscribe import headers_of, url_of
from dashboard.notifications.outbox import Draft, put, targets_of_user
from dashboard.summaries.calculation import summary
from dashboard.summaries.figures import Question
from dashboard.summaries.targets import reporting_zone
from domain.history.periods import Period, containing

log = structlog.get_logger(__name__)

LATE_MS = HOUR_MS
"""A digest that is sent this long after it was due says so."""


def send_due(now: int) -> int:
    """Put what is due at `now` into the outbox. Returns how many digests. What fails hinders no
    other. Raises ExceptionGroup of all that failed."""
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
    """Put the newest digest that is due into the outbox, unless it is there, or was due before the
    subscription. Returns whether it did."""
    plan = plan_of(subscription)
    zone = reporting_zone()
    period = newest_due(plan, zone, now)
    due = due_at(period, plan, zone)
    if due < subscription.since or _issues(subscription).filter(first__gte=period.first).exists():
        return False
    user = subscription.user
    targets = targets_of_user(user, ["mail"])
    if not targets or lapsed(user.pk, user.username, "read"):
        return False
    late = max(0, now - due)
    content = _content(subscription, period, _lateness(subscription, period, due, late))
    draft = Draft("digest", content.subject, content.text(), subscription.scenario, content.html(),
                  headers_of(subscription), why=f"digest, {EVERY[plan.every]}")  # fmt: skip
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


def plan_of(subscription: Subscription) -> Plan:
    """Return when a subscription is due."""
    return Plan(subscription.every, subscription.weekday, subscription.hour)


def _issues(subscription: Subscription) -> QuerySet[Issue]:
    return subscription.issues.filter(every=subscription.every)


def _lateness(subscription: Subscription, period: Period, due: int, late: int) -> Lateness | None:
    """Return why a digest comes late; None for one in time."""
    if late < LATE_MS:
        return None
    last = _issues(subscription).order_by("-first").first()
    before = containing(subscription.every, last.first) if last else None
    return Lateness(due, between(period, before))


def _content(subscription: Subscription, period: Period, late: Lateness | None) -> Content:
    found = summary(Question((subscription.scenario,), period))
    title = scenarios()[subscription.scenario].title
    every = EVERY[subscription.every]
    return content_of(found, title, every, url_of(subscription), late)
