"""What is asked of the job, in the audit."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from dashboard.audit.log import Actor, note


def note_ask(
    request: HttpRequest, query: str, action: str, reason: str, outcome: str, **facts: Any
) -> None:
    """Note what became of an ask when it was to be sent; its answer stands on the job's page.

    facts: what the action was asked with besides.
    """
    note(Actor.of(request), f"job.{action}", target=query, outcome=outcome, reason=reason, **facts)
