"""The list of messages: filtered, newest first, page by page, and as a file."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.http import urlencode

from dashboard.core.listing import Order, Page, TableFile, page_of
from dashboard.core.tables import Column, Table
from dashboard.incidents.messages import Notified
from dashboard.incidents.models import Incident
from dashboard.notifications.models import STATUSES, GroupIncident, Message
from dashboard.notifications.texts import LONGEST_NAME
from dashboard.schedules.models import ScheduledTask
from domain.notifications.group import KINDS, TASK

NEWEST = Order("created_at")
PAGE_SIZE = 100
MOST_EXPORTED = 100_000
MOST_OF_INCIDENT = 200
"""Most messages that an incident's page lists."""
ALL_KINDS = {
    **KINDS,
    "test": "a test",
    "digest": "a summary of a time",
    "points": "earned points",
    "views": "views of a product",
    "browser": "a browser of another user",
}
MESSAGES = Table("", "Message", "Status", "To", "Why", "Written", Column("Tries", numeric=True))
ATTEMPTS = Table(
    "", Column("Try", numeric=True), "At", Column("Took", numeric=True), "Outcome", "Answer"
)


class Wanted(NamedTuple):
    """A filter of messages. q: a part of subject or recipient; rule: its number; start, end: when
    they were written, Unix ms; group: its token."""

    status: str = ""
    kind: str = ""
    rule: int | None = None
    q: str = ""
    start: int | None = None
    end: int | None = None
    group: str = ""

    def rows(self) -> QuerySet[Message]:
        """Return the messages that pass."""
        conditions = {
            "status": self.status,
            "kind": self.kind,
            "rule": self.rule,
            "created_at__gte": self.start,
            "created_at__lt": self.end,
            "group__token": self.group,
        }
        rows = Message.objects.select_related("rule", "group", "channel", "rota", "user")
        rows = rows.filter(**{name: value for name, value in conditions.items() if value})
        if self.q:
            rows = rows.filter(Q(subject__icontains=self.q) | Q(recipient__icontains=self.q))
        return rows


def place_of(text: str) -> tuple[int, uuid.UUID]:
    """Return the place that a text names. Raises ValueError."""
    at, _, number = text.partition(".")
    place = int(at), uuid.UUID(number)
    if not 0 <= place[0] < 2**63:
        raise ValueError(text)
    return place


def place_text(place: Any) -> str:
    """Return a place as the address has it."""
    return f"{place[0]}.{place[1]}"


def page_of_messages(
    rows: QuerySet[Message], before: tuple[int, uuid.UUID] | None, size: int = PAGE_SIZE
) -> Page[Message]:
    """Return the newest messages, or those that follow a place."""
    return page_of(rows, NEWEST, size, before)


FIELDS = (
    "id", "created_at", "kind", "status", "reason", "subject", "means", "recipient", "user", "rule",
    "stage", "channel", "rota", "group", "why", "tries", "ended_at",
)  # fmt: skip


def plain(row: Message) -> dict[str, Any]:
    """Return a message as an object of NDJSON, or a line of CSV; its text is on its page."""
    named = {name: getattr(row, name) for name in FIELDS}
    return named | {
        "id": str(row.pk),
        "user": row.user.get_username() if row.user else None,
        "rule": row.rule_id,
        "channel": row.channel.name if row.channel else None,
        "rota": row.rota.name if row.rota else None,
        "group": row.group.token if row.group else None,
    }


def messages_of(incident: Incident) -> list[Notified]:
    """Return the messages about an incident, the newest first, as its page lists them."""
    groups = GroupIncident.objects.filter(
        scenario=incident.scenario, asset=incident.asset, place=incident.place
    ).values("group_id")
    rows = Message.objects.filter(group_id__in=groups).order_by("-created_at", "-pk")
    return [
        Notified(
            row.created_at,
            row.subject,
            row.recipient,
            STATUSES[row.status],
            row.why,
            reverse("notifications:message", args=[row.pk]),
        )
        for row in rows[:MOST_OF_INCIDENT]
    ]


def task_messages_url(row: ScheduledTask) -> str:
    """Return the address of the list of messages about the tasks of an asset."""
    query = urlencode({"kind": TASK, "q": row.asset[:LONGEST_NAME]})
    return f"{reverse('notifications:messages')}?{query}"


MESSAGE_FILE = TableFile("messages", FIELDS, plain, order=NEWEST, at_most=MOST_EXPORTED)
