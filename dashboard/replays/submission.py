"""A reviewed plan, asked of the job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Max
from django.http import HttpRequest

from dashboard.audit.log import Actor, note
from dashboard.core.times import now_ms
from dashboard.job.models import BucketStatus, JobAsk
from dashboard.job.requests import send
from dashboard.replays.models import Replay
from dashboard.replays.plan import Choice, Plan
from dashboard.replays.status import dump_parts


def ask(request: HttpRequest, plan: Plan, given: Mapping[str, Any]) -> JobAsk:
    """Send it, and write the replay down; the same one again is not sent again.

    given: `id` and `reason` of the form. Raises limits.TooMany.
    """
    user, choice, now = request.user, plan.choice, now_ms()
    assert isinstance(user, User)
    epoch = BucketStatus.objects.filter(engine=choice.query).aggregate(at=Max("epoch"))["at"]
    sent = send(
        choice.query, plan.action, given["reason"], given["id"], user, now, plan.parameters()
    )
    _, made = Replay.objects.get_or_create(
        id=sent.pk,
        defaults={
            "query": choice.query,
            "scenario": choice.scenario,
            "start": start_words(choice),
            "reason": given["reason"],
            "username": user.get_username(),
            "asked_at": now,
            "whole": plan.whole,
            "epoch": epoch or 0,
            "plan": dump_parts(plan),
        },
    )
    if made:
        _note(request, plan, sent, given["reason"])
    return sent


def _note(request: HttpRequest, plan: Plan, sent: JobAsk, reason: str) -> None:
    note(
        Actor.of(request),
        f"job.{plan.action}",
        scenario=plan.choice.scenario,
        target=plan.choice.query,
        outcome=sent.status,
        reason=reason,
        start=start_words(plan.choice),
        records=plan.records,
        forgets=plan.left if not plan.whole else None,
        bound=plan.choice.bound,
        id=str(sent.pk),
    )


def start_words(choice: Choice) -> str:
    """Where it was to begin."""
    match choice.start:
        case "earliest":
            return "the beginning of the log"
        case "time":
            at = datetime.fromtimestamp(choice.time / 1000, UTC)
            return f"{at:%Y-%m-%d %H:%M:%S} UTC"
        case _:
            return "given offsets" + (", without state" if choice.exactly else "")
