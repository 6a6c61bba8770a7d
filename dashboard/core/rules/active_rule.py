"""The rule that the job used: the web process's own file may have another one.

Labels and colours stay as they are configured here; an overlay does not change them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

from dashboard.core.rules.models import CarriedScenario, RuleRecord
from domain.overlay import LIVE_KEYS, overlaid
from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import scenario_from_plain


def in_force(scenario: Scenario, partition: int, reached: int) -> Scenario:
    """Return a scenario with the rule in force where a bucket has reached an offset.

    As configured here, where the job has reported none.
    """
    records = RuleRecord.objects.filter(scenario=scenario.name, partition=partition)
    newest = records.filter(offset__lte=reached).order_by("-offset").first()
    record = newest or records.order_by("offset").first()  # the first also covers what came before
    return scenario if record is None else _laid(scenario, record.rule)


def as_carried(scenario: Scenario) -> Scenario:
    """Return a scenario with the rule that the job has now, wherever its buckets are."""
    keys = CarriedScenario.objects.filter(pk=scenario.name).values_list("keys", flat=True).first()
    if keys is None:
        return scenario
    try:
        return overlaid(scenario, json.loads(keys))
    except ScenarioError:
        return scenario  # as the job does


def _laid(scenario: Scenario, text: str) -> Scenario:
    """Return the scenario with the rule of another one, and its version of the fold; the other one
    itself, where its states differ."""
    other = parsed(text)
    plain = other.to_plain()
    try:
        laid = overlaid(scenario, {key: plain[key] for key in LIVE_KEYS})
        return replace(laid, fold=other.fold)
    except ScenarioError:
        return other


@lru_cache(maxsize=64)
def parsed(text: str) -> Scenario:
    """Return a scenario from its text; see models.py."""
    return scenario_from_plain(json.loads(text))
