"""The tables of agents. Times in Unix ms of the broker's clock."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Agent(models.Model):
    """An agent of one scenario.

    last_seen: of the last state record that a report of its brought about; gap: the usual time
    between two of them, ms (a moving average of gaps of a second or more), 0 where it is not known;
    votes, against: its live votes, and those among them that differ from what all votes make;
    silent: on how many assets its last word is silent, silent_since: the longest of them; all as
    of counted_at. clock: how far its own clock was off in the newest of its votes, ms; below 0:
    behind; None where that is not known.
    """

    scenario = models.CharField(max_length=40)
    agent = models.CharField(max_length=255)
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
        constraints = (
            models.UniqueConstraint(fields=["scenario", "agent"], name="one_row_per_agent"),
        )
        indexes = (models.Index(fields=["scenario", "-last_seen"], name="agents_seen"),)

    def __str__(self) -> str:
        return f"{self.scenario}/{self.agent}"


class AgentHour(models.Model):
    """An hour of an agent: state records that its reports brought about, and changes of a state
    among them. agent: empty for all records of the scenario, whatever brought them about."""

    scenario = models.CharField(max_length=40)
    agent = models.CharField(max_length=255, blank=True)
    hour = models.IntegerField()
    records = models.BigIntegerField()
    changes = models.BigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["scenario", "hour", "agent"], name="one_row_per_agent_and_hour"
            ),
        )

    def __str__(self) -> str:
        return f"{self.scenario}/{self.agent} in hour {self.hour}"


class LateHour(models.Model):
    """An hour of an agent's reports that came too late, by counts as in the job's heartbeats.

    agent: empty for all that heartbeats do not name; age: the smallest, ms, 0 where there is none;
    last: when the newest was reported.
    """

    scenario = models.CharField(max_length=40)
    agent = models.CharField(max_length=255, blank=True)
    hour = models.IntegerField()
    stale = models.BigIntegerField()
    late = models.BigIntegerField()
    silent = models.BigIntegerField()
    rare = models.BigIntegerField()
    age = models.BigIntegerField()
    last = models.BigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["scenario", "hour", "agent"], name="one_late_row_per_agent_and_hour"
            ),
        )

    def __str__(self) -> str:
        return f"{self.scenario}/{self.agent} late in hour {self.hour}"


class LateMark(models.Model):
    """The offset up to which a bucket's heartbeats are counted: none is counted twice."""

    bucket = models.CharField(max_length=60, primary_key=True)
    offset = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.bucket} counted up to {self.offset}"


class Dissent(models.Model):
    """A live vote that differed from what all votes made, when the votes were last counted.

    said: the vote's state; made: what all votes made; at: when it was last reported.
    """

    scenario = models.CharField(max_length=40)
    agent = models.CharField(max_length=255)
    asset = models.CharField(max_length=255)
    said = models.CharField(max_length=64)
    made = models.CharField(max_length=64)
    at = models.BigIntegerField()

    class Meta:
        indexes = (models.Index(fields=["scenario", "agent", "-at"], name="dissents"),)

    def __str__(self) -> str:
        return f"{self.scenario}/{self.agent} on {self.asset}"


class Walk(models.Model):
    """The counting of all live votes, a portion of the board at a time: one row.

    after: the key of the last row counted; tally: what was counted since it began, as JSON.
    """

    after = models.BigIntegerField(default=0)
    tally = models.TextField(default="[]")

    def __str__(self) -> str:
        return f"counted up to {self.after}"


class MuteRequest(models.Model):
    """A request to mute an agent, or to hear it again.

    places: the offset at which each partition's log has it, as JSON, by partition; fault: why it is
    not in all of them.
    """

    id = models.UUIDField(primary_key=True)
    scenario = models.CharField(max_length=40)
    agent = models.CharField(max_length=255)
    kind = models.CharField(max_length=6)
    until = models.BigIntegerField(null=True)
    reason = models.CharField(max_length=500)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    username = models.CharField(max_length=150)
    created_at = models.BigIntegerField()
    places = models.TextField(default="{}")
    fault = models.CharField(max_length=300, blank=True)

    class Meta:
        db_table = "agentry_muteask"
        indexes = (models.Index(fields=["scenario", "agent", "-created_at"], name="mute_asks"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.scenario}/{self.agent}"
