"""The worker's tasks about agents. Each may run twice, or be cut short."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.common.times import now_ms
from dashboard.watch.agents.findings import watch
from dashboard.watch.agents.statistics import walk


@shared_task(ignore_result=True)
def count_votes() -> bool:
    """Count a portion of all votes, every minute. Returns whether it was the last one."""
    return walk(now_ms())


@shared_task(ignore_result=True)
def watch_agents() -> None:
    """Check what is wrong with agents, every five seconds."""
    watch(now_ms())
