"""Rules as the job uses them and as people change them, and which rule is in force where."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

from django.db import models
from django.db.models import Index, UniqueConstraint

from dashboard.core.common.models import ScenarioRow
from dashboard.core.job.models import TrackedRequest
from domain.overlay import LIVE_KEYS, overlaid
from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import scenario_from_plain
from wire.job import MAX_ID, MAX_REASON, MAX_USER


class CarriedScenario(models.Model):
    """A scenario as a query of the job has it, last reported at `at`.

    configured: from its file; keys: the keys of the overlay, as JSON, with user, reason and time of
    the change; rule: the two combined; version: identifies both; problem: why the overlay is
    ignored.
    """

    scenario = models.CharField(max_length=40, primary_key=True)
    query = models.CharField(max_length=MAX_ID)
    at = models.BigIntegerField()
    version = models.CharField(max_length=64)
    configured = models.TextField()
    rule = models.TextField()
    keys = models.TextField(default="{}")
    user = models.CharField(max_length=MAX_USER, blank=True)
    reason = models.CharField(max_length=MAX_REASON, blank=True)
    since = models.BigIntegerField(default=0)
    problem = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"{self.scenario} {self.version}"


class RuleRecord(ScenarioRow):
    """A scenario record of the log, as the job reported it: `rule` applies from its offset on."""

    partition = models.IntegerField()
    offset = models.BigIntegerField()
    at = models.BigIntegerField()
    rule = models.TextField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "partition", "offset"], name="one_rule_per_offset"
            ),
        )


class RuleChange(ScenarioRow, TrackedRequest):
    """A request to change a rule, kept longer than the job's other requests.

    before, after: the scenario, as text; reverted: whether it removed the overlay.
    """

    before = models.TextField()
    after = models.TextField()
    reverted = models.BooleanField(default=False)

    class Meta:
        indexes = (Index(fields=["scenario", "-asked_at"], name="rule_changes_of_scenario"),)


class BucketJudgement(ScenarioRow):
    """The newest judgement of a bucket by the plain fold, which began at `begun_at`, Unix ms.

    ended_at: None while it is under way; records: how many were replayed; compared: how many
    assets; differences: how many rows and changes differ; problem: the first of them in words, or
    why there was no comparison.
    """

    partition = models.IntegerField()
    begun_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)
    records = models.BigIntegerField(default=0)
    compared = models.BigIntegerField(default=0)
    differences = models.BigIntegerField(default=0)
    problem = models.TextField(blank=True)

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "partition"], name="one_judgement_per_bucket"),
        )


# ---- rules in force ------------------------------------------------------------------------------
# The rule that the job used, which may differ from the one in the web process's own file.
#
# Labels and colours are those configured here; an overlay does not change them.


def in_force(scenario: Scenario, partition: int, reached: int) -> Scenario:
    """Return a scenario with the rule in force at the offset that a bucket has reached.

    If the job has reported no rule, the configuration here applies.
    """
    records = RuleRecord.objects.filter(scenario=scenario.name, partition=partition)
    newest = records.filter(offset__lte=reached).order_by("-offset").first()
    record = newest or records.order_by("offset").first()  # the first also covers what precedes it
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
    """Return the scenario with another's rule and fold version; the other itself if its states
    differ."""
    other = parsed(text)
    plain = other.to_plain()
    try:
        laid = overlaid(scenario, {key: plain[key] for key in LIVE_KEYS})
        return replace(laid, fold=other.fold)
    except ScenarioError:
        return other


@lru_cache(maxsize=64)
def parsed(text: str) -> Scenario:
    """Return a scenario from its text, as `dashboard.core.rules.ingestion.text_of` writes it."""
    return scenario_from_plain(json.loads(text))
