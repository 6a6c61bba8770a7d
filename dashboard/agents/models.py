"""The tables of agents. Times in Unix ms of the broker's clock."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.models import AgentRow, AuthoredRow, ScenarioRow
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS, HOUR_MS


class Agent(AgentRow):
    """An agent of one scenario.

    last_seen: of the last state record that a report of its brought about; gap: the usual time
    between two of them, ms (a moving average of gaps of a second or more), 0 where it is not known;
    votes, against: its live votes, and those among them that differ from what all votes make;
    silent: on how many assets its last word is silent, silent_since: the longest of them; all as
    of counted_at. clock: how far its own clock was off in the newest of its votes, ms; below 0:
    behind; None where that is not known.
    """

    first_seen = models.BigIntegerField()
    last_seen = models.BigIntegerField()
    gap = models.BigIntegerField(default=0, db_default=0)
    votes = models.IntegerField(default=0, db_default=0)
    against = models.IntegerField(default=0, db_default=0)
    silent = models.IntegerField(default=0, db_default=0)
    silent_since = models.BigIntegerField(null=True)
    clock = models.BigIntegerField(null=True)
    counted_at = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "agent"], name="one_row_per_agent"),)
        indexes = (Index(fields=["scenario", "-last_seen"], name="agents_seen"),)


class HourRow(ScenarioRow):
    """An hour of an agent, or with an empty name of all, or of all that are not named."""

    agent = models.CharField(max_length=255, blank=True)
    hour = models.IntegerField()

    class Meta:
        abstract = True


class AgentHour(HourRow):
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


class LateHour(HourRow):
    """An hour of an agent's reports that came too late, by counts as in the job's heartbeats.

    agent: empty for all that heartbeats do not name; age: the smallest, ms, 0 where there is none;
    last: when the newest was reported.
    """

    stale = models.BigIntegerField()
    late = models.BigIntegerField()
    silent = models.BigIntegerField()
    rare = models.BigIntegerField()
    age = models.BigIntegerField()
    last = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "hour", "agent"], name="one_late_row_per_agent_and_hour"
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
        db_table = "agentry_muteask"
        indexes = (Index(fields=["scenario", "agent", "-created_at"], name="mute_asks"),)


HOURS_KEPT_MS = 8 * DAY_MS
MOST_AGENTS = 50_000

KEPT = (
    Retention("hours of agents' reports", AgentHour, "hour", HOURS_KEPT_MS, unit_ms=HOUR_MS),
    Retention("hours of late reports", LateHour, "hour", HOURS_KEPT_MS, unit_ms=HOUR_MS),
    Retention("requests to mute", MuteRequest, "created_at", 400 * DAY_MS),
    Retention("agents without a live vote", Agent, "last_seen", 30 * DAY_MS, condition=Q(votes=0)),
    Retention("agents", Agent, "last_seen", at_most=MOST_AGENTS),
)
