"""The tables of agents. Times in Unix ms of the broker's clock."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.common.models import AgentRow, AuthoredRow, ScenarioRow
from dashboard.core.common.navigation import agent_path
from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS

MAX_WORDS = 500
"""Longest text of a finding, characters."""


class Agent(AgentRow):
    """An agent of one scenario.

    last_seen: of the last state record that a report of its brought about; gap: the usual time
    between two of them, ms (a moving average of gaps of a second or more), 0 where it is not known;
    votes, against: its live votes, and those among them that differ from what all votes make;
    silent: on how many assets its last word is silent, silent_since: the longest of them; all as
    of counted_at. clock: how far its own clock was off in the newest of its votes, ms; below 0:
    behind; None where that is not known. left_at: when it last said that it leaves an asset.
    """

    first_seen = models.BigIntegerField()
    last_seen = models.BigIntegerField()
    gap = models.BigIntegerField(default=0, db_default=0)
    votes = models.IntegerField(default=0, db_default=0)
    against = models.IntegerField(default=0, db_default=0)
    silent = models.IntegerField(default=0, db_default=0)
    silent_since = models.BigIntegerField(null=True)
    clock = models.BigIntegerField(null=True)
    left_at = models.BigIntegerField(default=0, db_default=0)
    counted_at = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "agent"], name="one_row_per_agent"),)
        indexes = (Index(fields=["scenario", "-last_seen"], name="agents_seen"),)


class LastReport(models.Model):
    """When anybody last reported on a scenario: kept for ever, as a silence is told for ever."""

    scenario = models.CharField(max_length=40, primary_key=True)
    at = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.scenario}: last reported at {self.at}"


class AgentHourRow(ScenarioRow):
    """An hour of an agent, or with an empty name of all, or of all that are not named."""

    agent = models.CharField(max_length=255, blank=True)
    hour = models.IntegerField()

    class Meta:
        abstract = True


class AgentHour(AgentHourRow):
    """An hour of an agent: state records that its reports brought about, and changes of a state
    among them. agent: empty for all records of the scenario, whatever brought them about."""

    records = models.BigIntegerField()
    changes = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "hour", "agent"], name="one_row_per_agent_and_hour"
            ),
        )


class LateRow(ScenarioRow):
    """Reports of an agent that came too late, were refused, or were taken in doubt or without their
    detail, by counts as in the job's heartbeats.

    agent: empty for all that heartbeats do not name; age, oldest: the smallest and the largest age
    of a heartbeat's stale and silent ones, ms, and ahead: the least time by which reports were too
    far ahead, 0 where there are none; last: when the newest of all was reported.
    """

    agent = models.CharField(max_length=255, blank=True)
    stale = models.BigIntegerField()
    late = models.BigIntegerField()
    silent = models.BigIntegerField()
    rare = models.BigIntegerField()
    refused = models.BigIntegerField(default=0, db_default=0)
    doubtful = models.BigIntegerField(default=0, db_default=0)
    detail = models.BigIntegerField(default=0, db_default=0)
    age = models.BigIntegerField()
    oldest = models.BigIntegerField(default=0, db_default=0)
    ahead = models.BigIntegerField(default=0, db_default=0)
    last = models.BigIntegerField()

    class Meta:
        abstract = True


class LateHour(LateRow):
    """An hour of an agent's late, refused or doubtful reports."""

    hour = models.IntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "hour", "agent"], name="one_late_row_per_agent_and_hour"
            ),
        )


class LateMinute(LateRow):
    """A minute of an agent's late, refused or doubtful reports: what is so at present."""

    minute = models.IntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "minute", "agent"], name="one_late_row_per_agent_and_minute"
            ),
        )


class LateMark(models.Model):
    """The offset up to which a bucket's heartbeats are counted: none is counted twice."""

    bucket = models.CharField(max_length=60, primary_key=True)
    offset = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.bucket} counted up to {self.offset}"


class Dissent(AgentRow):
    """A live vote that differed from what all votes made, when the votes were last counted.

    said: the vote's state; made: what all votes made; at: when it was last reported.
    """

    asset = models.CharField(max_length=255)
    said = models.CharField(max_length=64)
    made = models.CharField(max_length=64)
    at = models.BigIntegerField()

    class Meta:
        indexes = (Index(fields=["scenario", "agent", "-at"], name="dissents"),)


class VoteFault(AgentRow):
    """What was wrong with an agent's votes, or stood against them, when they were last counted.

    kind: of `faults.py`; assets: on how many; since: when it was first counted,
    without a pause; last: of its newest cause; said: the newest word that it is about, empty for
    none; ms: by how much an agent's clock is ahead at least, where it is that.
    """

    kind = models.CharField(max_length=20)
    assets = models.IntegerField()
    since = models.BigIntegerField()
    last = models.BigIntegerField()
    said = models.CharField(max_length=64, blank=True)
    ms = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "agent", "kind"], name="one_fault_per_agent"),
        )


class AgentFinding(AgentRow):
    """Something wrong with an agent of which banners and notifications tell, until it is over.

    kind: of `core.job.agent_findings`; words: what is wrong, as its page says it; ended_at:
    empty while it goes on.
    """

    kind = models.CharField(max_length=20)
    words = models.CharField(max_length=MAX_WORDS)
    since = models.BigIntegerField()
    found_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "agent", "kind"],
                condition=Q(ended_at=None),
                name="one_open_finding_per_agent",
            ),
        )
        indexes = (Index(fields=["ended_at"], name="findings_by_end"),)

    @property
    def agent_url(self) -> str:
        """Return the address of the agent's page."""
        return agent_path(self.scenario, self.agent)


class Walk(models.Model):
    """The counting of all live votes, a portion of the board at a time: one row.

    after: the key of the last row counted; tally: what was counted since it began, as JSON.
    """

    after = models.BigIntegerField(default=0)
    tally = models.TextField(default="[]")

    def __str__(self) -> str:
        return f"counted up to {self.after}"


class MuteRequest(AgentRow, AuthoredRow):
    """A request to mute an agent, or to hear it again.

    places: the offset at which each partition's log has it, as JSON, by partition; fault: why it is
    not in all of them.
    """

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=6)
    until = models.BigIntegerField(null=True)
    reason = models.CharField(max_length=500)
    created_at = models.BigIntegerField()
    places = models.TextField(default="{}")
    fault = models.CharField(max_length=300, blank=True)

    class Meta:
        indexes = (Index(fields=["scenario", "agent", "-created_at"], name="mute_asks"),)


HOURS_KEPT_MS = 8 * DAY_MS
MINUTES_KEPT_MS = DAY_MS
MOST_MINUTES = 1_000_000
FINDINGS_KEPT_MS = 30 * DAY_MS
MOST_AGENTS = 50_000

KEPT = (
    Retention("hours of agents' reports", AgentHour, "hour", HOURS_KEPT_MS, unit_ms=HOUR_MS),
    Retention("hours of late reports", LateHour, "hour", HOURS_KEPT_MS, unit_ms=HOUR_MS),
    Retention(
        "minutes of late reports",
        LateMinute,
        "minute",
        MINUTES_KEPT_MS,
        MOST_MINUTES,
        unit_ms=MINUTE_MS,
    ),
    Retention(
        "findings about agents",
        AgentFinding,
        "ended_at",
        FINDINGS_KEPT_MS,
        condition=Q(ended_at__isnull=False),
    ),
    Retention("requests to mute", MuteRequest, "created_at", 400 * DAY_MS),
    Retention("agents without a live vote", Agent, "last_seen", 30 * DAY_MS, condition=Q(votes=0)),
    Retention("agents", Agent, "last_seen", at_most=MOST_AGENTS),
)
