"""Histories that are written and summed up, as the materialiser and the worker do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bus.base import ConsumerRecord
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.notify.summaries.rollups import sum_up_day
from dashboard.serve.materialiser.worker import sort_out
from dashboard.serve.materialiser.writer import write
from domain.scenario import Scenario


def materialise(
    messages: Sequence[ConsumerRecord], rules: Mapping[str, Scenario] | None = None
) -> None:
    """Write records of states in portions; by these rules, or by those that are configured."""
    known = dict(scenarios() if rules is None else rules)
    for n in range(0, len(messages), 7):
        write(sort_out(messages[n : n + 7], topics()), known, 0)


def sum_up(now: int, *names: str) -> None:
    """Sum up the hours of scenarios that have ended at a time (Unix ms); by default of attacks."""
    for name in names or ("attack",):
        while sum_up_day(name, now):
            pass
