"""`{% command_forms scenario asset record %}`: the forms in any page of an asset."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from django import template

from dashboard.accounts.roles import may
from dashboard.commands.following import recent
from dashboard.commands.models import Command as Row
from dashboard.commands.panel import Panel
from dashboard.commands.sending import now_ms
from dashboard.scenarios import scenarios
from domain.scenario import Scenario

register = template.Library()


@register.inclusion_tag("commands/_forms.html", takes_context=True)
def command_forms(
    context: Any, scenario: Scenario | str, asset: str, record: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The asset's command forms for the request's user; `?command=` in the URL is followed."""
    request = context["request"]
    known = scenario if isinstance(scenario, Scenario) else scenarios()[scenario]
    if not may(request.user, "command"):
        shown = recent(known.name, asset, now_ms()) if may(request.user, "read") else []
        return {"may_command": False, "recent": shown}
    panel = Panel(known, asset, record, command=_followed(request.GET.get("command"), asset))
    return {**panel.context(), "csrf_token": context.get("csrf_token")}


@register.filter
def at_ms(value: int) -> datetime:
    """A time in Unix ms as a datetime in UTC."""
    return datetime.fromtimestamp(value / 1000, UTC)


def _followed(text: str | None, asset: str) -> Row | None:
    try:
        return Row.objects.filter(pk=uuid.UUID(text), asset=asset).first() if text else None
    except ValueError:
        return None
