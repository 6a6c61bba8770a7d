"""What the worker does for the agents' page. Every task may be run twice, or cut short."""

from __future__ import annotations

from celery import shared_task

from dashboard.agents.models import Agent, AgentHour, LateHour, MuteRequest
from dashboard.agents.report_counts import HOUR_MS
from dashboard.agents.vote_counts import walk
from dashboard.core.clock import now_ms

DAY_MS = 24 * HOUR_MS
HOURS_KEPT = 8 * 24
FORGOTTEN_MS = 30 * DAY_MS
"""An agent without a live vote is forgotten when it was not seen for so long."""
MOST_AGENTS = 50_000
"""Most agents that are kept: those not seen for longest go first."""
ASKS_KEPT_MS = 400 * DAY_MS


@shared_task(ignore_result=True)
def count_votes() -> bool:
    """Count a portion of all votes; every minute."""
    return walk(now_ms())


@shared_task
def forget_agents() -> int:
    """Delete what is past its time; every hour. Returns how many agents are forgotten."""
    now = now_ms()
    for hours in (AgentHour, LateHour):
        hours.objects.filter(hour__lt=now // HOUR_MS - HOURS_KEPT).delete()
    MuteRequest.objects.filter(created_at__lt=now - ASKS_KEPT_MS).delete()
    gone = Agent.objects.filter(last_seen__lt=now - FORGOTTEN_MS, votes=0).delete()[0]
    beyond = Agent.objects.order_by("-last_seen").values_list("last_seen", flat=True)
    edge = beyond[MOST_AGENTS : MOST_AGENTS + 1]
    for last in list(edge):
        gone += Agent.objects.filter(last_seen__lte=last).delete()[0]
    return gone
