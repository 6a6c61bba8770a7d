"""`{% command_forms scenario asset record %}`: the forms in any page of an asset."""

from __future__ import annotations

import uuid
from typing import Any

from django import template

from dashboard.commands.asset_forms import Begun, Panel
from dashboard.commands.models import Command as Row
from dashboard.core.roles import may
from dashboard.core.scenarios import scenarios
from domain.scenario import Scenario
from wire.sink import StateValue

register = template.Library()


@register.inclusion_tag("commands/_forms.html", takes_context=True)
def command_forms(
    context: Any, scenario: Scenario | str, asset: str, record: StateValue | None = None
) -> dict[str, Any]:
    """Return the asset's command forms for the request's user; `?command=` in the URL is followed,
    `?do=` opens a form, `?to=` chooses its state."""
    request = context["request"]
    known = scenario if isinstance(scenario, Scenario) else scenarios()[scenario]
    if not may(request.user, "command"):
        return {"may_command": False}
    followed = _followed(request.GET.get("command"), asset)
    begin = Begun(request.GET.get("do", ""), request.GET.get("to", ""))
    panel = Panel(known, asset, record, command=followed, user_id=request.user.pk, begun=begin)
    return {**panel.context(), "csrf_token": context.get("csrf_token")}


def _followed(text: str | None, asset: str) -> Row | None:
    try:
        return Row.objects.filter(pk=uuid.UUID(text), asset=asset).first() if text else None
    except ValueError:
        return None
