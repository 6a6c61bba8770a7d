"""The job's reports of its scenarios, and what was requested of their rules. Times in Unix ms.

A scenario as text is its plain form as JSON with sorted keys: equal texts are equal scenarios.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from dashboard.core.common.models import ScenarioRow
from dashboard.core.job.models import TrackedRequest
from wire.job import MAX_ID, MAX_REASON, MAX_USER


class CarriedScenario(models.Model):
    """A scenario as a query of the job has it, reported last at `at`.

    configured: by its file; keys: of the overlay, as JSON, with who changed it, why and since when;
    rule: the two together; version: names both; problem: why the overlay does not count.
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
    """A scenario record of the log, as the job reported it: from its offset on `rule` holds."""

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
    """A request for another rule, kept longer than the job's other requests.

    before, after: the scenario, as text; reverted: the overlay is gone with it.
    """

    before = models.TextField()
    after = models.TextField()
    reverted = models.BooleanField(default=False)

    class Meta:
        indexes = (Index(fields=["scenario", "-asked_at"], name="rule_changes_of_scenario"),)
