"""The tables of agents. Times in Unix ms of the broker's clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from uuid import uuid4

import msgspec
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Index, Q, UniqueConstraint
from django.utils.functional import cached_property

from dashboard.core.common.access import COMMANDS
from dashboard.core.common.models import AgentRow, AuthoredRow, ScenarioRow
from dashboard.core.common.navigation import agent_path
from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard.core.job.models import BucketStatus
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.queries import listed
from dashboard.watch.agents.firing_alerts import FiringAlert
from domain.records import Mute, Unmute

MAX_WORDS = 500
"""Longest text of a finding, characters."""


SILENT_GAPS = 3
"""An agent is silent when it has not been seen for this many times its usual gap."""
LEAST_GAP_MS = 30_000
"""A report that changes nothing is published only once in this time, so nobody is silent sooner."""
NEW_MS = 5 * MINUTE_MS
"""The votes of an agent seen within this time may not be counted yet."""


class AgentQuerySet(models.QuerySet["Agent"]):
    def newest(self, scenario: str) -> AgentQuerySet:
        """Return a scenario's agents, the one seen last first."""
        return self.filter(scenario=scenario).order_by("-last_seen", "agent")

    def named(self, scenario: str, names: Collection[str]) -> list[Agent]:
        """Return the agents with these names, in order.

        A name that no state record mentions gets an unsaved row.
        """
        rows = self.filter(scenario=scenario, agent__in=listed(sorted(names)))
        there = {row.agent: row for row in rows}
        return [
            there.get(name) or Agent(scenario=scenario, agent=name, first_seen=0, last_seen=0)
            for name in sorted(names)
        ]


class Agent(AgentRow):
    """An agent of one scenario.

    last_seen: time of the last state record that one of its reports caused; gap: the usual time
    between two of them, ms (a moving average of gaps of a second or more), 0 if unknown; votes,
    against: its live votes, and those among them that differ from what all votes make; silent: on
    how many assets its last word is silent; silent_since: the longest of them; all as of
    counted_at. clock: how far its own clock was off in the newest of its votes, ms; negative if
    behind; None if unknown. left_at: when it last said that it leaves an asset.
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

    objects = AgentQuerySet.as_manager()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "agent"], name="one_row_per_agent"),)
        indexes = (Index(fields=["scenario", "-last_seen"], name="agents_seen"),)

    def is_unseen(self, now: int) -> bool:
        """Return whether it was not seen for SILENT_GAPS of its usual gaps, and has not left."""
        quiet = SILENT_GAPS * max(self.gap, LEAST_GAP_MS)
        return self.gap > 0 and self.left_at < self.last_seen and now - self.last_seen > quiet

    def condition(self, now: int) -> str:
        """Return its condition at `now` (Unix ms) in a word or two, given that nothing is wrong."""
        if not self.last_seen:
            return "not seen"
        if self.left_at >= self.last_seen:
            return "left"
        return "well" if self.votes or now - self.last_seen < NEW_MS else "no live vote"


class LastReportQuerySet(models.QuerySet["LastReport"]):
    def missing(self, scenarios: Collection[str]) -> set[str]:
        """Return those of these scenarios on which nobody has ever reported."""
        if not scenarios:
            return set()
        rows = self.filter(scenario__in=scenarios)
        return set(scenarios) - set(rows.values_list("scenario", flat=True))


class LastReport(models.Model):
    """When anybody last reported on a scenario; kept for ever, as silence is reported for ever."""

    scenario = models.CharField(max_length=40, primary_key=True)
    at = models.BigIntegerField()

    objects = LastReportQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.scenario}: last reported at {self.at}"


class AgentHourRow(ScenarioRow):
    """An hour of an agent; with an empty name, of all agents, or of all that are not named."""

    agent = models.CharField(max_length=255, blank=True)
    hour = models.IntegerField()

    class Meta:
        abstract = True


class AgentHour(AgentHourRow):
    """An hour of an agent: the state records that its reports caused, and changes among them.

    agent: empty for all records of the scenario, whatever caused them.
    """

    records = models.BigIntegerField()
    changes = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "hour", "agent"], name="one_row_per_agent_and_hour"
            ),
        )


class LateRow(ScenarioRow):
    """An agent's reports that came too late, were refused, in doubt, without their detail or on
    another partition.

    The counts are those of the job's heartbeats. agent: empty for all that heartbeats do not name;
    age, oldest: the smallest and the largest age of a heartbeat's stale and silent ones, ms; ahead:
    the least time by which reports were too far ahead, ms, 0 if there are none; last: when the
    newest of them all was reported; reason: the newest for which reports were refused, or "".
    """

    agent = models.CharField(max_length=255, blank=True)
    stale = models.BigIntegerField()
    late = models.BigIntegerField()
    silent = models.BigIntegerField()
    rare = models.BigIntegerField()
    refused = models.BigIntegerField(default=0, db_default=0)
    doubtful = models.BigIntegerField(default=0, db_default=0)
    detail = models.BigIntegerField(default=0, db_default=0)
    forwarded = models.BigIntegerField(default=0, db_default=0)
    age = models.BigIntegerField()
    oldest = models.BigIntegerField(default=0, db_default=0)
    ahead = models.BigIntegerField(default=0, db_default=0)
    last = models.BigIntegerField()
    reason = models.CharField(max_length=20, default="", db_default="", blank=True)

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
    """A minute of an agent's late, refused or doubtful reports: the present situation."""

    minute = models.IntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "minute", "agent"], name="one_late_row_per_agent_and_minute"
            ),
        )


class LateMark(models.Model):
    """The offset up to which a bucket's heartbeats are counted, so that none is counted twice."""

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

    @property
    def asset_url(self) -> str:
        """Return the URL of the asset's page."""
        return asset_path(self.scenario, self.asset)


class VoteFaultQuerySet(models.QuerySet["VoteFault"]):
    def by_agent(
        self, scenario: str, agents: Iterable[str] | None = None
    ) -> dict[str, dict[str, VoteFault]]:
        """Return a scenario's faults, by agent and kind. agents: only these."""
        rows = self.filter(scenario=scenario)
        if agents is not None:
            rows = rows.filter(agent__in=list(agents))
        faults: dict[str, dict[str, VoteFault]] = {}
        for row in rows:
            faults.setdefault(row.agent, {})[row.kind] = row
        return faults


class VoteFault(AgentRow):
    """What was wrong with an agent's votes, or held against them, when they were last counted.

    kind: from `faults.py`; assets: on how many; since: when it was first counted, without a pause;
    last: time of its newest cause; said: the newest word in question, or empty; ms: the least time
    by which an agent's clock is ahead, if that is the fault.
    """

    kind = models.CharField(max_length=20)
    assets = models.IntegerField()
    since = models.BigIntegerField()
    last = models.BigIntegerField()
    said = models.CharField(max_length=64, blank=True)
    ms = models.BigIntegerField(default=0, db_default=0)

    objects = VoteFaultQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "agent", "kind"], name="one_fault_per_agent"),
        )


class AgentFinding(AgentRow):
    """Something wrong with an agent that banners and notifications report until it is over.

    kind: from `core.job.agent_findings`; words: what is wrong, as its page says it; ended_at: None
    until it ends.
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
        """Return the URL of the agent's page."""
        return agent_path(self.scenario, self.agent)


class Walk(models.Model):
    """The progress of counting all live votes, a portion of the board at a time; one row.

    after: the key of the last row counted; tally: the counts since it began, as JSON.
    """

    after = models.BigIntegerField(default=0)
    tally = models.TextField(default="[]")

    def __str__(self) -> str:
        return f"counted up to {self.after}"


class MuteIdTaken(ValueError):
    """The id belongs to another request."""


class MuteRequestQuerySet(models.QuerySet["MuteRequest"]):
    def newest_about(self, scenario: str, agent: str) -> MuteRequest | None:
        """Return the newest request about an agent."""
        return self.filter(scenario=scenario, agent=agent).order_by("-created_at", "-pk").first()

    def keep(self, scenario: str, record: Mute | Unmute, user: User, now: int) -> MuteRequest:
        """Store a request and return its row; a form that is sent twice is one request.

        Raises MuteIdTaken and TooMany.
        """
        COMMANDS.take(user.pk, now)
        kind = "mute" if isinstance(record, Mute) else "unmute"
        request, _ = self.get_or_create(
            pk=record.id,
            defaults={
                "scenario": scenario,
                "agent": record.agent,
                "kind": kind,
                "until": record.until if isinstance(record, Mute) else None,
                "reason": record.reason,
                "user": user,
                "username": user.get_username(),
                "created_at": now,
            },
        )
        same = (scenario, record.agent, kind, user.pk)
        if (request.scenario, request.agent, request.kind, request.user_id) != same:
            raise MuteIdTaken("This id belongs to another request; use a new one.")
        return request


class MuteRequest(AgentRow, AuthoredRow):
    """A request to mute or unmute an agent.

    places: its offset in each partition's log, as JSON, by partition; fault: why it is not in all
    of them.
    """

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=6)
    until = models.BigIntegerField(null=True)
    reason = models.CharField(max_length=500)
    created_at = models.BigIntegerField()
    places = models.TextField(default="{}")
    fault = models.CharField(max_length=300, blank=True)

    objects = MuteRequestQuerySet.as_manager()

    class Meta:
        indexes = (Index(fields=["scenario", "agent", "-created_at"], name="mute_asks"),)

    @property
    def record(self) -> Mute | Unmute:
        """Return the record that requests it from the job."""
        if self.kind == "mute":
            return Mute(self.agent, self.until, self.username, self.reason, str(self.pk))
        return Unmute(self.agent, self.username, self.reason, str(self.pk))

    @property
    def offsets(self) -> dict[int, int]:
        """Return its offset in the log, by partition."""
        return msgspec.json.decode(self.places, type=dict[int, int])

    def mutes(self, now: int) -> bool:
        """Return whether it mutes the agent at `now` (ms), once the job has it."""
        return self.kind == "mute" and (self.until is None or self.until > now)

    def in_name_of(self, user: User, now: int) -> MuteRequest:
        """Return the request for this user to send.

        If it is another user's, the same request is made in this user's own name. Raises TooMany.
        """
        if self.user_id == user.pk:
            return self
        record = replace(self.record, user=user.get_username(), id=str(uuid4()))
        return MuteRequest.objects.keep(self.scenario, record, user, now)

    # ---- how far it has come ----

    @property
    def sent(self) -> int:
        """Return how many partitions' logs have it."""
        return len(self.offsets)

    @property
    def partitions(self) -> int:
        """Return how many partitions its scenario has; 0 if it is no longer configured."""
        return self.configured_scenario.partitions if self.configured_scenario else 0

    @cached_property
    def taken(self) -> int:
        """Return in how many partitions the job has read it."""
        beats = BucketStatus.objects.filter(scenario=self.scenario)
        reached = dict(beats.values_list("partition", "offset"))
        return sum(reached.get(each, -1) >= offset for each, offset in self.offsets.items())

    @property
    def is_sent(self) -> bool:
        """Return whether every partition's log has it."""
        return self.sent >= self.partitions

    @property
    def is_taken(self) -> bool:
        """Return whether the job has read it everywhere."""
        return self.taken >= self.partitions


HOURS_KEPT_MS = 8 * DAY_MS
MOST_HOURS = 1_000_000
MINUTES_KEPT_MS = DAY_MS
MOST_MINUTES = 1_000_000
FINDINGS_KEPT_MS = 30 * DAY_MS
AGENTS_KEPT_MS = 30 * DAY_MS
MOST_AGENTS = 50_000
MOST_ALERTS = 200_000

KEPT = (
    Retention("hours of agents' reports", AgentHour, "hour", HOURS_KEPT_MS, unit_ms=HOUR_MS),
    Retention(
        "hours of late reports", LateHour, "hour", HOURS_KEPT_MS, MOST_HOURS, unit_ms=HOUR_MS
    ),
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
    Retention("alerts of Alertmanager", FiringAlert, "seen_at", 7 * DAY_MS, MOST_ALERTS),
    Retention(
        "agents without a live vote", Agent, "last_seen", AGENTS_KEPT_MS, condition=Q(votes=0)
    ),
    Retention("agents", Agent, "last_seen", at_most=MOST_AGENTS),
)
