"""Runs of one command over many assets: what became of each, who owns them, how long they are
kept.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Index, Min, Q, QuerySet, Sum, UniqueConstraint

from dashboard.core.common.models import ScenarioRow
from dashboard.core.common.retention import (
    Retention,
    Thinning,
    delete_in_portions,
    delete_rows,
    delete_surplus,
)
from dashboard.core.common.times import DAY_MS

# ---- bulk ----------------------------------------------------------------------------------------
# Runs of one command over many assets, and what became of each asset. Times in Unix ms.

REVIEW, RUNNING, PAUSED, CANCELLED, DONE = "review", "running", "paused", "cancelled", "done"
STOPPED = "stopped"
STATUSES = {
    REVIEW: "To be confirmed",
    RUNNING: "Running",
    PAUSED: "Paused",
    STOPPED: "Stopped",
    CANCELLED: "Cancelled",
    DONE: "Done",
}
"""Of a run. A cancelled one is still told the answers to what it had sent; one is stopped by the
worker where its sender may not command any more."""

READY, SKIPPED, SENDING, SENT = "ready", "skipped", "sending", "sent"
APPLIED, NO_CHANGE, REFUSED = "applied", "no-change", "refused"
UNSENT, LEFT = "unsent", "left"
OUTCOMES = {
    READY: "To be sent",
    SENDING: "Being sent",
    SENT: "Waiting for its answer",
    APPLIED: "Applied",
    NO_CHANGE: "No change",
    REFUSED: "Refused by the job",
    UNSENT: "Not sent",
    LEFT: "Left out by cancelling",
    SKIPPED: "Left out by the review",
}
"""Of one asset of a run; each has exactly one, so that their counts add up to what matched."""
WAITING = (SENDING, SENT)

STAYS, MAY_RETURN, RETURNS = 0, 1, 2
"""Of an asset to be purged: no agent has a live vote; one has; one reported lately."""


class Run(ScenarioRow):
    """One command for many assets.

    schedule: of a run that schedules a task, what it asks for; chosen: what was chosen, in
    words; beyond: how many more match; unchanged: only where state, pending and override are
    still what the review saw; user and username: who prepared it; sender: in whose name it goes
    on; senders: in whose it went, by name, since when and from which number of an asset on;
    trouble: what holds it up, or why it is stopped, in words; lease and lease_until: which
    worker has it, until when; rate: assets sent a second of late; ended_at: when nothing was
    left to be sent or answered; tallies: how many assets had each fate then.
    """

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=10)
    state = models.CharField(max_length=64, blank=True)
    until = models.BigIntegerField(null=True)
    reason = models.CharField(max_length=500)
    schedule = models.JSONField(default=dict)
    unchanged = models.BooleanField(default=True)
    chosen = models.CharField(max_length=400)
    beyond = models.IntegerField(default=0)
    repeated = models.IntegerField(default=0)
    matched = models.IntegerField(default=0)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="bulk_runs"
    )
    username = models.CharField(max_length=150)
    sender = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    senders = models.JSONField(default=list)
    status = models.CharField(max_length=10, default=REVIEW)
    changed_by = models.CharField(max_length=150, blank=True)
    created_at = models.BigIntegerField()
    started_at = models.BigIntegerField(null=True)
    last_sent_at = models.BigIntegerField(null=True)
    ended_at = models.BigIntegerField(null=True)
    tallies = models.JSONField(default=dict)
    rate = models.FloatField(default=0)
    trouble = models.CharField(max_length=300, blank=True)
    lease = models.CharField(max_length=36, blank=True)
    lease_until = models.BigIntegerField(default=0)

    class Meta:
        indexes = (
            Index(fields=["-created_at"], name="bulk_newest"),
            Index(fields=["started_at"], condition=Q(ended_at=None), name="bulk_open"),
        )

    @property
    def sender_name(self) -> str:
        """Return in whose name commands are sent; before the start, who prepared it."""
        return self.senders[-1]["name"] if self.senders else self.username

    def sender_of(self, number: int) -> str:
        """Return in whose name the command for the asset of this number was sent, or would be."""
        names = [each["name"] for each in self.senders if each["first"] <= number]
        return names[-1] if names else self.sender_name


class Item(models.Model):
    """One asset of a run. number: its place; was: its state at the review ("": not on the board).

    version: of the review, sortable; returns: whether it would be back after a purge, and age: how
    old its newest report was, ms; pinned_by: who had pinned it at the review, and pin: how, as
    JSON; command: the id of its command, made of run and asset; text: why it was left out or
    refused; partition and offset: the command's place in the log.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="items")
    number = models.IntegerField()
    asset = models.CharField(max_length=255)
    fate = models.CharField(max_length=10, default=READY)
    text = models.CharField(max_length=200, blank=True)
    was = models.CharField(max_length=64, blank=True)
    version = models.CharField(max_length=40, blank=True)
    returns = models.SmallIntegerField(default=STAYS)
    age = models.BigIntegerField(null=True)
    pinned_by = models.CharField(max_length=255, blank=True, default="")
    pin = models.TextField(blank=True, default="")
    command = models.CharField(max_length=36)
    partition = models.IntegerField(null=True)
    offset = models.BigIntegerField(null=True)
    answered_version = models.CharField(max_length=40, blank=True)
    answered_at = models.BigIntegerField(null=True)

    class Meta:
        constraints = (UniqueConstraint(fields=["run", "number"], name="one_bulk_item_per_number"),)
        indexes = (
            Index(fields=["run", "fate", "number"], name="bulk_fates"),
            Index(fields=["asset"], name="bulk_asset"),
        )

    def __str__(self) -> str:
        return f"{self.asset}: {self.fate}"


# ---- run owners ----------------------------------------------------------------------------------
# The users in whose name a run goes on: who started it, then who took it over.


def sent_as(run: Run, user: User, now: int) -> dict[str, Any]:
    """Return the fields of a run that goes on in this user's name from `now` (ms).

    What was claimed and not stored as sent goes with the rest: sent twice, it is one command to the
    job.
    """
    if run.sender_id == user.pk:
        return {}
    left = Item.objects.filter(run=run, fate__in=(READY, SENDING))
    first = left.aggregate(first=Min("number"))["first"] or 0
    sender = {"name": user.get_username(), "since": now, "first": first}
    return {"sender": user, "senders": [*run.senders, sender]}


# ---- bulk ----------------------------------------------------------------------------------------
# The time for which runs are kept, and how many.

KEPT_MS = 90 * DAY_MS
REVIEW_KEPT_MS = DAY_MS
MOST_RUNS = 1_000
MOST_ITEMS = 3_000_000
# Most reviews of one user that wait to be confirmed: the newest.
MOST_REVIEWS = 5


def delete(runs: QuerySet[Run]) -> int:
    """Delete runs with their assets, a portion at a time. Returns how many runs."""
    gone = 0
    for pk in list(runs.values_list("pk", flat=True)):
        delete_in_portions(Item.objects.filter(run=pk))
        gone += delete_rows(Run.objects.filter(pk=pk))
    return gone


def delete_surplus_reviews(username: str) -> None:
    """Delete a user's reviews but for the newest."""
    mine = Run.objects.filter(status=REVIEW, username=username).order_by("-created_at")
    delete_surplus(mine, MOST_REVIEWS, delete)


def _delete_surplus_items(_now: int) -> int:
    """Delete the oldest ended runs until all have few enough assets. Returns how many runs."""
    surplus = []
    total = Run.objects.aggregate(n=Sum("matched"))["n"] or 0
    ended = Run.objects.exclude(ended_at=None).order_by("created_at", "pk")
    for pk, matched in ended.values_list("pk", "matched"):
        if total <= MOST_ITEMS:
            break
        surplus.append(pk)
        total -= matched
    return delete(Run.objects.filter(pk__in=surplus))


KEPT = (
    Retention("runs of many commands", Run, "created_at", KEPT_MS, delete=delete),
    Retention(
        "reviews that nobody confirmed",
        Run,
        "created_at",
        REVIEW_KEPT_MS,
        condition=Q(status=REVIEW),
        delete=delete,
    ),
    Retention(
        "bulk runs that have ended",
        Run,
        "created_at",
        at_most=MOST_RUNS,
        condition=Q(ended_at__isnull=False),
        delete=delete,
    ),
    Thinning("assets of runs", _delete_surplus_items, at_most=MOST_ITEMS),
)
