"""A reviewed plan, requested of the job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import Max
from django.http import HttpRequest

from dashboard.audit.log import Actor, note
from dashboard.core.access import user_of
from dashboard.core.times import now_ms
from dashboard.job.models import BucketStatus, JobRequest
from dashboard.job.requests import send
from dashboard.replays.models import Replay
from dashboard.replays.plan import Choice, Plan
from dashboard.replays.progress import dump_parts


def submit(request: HttpRequest, plan: Plan, fields: Mapping[str, Any]) -> JobRequest:
    """Request a replay and store it; the same id is sent once. Returns its request.

    fields: `id` and `reason` of the form. Raises rate_limits.TooMany.
    """
    user, choice, now = user_of(request), plan.choice, now_ms()
    epoch = BucketStatus.objects.filter(engine=choice.query).aggregate(at=Max("epoch"))["at"]
    replay = Replay(
        id=fields["id"],
        query=choice.query,
        scenario=choice.scenario,
        start=start_words(choice),
        reason=fields["reason"],
        username=user.get_username(),
        asked_at=now,
        whole=plan.whole,
        epoch=epoch or 0,
        plan=dump_parts(plan),
    )
    sent, fresh = send(
        choice.query,
        plan.action,
        user,
        now,
        reason=replay.reason,
        id_=replay.pk,
        parameters=plan.parameters(),
        detail=replay,
    )
    if fresh:
        _note(request, plan, sent, replay.reason)
    return sent


def _note(request: HttpRequest, plan: Plan, sent: JobRequest, reason: str) -> None:
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
    """Return where it was to begin."""
    match choice.start:
        case "earliest":
            return "the beginning of the log"
        case "time":
            at = datetime.fromtimestamp(choice.time / 1000, UTC)
            return f"{at:%Y-%m-%d %H:%M:%S} UTC"
        case _:
            return "given offsets" + (", without state" if choice.exactly else "")
