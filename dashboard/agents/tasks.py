"""The worker's tasks about agents. Every task may be run twice, or cut short."""

from __future__ import annotations

from celery import shared_task

from dashboard.agents.vote_counts import walk
from dashboard.agents.watch import watch
from dashboard.core.times import now_ms


@shared_task(ignore_result=True)
def count_votes() -> bool:
    """Count a portion of all votes; every minute. Returns whether it was the last one."""
    return walk(now_ms())


@shared_task(ignore_result=True)
def watch_agents() -> None:
    """Look what is wrong with agents; every five seconds."""
    watch(now_ms())
