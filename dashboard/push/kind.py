"""Push messages as a kind of channel: to all browsers in which a user wants them."""

from __future__ import annotations

import json
from typing import Any

import structlog
from django.contrib.auth.models import User
from django.urls import reverse

from dashboard.core.outbound import Answer, Unreachable
from dashboard.core.times import now_ms
from dashboard.incidents.models import Incident
from dashboard.notifications.channels import Kind, Undelivered
from dashboard.notifications.models import Message
from dashboard.push.delivery import MOST_BYTES, send
from dashboard.push.models import PushSubscription
from dashboard.push.subscriptions import note_failed, note_reached, of_user
from dashboard.states.board_rows import asset_path
from domain.notifications.group import TASK

log = structlog.get_logger(__name__)

GONE = (404, 410)
"""By which a push service says that there is no such subscription any more."""
LONGEST_TITLE, LONGEST_BODY = 120, 400
"""Characters of a notification; a browser shows fewer."""


class PushKind(Kind):
    """Reaches a user's browsers; one that accepts the message is enough."""

    name = "push"
    label = "Browser"

    def recipient_of(self, user: User) -> str:
        """Return the user's name; empty where the user has no browser subscribed."""
        return user.get_username() if of_user(user).exists() else ""

    def deliver(self, message: Message) -> str:
        """Send a message to each of the user's browsers. Returns how many accepted it; raises
        Undelivered where none did."""
        rows = list(of_user(message.user)) if message.user else []
        if not rows:
            raise Undelivered("the user has no browser subscribed", final=True)
        content, topic = as_notification(message), message.id.hex
        answers = [_deliver(row, content, topic) for row in rows]
        accepted = answers.count("")
        if not accepted:
            gone = all(answer.startswith("gone") for answer in answers)
            raise Undelivered("; ".join(dict.fromkeys(answers)), final=gone)
        return f"accepted for {accepted} of {len(rows)} browsers"


def as_notification(message: Message) -> bytes:
    """Return what the service worker is told: title, body, tag and address, as JSON."""
    shown: dict[str, Any] = {
        "title": message.subject[:LONGEST_TITLE],
        "body": message.text[:LONGEST_BODY],
        "tag": message.thread or str(message.id),
        "url": page_of(message),
    }
    content = json.dumps(shown, ensure_ascii=False).encode()
    return content if len(content) <= MOST_BYTES else json.dumps(shown | {"body": ""}).encode()


def page_of(message: Message) -> str:
    """Return the path of what a message is about: its incident, its group of several, or all; the
    asset of a scheduled task, or all tasks."""
    if message.kind == TASK:
        tasks = message.payload["tasks"]
        several = reverse("schedules:schedules")
        return several if len(tasks) > 1 else asset_path(tasks[0]["scenario"], tasks[0]["asset"])
    group = message.group
    if group is None:
        return reverse("incidents:incidents")
    members = list(group.members.all()[:2])
    if len(members) == 1:
        [member] = members
        incident = Incident.objects.filter(
            scenario=member.scenario, asset=member.asset, place=member.place
        ).first()
        if incident:
            return reverse("incidents:incident", args=[incident.pk])
    return reverse("notifications:acknowledge", args=[group.token])


def _deliver(row: PushSubscription, content: bytes, topic: str) -> str:
    """Send a message to one browser. Returns why it was not accepted, empty if it was."""
    try:
        answer = send(row, content, topic)
    except Unreachable as why:
        note_failed(row)
        return str(why)
    if answer.status in GONE:
        row.delete()
        log.info("a browser's subscription is gone", user=row.user_id, status=answer.status)
        return f"gone ({answer.status})"
    if 200 <= answer.status < 300:
        note_reached(row, now_ms())
        return ""
    note_failed(row)
    return _in_words(answer)


def _in_words(answer: Answer) -> str:
    text = " ".join(answer.text.split())[:100]
    return f"{answer.status} {text}".strip()
