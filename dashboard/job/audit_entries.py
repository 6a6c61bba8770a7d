"""Requests to the job, in the audit."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from dashboard.audit.log import Actor, note


def note_request(
    request: HttpRequest, query: str, action: str, reason: str, outcome: str, **facts: Any
) -> None:
    """Note how sending a request went; its answer stands on the job's page.

    facts: the action's own parameters.
    """
    note(Actor.of(request), f"job.{action}", target=query, outcome=outcome, reason=reason, **facts)
