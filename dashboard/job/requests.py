"""What is asked of the job: checked, written down, sent to `job.control`, followed. Times in ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

import msgspec
from django import forms
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from bus.base import BusError, Unavailable
from dashboard.core.kafka import REACH_S, gateway
from dashboard.core.rate_limits import Limit
from dashboard.job.ingestion import SETTLED
from dashboard.job.models import JobAsk
from wire.job import EXPIRES_MS, MAX_REASON, Action, Control, encode

ASKS = Limit("asks", 20)
LISTED = 20
"""How many asks the page lists."""
NEWS_MS = 600_000
"""So long what was asked last stands beside the forms too."""
SLOW_MS = 15_000
"""After so long an ask that is still being sent was cut short."""

Tone = Literal["good", "bad", "waiting", "plain"]


@dataclass(frozen=True, slots=True)
class Offer:
    """How an action is offered: its words, and what the box says that is to be ticked."""

    action: Action
    title: str
    hint: str
    confirm: str


OFFERS = {
    "stop": Offer(
        "stop",
        "Stop",
        "Ends the query in order. States stand as they are, reports wait in the log, and it stays "
        "stopped, through restarts of the job too, until it is started.",
        "Yes, let states stand still",
    ),
    "start": Offer(
        "start",
        "Start",
        "Goes on from the checkpoint: all that has waited in the log is applied.",
        "Yes, start it",
    ),
    "reload": Offer(
        "reload",
        "Reload scenarios",
        "Reads scenarios.toml anew. Changed rules go into the log and hold from there on; what is "
        "new is started. New labels and scenarios show here once web and materialiser have been "
        "restarted.",
        "Yes, take the file as it is now",
    ),
}


class AskForm(forms.Form):
    """One action on one query: why, and that it is meant. `id`: made with the form."""

    id = forms.UUIDField(widget=forms.HiddenInput)
    action = forms.ChoiceField(choices=[(name, name) for name in OFFERS])
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")
    confirm = forms.BooleanField(error_messages={"required": "Tick this to go on."})

    def __init__(self, query: str, action: str, data: Any = None) -> None:
        initial = {"id": uuid4(), "action": action}
        auto_id = f"ask-{query}-{action}-%s"
        super().__init__(data, auto_id=auto_id, initial=initial, label_suffix="")
        self.offer = OFFERS[action]
        self.fields["confirm"].label = self.offer.confirm
        self.fields["action"].widget = forms.HiddenInput()
        self.fields["reason"].widget.attrs["autocomplete"] = "off"


def send(
    query: str,
    action: Action,
    reason: str,
    id_: UUID,
    user: User,
    now: int,
    parameters: Mapping[str, Any] | None = None,
) -> JobAsk:
    """Write an ask down and send it; the same one again is returned as it stands.

    parameters: what the action needs besides, at most `MAX_PARAMETERS` bytes of JSON.

    Raises limits.TooMany. A Kafka that does not answer is no exception: the row tells.
    """
    found = JobAsk.objects.filter(pk=id_).first()
    if found is not None:
        return found
    ASKS.take(user.pk, now)
    try:
        with transaction.atomic():
            row = JobAsk.objects.create(
                id=id_,
                query=query,
                action=action,
                user=user,
                username=user.get_username(),
                reason=reason,
                asked_at=now,
                status="sending",
                parameters=msgspec.json.encode(parameters).decode() if parameters else "",
            )
    except IntegrityError:  # the same form, sent twice at once
        return JobAsk.objects.get(pk=id_)
    _produce(row, Control(str(id_), query, action, row.username, reason, dict(parameters or {})))
    row.refresh_from_db()
    return row


def _produce(row: JobAsk, ask: Control) -> None:
    to = gateway()
    topic, key = to.topics.control, row.query.encode()
    try:
        to.bus.wait(REACH_S)
    except BusError as error:  # nothing has been sent, so that much is known
        _note(row, "unsent", f"Kafka does not answer: {error}")
        return
    try:
        to.command(topic, key, encode(ask))
    except Unavailable as error:
        _note(row, "sending", f"No confirmation came in time: it may still arrive. ({error})")
    except BusError as error:
        _note(row, "unsent", str(error))
    else:
        _note(row, "sent", "")


def _note(row: JobAsk, status: str, outcome: str) -> None:
    """Note how sending went, unless the answer was faster."""
    waiting = JobAsk.objects.filter(pk=row.pk, status="sending")
    waiting.update(status=status, outcome=outcome[:MAX_REASON])


# ---- how it is followed ---------------------------------------------------------------------

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


@dataclass(frozen=True, slots=True)
class Asked:
    """An ask as the page lists it: how far it has come, in words."""

    row: JobAsk
    word: str
    tone: Tone
    text: str

    @property
    def title(self) -> str:
        """What was asked for."""
        action = self.row.action
        return OFFERS[action].title if action in OFFERS else action.replace("-", " ").capitalize()

    @property
    def took(self) -> int | None:
        """From the ask to its end, ms."""
        return None if self.row.answered_at is None else self.row.answered_at - self.row.asked_at


def asked(now: int) -> list[Asked]:
    """The newest asks."""
    return [_asked(row, now) for row in JobAsk.objects.order_by("-asked_at")[:LISTED]]


def last_of(query: str, listed: list[Asked], now: int) -> Asked | None:
    """The newest thing asked of a query from its own forms, for as long as it is news."""
    for one in listed:
        if one.row.query == query and one.row.action in OFFERS:
            return one if now - one.row.asked_at < NEWS_MS else None
    return None


def _asked(row: JobAsk, now: int) -> Asked:
    return Asked(row, *fate(row.status, row.outcome, row.asked_at, now))


def fate(status: str, outcome: str, asked_at: int, now: int) -> tuple[str, Tone, str]:
    """What has become of an ask, in a word, its tone, and more words."""
    age = now - asked_at
    if status not in (*SETTLED, "accepted", "unsent"):
        if age > EXPIRES_MS:
            text = "no answer in five minutes: it is not carried out any more"
            return "unanswered", "bad", text
        if status == "sending" and age > SLOW_MS:
            return "not confirmed", "waiting", outcome
    return *_WORDS.get(status, (status, "plain")), outcome
