"""What the worker does about sessions."""

from __future__ import annotations

from celery import shared_task

from dashboard.accounts.sessions import forget_ended


@shared_task
def forget_sessions() -> int:
    """Delete what is kept of sessions that have ended."""
    return forget_ended()
