"""What the worker does for the audit."""

from __future__ import annotations

from celery import shared_task

from dashboard.audit.retention import prune


@shared_task
def prune_audit() -> int:
    """Drop entries past their time. Returns how many."""
    return prune()
