"""The forms of commands in any page, and the tasks of an asset."""

from __future__ import annotations

import uuid
from typing import Any

from django import template

from dashboard.core.common.access import may
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import exact_span, now_ms
from dashboard.watch.commands.models import ACTIONS
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.commands.views import Begun, Panel
from dashboard.watch.commands.warnings import may_hide
from domain.scenario import Scenario
from wire.sink import StateValue, TaskValue

# ---- commands ------------------------------------------------------------------------------------
# `{% command_forms scenario asset record %}`: the forms in any page of an asset.

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


# ---- schedules -----------------------------------------------------------------------------------
# The tasks of an asset, on its page.


@register.inclusion_tag("commands/schedules/_tasks.html", takes_context=True)
def asset_tasks(
    context: template.Context, scenario: Scenario, asset: str, record: StateValue | None
) -> dict[str, Any]:
    """Return the tasks that the newest record of an asset tells of, with the forms that cancel."""
    user = getattr(context.get("request"), "user", None)
    return {
        "scenario": scenario,
        "asset": asset,
        "tasks": [_shown(scenario, task, record.state) for task in record.tasks] if record else [],
        "may_command": user is not None and may(user, "command"),
        "csrf_token": context.get("csrf_token"),
        "now": now_ms(),
    }


def _shown(scenario: Scenario, task: TaskValue, state: str) -> dict[str, Any]:
    """Return a task as the page shows it. state: what its asset shows now."""
    waits = task.due is not None and task.aside is None
    rhythm = "" if task.every is None else f"every {exact_span(task.every)}"
    return {
        "task": task,
        "action": ACTIONS.get(task.do, task.do),
        "rhythm": rhythm,
        "hides": waits and may_hide(scenario, task.do, task.state, task.condition, state),
        "command": uuid.uuid4(),
    }
