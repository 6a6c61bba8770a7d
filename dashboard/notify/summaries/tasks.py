"""The worker's tasks for summaries and digests."""

from __future__ import annotations

import subprocess
import sys
import time

from celery import shared_task
from django.conf import settings
from django.db.models import F

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.notify.summaries.budgets import watch
from dashboard.notify.summaries.calculation import keep_answer
from dashboard.notify.summaries.digests import send_due
from dashboard.notify.summaries.figures import Question
from dashboard.notify.summaries.models import FigureCheck, Progress, ReportingZone
from dashboard.notify.summaries.rollups import sum_up_day
from dashboard.watch.annotations.labels import states
from domain.history.periods import UNITS, containing, day_of

# ---- summaries -----------------------------------------------------------------------------------
# The worker's task for summaries. It may run twice, or be interrupted and run again.

BUDGET_S = 4.0
"""How long one run may continue with further days."""


@shared_task(ignore_result=True)
def sum_up() -> int:
    """Sum up the hours that have ended, and those that have changed; runs every few seconds.

    Return how many days of scenarios were summed up.
    """
    done, until = 0, time.monotonic() + BUDGET_S
    for name in scenarios():
        while time.monotonic() < until and sum_up_day(name, now_ms()):
            done += 1
    if time.monotonic() < until and (summed := _unanswered()):
        keep_answers(now_ms())
        for name, to in summed.items():
            Progress.objects.filter(scenario=name, summed_to__gte=to).update(answered_to=to)
    return done


def _unanswered() -> dict[str, int]:
    """Return up to when scenarios without kept answers are summed up, Unix ms."""
    summed = Progress.objects.filter(scenario__in=list(scenarios()), summed_to__isnull=False)
    behind = summed.exclude(answered_to=F("summed_to"), answered_to__isnull=False)
    return {row.scenario: row.summed_to for row in behind if row.summed_to is not None}


def keep_answers(now: int) -> None:
    """Calculate the summaries of the periods that go on at `now` (Unix ms), so that their slow
    parts are kept before a page needs them: of all scenarios together, and by the labels that
    boards show."""
    today = day_of(now, ReportingZone.objects.current())
    known = states()
    keys = sorted({key for name in scenarios() if name in known for key in known[name].chips})
    for unit in UNITS:
        for label in ("", *keys):
            keep_answer(Question(tuple(scenarios()), containing(unit, today), label), now)


@shared_task(ignore_result=True)
def watch_budgets() -> None:
    """Report the error budgets that began or ceased to burn too fast to the rules."""
    watch(now_ms())


@shared_task(ignore_result=True)
def check_nightly() -> bool:
    """Start a process that checks all figures, once a night. Returns whether it was started.

    It takes minutes, and the worker runs one task at a time.
    """
    if not FigureCheck.objects.is_due(now_ms()):
        return False
    manage = str(settings.BASE_DIR / "manage.py")
    subprocess.Popen([sys.executable, manage, "check_summaries"], stdout=subprocess.DEVNULL)
    return True


# ---- digests -------------------------------------------------------------------------------------
# The worker's task for digests. It may run twice, or be interrupted and run again.


@shared_task(ignore_result=True)
def send_digests() -> int:
    """Put the digests that are due into the outbox, and return how many there were."""
    return send_due(now_ms())
