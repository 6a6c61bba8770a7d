"""Commands that were sent here, and tasks that the job will run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from django.conf import settings
from django.db import models
from django.db.models import F, Index, Q, UniqueConstraint
from django.urls import reverse

from dashboard.core.common.extension_point import Provider
from dashboard.core.common.models import AssetRow
from dashboard.core.common.retention import Retention
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, exact_span
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.queries import listed
from domain.names import MAX_STATE
from domain.records import APPLIED, NO_CHANGE

# ---- commands ------------------------------------------------------------------------------------
# Commands that were sent here: who, when, why, and what became of them. Times in Unix ms.

Phase = Literal["sending", "unknown", "sent", "applied", "no-change", "refused", "unsent"]

SLOW_MS = 15_000
"""After this long without an answer the page says that the job is late."""


def phase_of_outcome(outcome: str) -> Phase:
    """Return the phase of an answered command."""
    if outcome == APPLIED:
        return "applied"
    return "no-change" if outcome == NO_CHANGE else "refused"


class CommandQuerySet(models.QuerySet["Command"]):
    """Commands."""

    def of_asset(self, scenario: str, asset: str) -> CommandQuerySet:
        """Return those to an asset."""
        return self.filter(scenario=scenario, asset=asset)

    def unanswered(self) -> CommandQuerySet:
        """Return those that the job has not answered."""
        return self.exclude(status="answered")


class Command(AssetRow):
    """A command. status: sending, sent (it is in the log), unsent (it is not), answered.

    partition and offset: its place in the source topic; version: of the state record that answered
    it, sortable. form: what its form held besides, as JSON, should it be shown again; details: what
    a command about a task says of it, as JSON.
    """

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=10)
    state = models.CharField(max_length=64, blank=True)
    until = models.BigIntegerField(null=True, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    if_version = models.CharField(max_length=64, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="commands"
    )
    username = models.CharField(max_length=150)
    source = models.CharField(max_length=10)
    created_at = models.BigIntegerField()
    status = models.CharField(max_length=10, default="sending")
    partition = models.IntegerField(null=True, blank=True)
    offset = models.BigIntegerField(null=True, blank=True)
    outcome = models.CharField(max_length=300, blank=True)
    version = models.CharField(max_length=40, blank=True)
    answered_at = models.BigIntegerField(null=True, blank=True)
    form = models.TextField(blank=True, default="")
    details = models.TextField(blank=True, default="")

    objects = CommandQuerySet.as_manager()

    class Meta:
        indexes = (Index(fields=["scenario", "asset", "-created_at"], name="commands_of_asset"),)

    def phase(self, now: int) -> Phase:
        """Return how far the command has come at `now` (Unix ms)."""
        if self.status == "answered":
            return phase_of_outcome(self.outcome)
        if self.status == "sending":
            lost = bool(self.outcome) or now - self.created_at > SLOW_MS
            return "unknown" if lost else "sending"
        return "sent" if self.status == "sent" else "unsent"

    @property
    def kept(self) -> dict[str, str]:
        """Return what its form held besides; empty for a command that no form sent."""
        try:
            return msgspec.json.decode(self.form, type=dict[str, str]) if self.form else {}
        except msgspec.MsgspecError:
            return {}

    @property
    def record_url(self) -> str:
        """Return the address of its record; empty where its place in the log is not known."""
        if self.partition is None or self.offset is None:
            return ""
        return reverse("board:record", args=(self.scenario, self.partition, self.offset))


# ---- schedules -----------------------------------------------------------------------------------
# Scheduled tasks as the newest records of their assets tell of them. Times in Unix ms.

DONE, CANCELLED, PURGED, LEFT = "done", "cancelled", "purged", "left"
ENDINGS = {
    DONE: "ran for the last time",
    CANCELLED: "cancelled",
    PURGED: "its asset was purged",
    LEFT: "ended",
}
"""How a task ends; it is `left` where the asset left the state that it was for."""
ACTIONS = {
    "emit": "Write its state to Kafka again",
    "notify": "Notify",
    "set": "Set",
    "release": "Release",
    "purge": "Purge",
}
"""What a task does, as pages name it."""
WAITING, ASIDE, OVER = "waiting", "aside", "over"
STATUSES = {
    WAITING: Q(ended_at=None, aside=""),
    ASIDE: Q(ended_at=None) & ~Q(aside=""),
    OVER: Q(ended_at__isnull=False),
}


class ScheduledTaskQuerySet(models.QuerySet["ScheduledTask"]):
    """Scheduled tasks."""

    def open(self) -> ScheduledTaskQuerySet:
        """Return those that are not over."""
        return self.filter(ended_at=None)

    def of_assets(self, scenario: str, assets: Iterable[str]) -> ScheduledTaskQuerySet:
        """Return those of these assets."""
        return self.filter(scenario=scenario, asset__in=listed(list(assets)))

    def shown(self) -> ScheduledTaskQuerySet:
        """Return those of configured scenarios, the next run first."""
        rows = self.filter(scenario__in=scenarios())
        return rows.order_by(F("next_at").asc(nulls_last=True), "-ended_at", "pk")


class ScheduledTask(AssetRow):
    """A task of an asset.

    task: its id; do: one of the fold's actions; state: what it sets; condition: the state in which
    the asset must be then; next_at: of the next run, empty once it is over; every: ms; times: runs
    left; owner: in whose name it runs; outcome, ran_at: of the last run; aside: why it does not run
    under the rule in force; ended_at, ending: when it was over, and how, of ENDINGS.
    """

    task = models.UUIDField()
    do = models.CharField(max_length=10)
    state = models.CharField(max_length=MAX_STATE, blank=True)
    condition = models.CharField(max_length=MAX_STATE, blank=True)
    next_at = models.BigIntegerField(null=True)
    every = models.BigIntegerField(null=True)
    until = models.BigIntegerField(null=True)
    times = models.BigIntegerField(null=True)
    owner = models.CharField(max_length=255)
    reason = models.CharField(max_length=500, blank=True)
    outcome = models.CharField(max_length=40, blank=True)
    ran_at = models.BigIntegerField(null=True)
    aside = models.CharField(max_length=200, blank=True)
    ended_at = models.BigIntegerField(null=True)
    ending = models.CharField(max_length=10, blank=True)

    objects = ScheduledTaskQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "asset", "task"], name="one_row_per_task"),
        )
        indexes = (
            Index(fields=["scenario", "asset"], condition=Q(ended_at=None), name="schedules_open"),
            Index(fields=["next_at"], condition=Q(ended_at=None), name="schedules_by_next"),
            Index(fields=["ended_at"], name="schedules_by_end"),
        )

    def end(self, at: int, ending: str) -> None:
        """End the task at a time (Unix ms), without storing that. ending: of ENDINGS."""
        self.ended_at, self.next_at, self.ending = at, None, ending

    @property
    def action(self) -> str:
        """Return what it does, in words; the state of a `set` is shown beside it."""
        return ACTIONS.get(self.do, self.do)

    @property
    def rhythm(self) -> str:
        """Return how often it runs, and how often at most from now on, in words."""
        if self.every is None:
            return "once"
        most = "" if self.times is None else f", {self.times:,} more"
        return f"every {exact_span(self.every)}{most}"

    @property
    def ending_text(self) -> str:
        """Return how it ended, in words; empty while it has not."""
        return ENDINGS.get(self.ending, "")

    @property
    def asset_url(self) -> str:
        """Return the address of the asset's page."""
        return asset_path(self.scenario, self.asset)

    @property
    def messages_url(self) -> str:
        """Return the address of the messages about it; empty where it has not notified yet."""
        notified = self.do == "notify" and self.ran_at is not None
        return messages_url(self) if notified else ""


# ---- schedules -----------------------------------------------------------------------------------
# Retention of tasks that are over.

KEPT = (Retention("scheduled tasks", ScheduledTask, "ended_at", 90 * DAY_MS),)


# ---- schedules -----------------------------------------------------------------------------------
# Messages of tasks that notified, which a higher package offers.


def _nothing(row: ScheduledTask) -> str:  # noqa: ARG001 - as those who register have it
    return ""


messages_url = Provider(_nothing)
"""Returns the address of the list of messages about a task; empty where there is no such list."""
