"""The tasks of an asset, on its page."""

from __future__ import annotations

import uuid
from typing import Any

from django import template

from dashboard.commands.schedule_warnings import may_hide
from dashboard.core.roles import may
from dashboard.core.times import exact_span, now_ms
from dashboard.schedules.queries import ACTIONS
from domain.scenario import Scenario
from wire.sink import StateValue, TaskValue

register = template.Library()


@register.inclusion_tag("schedules/_tasks.html", takes_context=True)
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
