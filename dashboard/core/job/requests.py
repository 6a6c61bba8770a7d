"""Requests to the job and their forms: offered, kept, sent, settled by its answers."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID, uuid4

import msgspec
from django import forms
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet
from django.urls import reverse

from dashboard.core.common.access import Limit
from dashboard.core.common.kafka import Delivery, deliver, gateway
from dashboard.core.common.tables import Column, Table
from dashboard.core.job.models import SETTLED, JobRequest, TrackedRequest
from dashboard.core.job.pipelines import PipelineView
from wire.job import EXPIRES_MS, MAX_REASON, Action, Control, JobAnswer, encode

# ---- job -----------------------------------------------------------------------------------------
# The forms of what an admin may request of a query on the job's page.


@dataclass(frozen=True, slots=True)
class ActionOffer:
    """The words of an action that is offered, and of the box that is to be ticked."""

    action: Action
    title: str
    hint: str
    confirm: str


OFFERS = {
    "stop": ActionOffer(
        "stop",
        "Stop",
        "Stops the query cleanly. States stay as they are, reports wait in the log, and it stays "
        "stopped, through restarts of the job too, until it is started.",
        "Yes, freeze the states",
    ),
    "start": ActionOffer(
        "start",
        "Start",
        "Continues from the checkpoint: all records that have waited in the log are applied.",
        "Yes, start it",
    ),
    "reload": ActionOffer(
        "reload",
        "Reload scenarios",
        "Reads scenarios.toml again. Changed rules go into the log and apply from there on; what "
        "is new is started. New labels and scenarios show here once web and materialiser have been "
        "restarted.",
        "Yes, take the file as it is now",
    ),
}


class RequestForm(forms.Form):
    """One action on one query, with its reason and a box to tick. `id`: made with the form."""

    id = forms.UUIDField(widget=forms.HiddenInput)
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")
    confirm = forms.BooleanField(error_messages={"required": "Tick this to continue."})

    def __init__(
        self,
        query: str,
        action: str,
        data: Any = None,
        *,
        address: str,
        offers: Mapping[str, ActionOffer] = OFFERS,
    ) -> None:
        """address: where it is sent; offers: the words of each action."""
        initial = {"id": uuid4(), "action": action}
        auto_id = f"ask-{query}-{action}-%s"
        super().__init__(data, auto_id=auto_id, initial=initial)
        self.offer, self.query, self.address = offers[action], query, address
        self.fields["confirm"].label = self.offer.confirm
        choices = [(name, name) for name in offers]
        self.fields["action"] = forms.ChoiceField(choices=choices, widget=forms.HiddenInput())
        self.fields["reason"].widget.attrs["autocomplete"] = "off"


# ---- pipelines -----------------------------------------------------------------------------------
# What an admin may request of a pipeline on the job's page.

PIPELINE_OFFERS = {
    "stop": ActionOffer(
        "stop",
        "Stop",
        "Stops the pipeline cleanly. Its records wait in the log, and it stays stopped, through "
        "restarts too, until it is started.",
        "Yes, stop it",
    ),
    "start": ActionOffer(
        "start",
        "Start",
        "Continues from the checkpoint: all records that have waited in the log are read.",
        "Yes, start it",
    ),
    "reset": ActionOffer(
        "reset",
        "Reset",
        "Deletes its checkpoint and state, and reads the log again from its beginning. What it "
        "writes then has the same ids as before, so nobody counts a record twice.",
        "Yes, delete its state and read the log again",
    ),
}


def request_form(pipeline: str, action: str, data: Any = None) -> RequestForm:
    """Return the form of one action on a pipeline."""
    address = reverse("console:ask-pipeline", args=[pipeline])
    return RequestForm(
        f"pipeline-{pipeline}", action, data, offers=PIPELINE_OFFERS, address=address
    )


def forms_of(shown: PipelineView) -> list[RequestForm]:
    """Return the forms of what may be asked of a pipeline as it is."""
    offered = ["start"] if shown.state != "running" else []
    offered += [] if shown.state == "stopped" else ["stop"]
    return [request_form(shown.record.name, action) for action in (*offered, "reset")]


# ---- requests ------------------------------------------------------------------------------------
# Requests to the job: kept, sent to `job.control`, settled by its answers. Times in Unix ms.
#
# A request is `sending` until Kafka has confirmed it (`sent`) or cannot have it (`unsent`); the
# job's answers make it `accepted`, and at last one of SETTLED. Each step is a conditional update,
# so that an answer which is faster than Kafka's confirmation stands.

REQUEST_LIMIT = Limit("job-requests", 20)


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
    REQUEST_LIMIT.take(user.pk, now)
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
    record_delivery(JobRequest.objects.filter(pk=id_), delivery)
    if isinstance(detail, TrackedRequest):
        record_delivery(type(detail)._default_manager.filter(pk=id_), delivery)  # noqa: SLF001
    request.refresh_from_db()
    return request, True


def record_delivery(rows: QuerySet[Any], delivery: Delivery) -> bool:
    """Record how sending went. Returns whether it was recorded: an answer may have been faster."""
    waiting = rows.filter(status="sending")
    return bool(waiting.update(status=delivery.status, outcome=delivery.text[:MAX_REASON]))


def settle(rows: QuerySet[Any], answer: JobAnswer, at: int, **more: Any) -> bool:
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


# ---- request progress ----------------------------------------------------------------------------
# The progress of a request to the job, in words. Times in Unix ms.

LISTED = 20
"""How many requests the job's page lists."""
NEWS_MS = 600_000
"""So long the last request stands beside the forms too."""
SLOW_MS = 15_000
"""A request that is being sent for longer than this was cut short."""
REQUEST_TABLE = Table("asks", Column.time("When"), "Who", "What", "Query", "Why", "Outcome")

Tone = Literal["good", "bad", "waiting", "plain"]


class RequestPhase(NamedTuple):
    """A status in words: one word for it, its tone, and why it is so."""

    word: str
    tone: Tone
    text: str


_WORDS: dict[str, tuple[str, Tone]] = {
    "sending": ("sending", "waiting"),
    "sent": ("sent, waiting for the job", "waiting"),
    "accepted": ("accepted, being carried out", "waiting"),
    "done": ("done", "good"),
    "refused": ("refused", "bad"),
    "failed": ("failed", "bad"),
    "expired": ("expired", "bad"),
    "unsent": ("not sent", "bad"),
}
_FORGOTTEN = RequestPhase("forgotten", "plain", "")
_UNANSWERED = RequestPhase(
    "unanswered", "bad", "The job has not answered within five minutes. The request has expired."
)


@dataclass(frozen=True)
class RequestProgress:
    """A request at `now`; None where it is not kept any more."""

    request: TrackedRequest | None
    now: int

    @property
    def row(self) -> Any:
        """Return the row that a page shows of the request."""
        return self.request

    @property
    def phase(self) -> RequestPhase:
        """Return its status in words."""
        request = self.request
        if request is None:
            return _FORGOTTEN
        age = self.now - request.asked_at
        if request.status in ("sending", "sent") and age > EXPIRES_MS:
            return _UNANSWERED
        if request.status == "sending" and age > SLOW_MS:
            return RequestPhase("not confirmed", "waiting", request.outcome)
        return RequestPhase(*_WORDS.get(request.status, (request.status, "plain")), request.outcome)

    @property
    def word(self) -> str:
        """Return its status in a word or two."""
        return self.phase.word

    @property
    def tone(self) -> Tone:
        """Return whether that is good, bad or neither."""
        return self.phase.tone

    @property
    def text(self) -> str:
        """Return the reason in words."""
        return self.phase.text

    @property
    def open(self) -> bool:
        """Return whether the job may still answer it."""
        over = self.request is None or self.request.status in (*SETTLED, "unsent")
        return not over and self.phase is not _UNANSWERED

    @property
    def took(self) -> int | None:
        """Return the time from the request to its end, ms."""
        request = self.request
        if request is None or request.answered_at is None:
            return None
        return request.answered_at - request.asked_at


@dataclass(frozen=True)
class ActionProgress(RequestProgress):
    """A request as the job's page lists it."""

    @property
    def title(self) -> str:
        """Return its action in words."""
        action = self.row.action
        return OFFERS[action].title if action in OFFERS else action.replace("-", " ").capitalize()


def newest(now: int) -> list[ActionProgress]:
    """Return the newest requests, the last first."""
    return [
        ActionProgress(row, now) for row in JobRequest.objects.order_by("-asked_at", "-pk")[:LISTED]
    ]


def last_of(
    query: str, listed: list[ActionProgress], now: int, offers: Container[str] = OFFERS
) -> ActionProgress | None:
    """Return the newest request from a query's own forms, for as long as it is news."""
    for request in listed:
        if request.row.query == query and request.row.action in offers:
            return request if now - request.row.asked_at < NEWS_MS else None
    return None
