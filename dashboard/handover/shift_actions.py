"""What people do in a shift besides commands to single assets: runs, mutes, replays, rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dashboard.agents.models import MuteRequest
from dashboard.bulk.models import REVIEW, Run
from dashboard.bulk.run_progress import RunProgress, progress_of
from dashboard.replays.plan import carried
from dashboard.replays.progress import ReplayProgress, newest
from dashboard.rules.changes import Change
from dashboard.rules.models import RuleChange
from domain.scenario import Scenario

# Most of each kind, the newest.
MOST = 50


class Deeds(NamedTuple):
    """The actions of each kind with their scenario, where they are of one, the newest first."""

    runs: list[tuple[Scenario, RunProgress]]
    mutes: list[tuple[Scenario, MuteRequest]]
    rules: list[tuple[Scenario, Change]]
    replays: list[ReplayProgress]


def deeds(known: Mapping[str, Scenario], since: int, now: int) -> Deeds:
    """Return what was done since `since` (Unix ms), and what was begun before and is not over.

    Only of these scenarios.
    """
    names = list(known)
    begun = Run.objects.filter(scenario__in=names).exclude(status=REVIEW)
    runs = begun.filter(started_at__gte=since) | begun.filter(ended_at=None)
    asks = MuteRequest.objects.filter(scenario__in=names, created_at__gte=since)
    rules = RuleChange.objects.filter(scenario__in=names, asked_at__gte=since)
    replays = [
        each
        for each in newest(now)
        if (each.row.asked_at >= since or each.open) and _is_of(each, known)
    ]
    return Deeds(
        [(known[run.scenario], progress_of(run)) for run in runs.order_by("-started_at")[:MOST]],
        [(known[ask.scenario], ask) for ask in asks.order_by("-created_at")[:MOST]],
        [(known[row.scenario], Change(row, now)) for row in rules.order_by("-asked_at")[:MOST]],
        replays,
    )


def _is_of(replay: ReplayProgress, known: Mapping[str, Scenario]) -> bool:
    """Return whether one of these scenarios was read again."""
    of = [replay.row.scenario] if replay.row.scenario else carried(replay.row.query)
    return not of or any(name in known for name in of)
