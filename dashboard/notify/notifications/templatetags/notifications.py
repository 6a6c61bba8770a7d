"""Template tags for notifications: the status of a message, and groups in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.safestring import SafeString

from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.templatetags.board import mark
from dashboard.notify.notifications.models import (
    FAILED,
    GIVEN_UP,
    HELD,
    NOT_SENT,
    QUEUED,
    SENDING,
    SENT,
    STATUSES,
    WAITING,
    Message,
)
from domain.notifications.rule import AGENT, AGENTS, BUDGET, BY_ASSET, BY_SCENARIO

register = template.Library()

SIGNS = {
    WAITING: ("clock", "amber"),
    QUEUED: ("clock", "grey"),
    SENDING: ("clock", "grey"),
    SENT: ("check", "green"),
    HELD: ("clock", "amber"),
    FAILED: ("warning", "amber"),
    GIVEN_UP: ("warning", "red"),
    NOT_SENT: ("off", "grey"),
}
"""The icon and the colour of each status."""


@register.filter
def group_words(key: str) -> str:
    """Return what the incidents or agents of a group have in common, in words."""
    if key.startswith(f"{AGENTS} "):
        return f"{AGENTS} {_title(key.removeprefix(AGENTS).strip())}"
    if key.startswith(f"{BUDGET} "):
        return f"{BUDGET} {_title(key.removeprefix(BUDGET).strip())}"
    if key.startswith(f"{AGENT} "):
        return f"{AGENT} {key.partition('/')[2]}"
    return ", ".join(map(_part_words, key.split(", "))) if key else "all incidents"


def _title(scenario: str) -> str:
    return scenarios()[scenario].title if scenario in scenarios() else scenario


def _part_words(part: str) -> str:
    name, _, value = part.partition("=")
    if name == BY_SCENARIO and value in scenarios():
        return _title(value)
    return value.partition("/")[2] if name == BY_ASSET else part


@register.simple_tag(takes_context=True)
def unread_messages(context: Mapping[str, Any]) -> int:
    """Return how many messages the user has not marked as read."""
    return Message.objects.inbox_of(context["request"].user).unread().count()


@register.simple_tag
def message_status(status: str) -> SafeString:
    """Return a message's status as a mark."""
    shape, colour = SIGNS[status]
    return mark(status, shape, colour, STATUSES[status])
