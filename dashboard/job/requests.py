"""Requests to the job: kept, sent to `job.control`, settled by its answers. Times in Unix ms.

A request is `sending` until Kafka has confirmed it (`sent`) or cannot have it (`unsent`); the job's
answers make it `accepted`, and at last one of SETTLED. Each step is a conditional update, so that
an answer which is faster than Kafka's confirmation stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import msgspec
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet

from dashboard.core.kafka_delivery import Delivery, deliver
from dashboard.core.kafka_gateway import gateway
from dashboard.core.rate_limits import Limit
from dashboard.job.models import SETTLED, JobRequest, TrackedRequest
from wire.job import MAX_REASON, Action, Answer, Control, encode

REQUESTS = Limit("job-requests", 20)


def send(
    query: str,
    action: Action,
    user: User,
    now: int,
    *,
    reason: str = "",
    id_: UUID | None = None,
    parameters: Mapping[str, Any] | None = None,
    detail: Model | None = None,
) -> tuple[JobRequest, bool]:
    """Store a request and send it. Returns it, and whether it is new: the same id is sent once.

    parameters: what the action needs besides, at most `MAX_PARAMETERS` bytes of JSON; detail: the
    row of the same id in which a page keeps more of the request, saved together with it.

    Raises rate_limits.TooMany. Where Kafka does not answer the request's status says so.
    """
    id_ = id_ or uuid4()
    if known := JobRequest.objects.filter(pk=id_).first():
        return known, False
    REQUESTS.take(user.pk, now)
    values = dict(parameters or {})
    request = JobRequest(
        id=id_,
        query=query,
        action=action,
        user=user,
        username=user.get_username(),
        reason=reason,
        asked_at=now,
        status="sending",
        parameters=msgspec.json.encode(values).decode() if values else "",
    )
    try:
        with transaction.atomic():
            request.save(force_insert=True)
            if detail is not None:
                detail.save(force_insert=True)
    except IntegrityError:  # the same form, sent twice at once
        return JobRequest.objects.get(pk=id_), False
    record = Control(str(id_), query, action, request.username, reason, values)
    delivery = deliver(gateway().topics.control, query.encode(), encode(record))
    note_delivery(JobRequest.objects.filter(pk=id_), delivery)
    if isinstance(detail, TrackedRequest):
        note_delivery(type(detail)._default_manager.filter(pk=id_), delivery)  # noqa: SLF001
    request.refresh_from_db()
    return request, True


def note_delivery(rows: QuerySet[Any], delivery: Delivery) -> bool:
    """Record how sending went. Returns whether it was recorded: an answer may have been faster."""
    waiting = rows.filter(status="sending")
    return bool(waiting.update(status=delivery.status, outcome=delivery.text[:MAX_REASON]))


def settle(rows: QuerySet[Any], answer: Answer, at: int, **more: Any) -> bool:
    """Record an answer to one of these requests, and `more` fields. Returns whether it did.

    An answer changes nothing where its request is settled, or was sent by another program.
    """
    try:
        waiting = rows.filter(pk=UUID(answer.id)).exclude(status__in=SETTLED)
    except ValueError:
        return False
    answered_at = None if answer.outcome == "accepted" else at
    fields = {"status": answer.outcome, "outcome": answer.why, "answered_at": answered_at}
    return bool(waiting.update(**fields, **more))
