"""Annotations of assets. They belong to their names, so a purge leaves them. Times in Unix ms."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.models import AssetRow, AuthoredRow
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.states.models import PLACE
from domain.names import MAX_STATE

MAX_WHY = 500
"""Longest reason of an acknowledgement, characters."""
MAX_NOTE = 2_000
"""Longest note, characters."""
MAX_TEXT = 8_000
"""Longest text of a handover, characters."""
MAX_WORK = 100
"""Longest name of a maintenance window, characters."""

ENDS: dict[str, str] = {
    "worse": "it got more severe",
    "calm": "it returned to the least severe state",
    "purged": "it was taken off the board",
    "taken back": "taken back",
    "replaced": "acknowledged anew",
}
"""Why an acknowledgement may end before its time."""


class Acknowledgement(AssetRow, AuthoredRow):
    """Somebody has an asset in hand until a time. state, severity, place: of the asset as it was
    acknowledged; ended_*: of an end before its time, the time itself needs none."""

    reason = models.CharField(max_length=MAX_WHY, blank=True)
    at = models.BigIntegerField()
    until = models.BigIntegerField()
    state = models.CharField(max_length=MAX_STATE)
    severity = models.IntegerField()
    place = models.CharField(max_length=PLACE)
    ended_at = models.BigIntegerField(null=True)
    ended_why = models.CharField(max_length=12, blank=True)
    ended_by = models.CharField(max_length=150, blank=True)

    class Meta:
        indexes = (
            Index(fields=["scenario", "asset"], condition=Q(ended_at=None), name="acks_not_ended"),
            Index(fields=["scenario", "asset", "-at"], name="acks_of_asset"),
            Index(fields=["until"], name="acks_by_end"),
        )

    def in_force(self, now: int) -> bool:
        """Return whether it is in force at `now`."""
        return self.ended_at is None and now < self.until

    def end(self, now: int) -> int | None:
        """Return when it ended, None while it is in force."""
        return None if self.in_force(now) else self.ended_at or self.until

    @property
    def end_words(self) -> str:
        """Return why it ended before its time; empty where its time was its end."""
        return ENDS.get(self.ended_why, "")


class Note(AssetRow, AuthoredRow):
    """A text that a user wrote about an asset.

    A deleted one is kept for the audit, but not shown.
    """

    text = models.CharField(max_length=MAX_NOTE)
    at = models.BigIntegerField()
    edited_at = models.BigIntegerField(null=True)
    deleted_at = models.BigIntegerField(null=True)

    class Meta:
        indexes = (
            Index(
                fields=["scenario", "asset", "-at"],
                condition=Q(deleted_at=None),
                name="notes_of_asset",
            ),
            Index(fields=["at"], name="notes_by_age"),
        )


class Mark(AssetRow):
    """The part of a board's row that shows both; written in the transaction that changes either.

    revision: rises with each change, so that readers keep the newest; changed_at: by which live
    processes find what is new. ack_*: of the acknowledgement in force, empty without one; work_*:
    of the maintenance window that covers it, the one that ends last where there are several.
    """

    revision = models.BigIntegerField()
    changed_at = models.BigIntegerField()
    ack_by = models.CharField(max_length=150, blank=True)
    ack_since = models.BigIntegerField(null=True)
    ack_until = models.BigIntegerField(null=True)
    ack_severity = models.IntegerField(null=True)
    ack_reason = models.CharField(max_length=MAX_WHY, blank=True)
    notes = models.IntegerField(default=0)
    work_name = models.CharField(max_length=MAX_WORK, blank=True)
    work_until = models.BigIntegerField(null=True)
    work_window = models.BigIntegerField(null=True)

    SHOWN: ClassVar = (
        "revision", "changed_at", "ack_by", "ack_since", "ack_until", "ack_severity",
        "ack_reason", "notes", "work_name", "work_until", "work_window",
    )  # fmt: skip

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "asset"], name="one_mark_per_asset"),)
        indexes = (
            Index(fields=["changed_at"], name="marks_by_change"),
            Index(
                fields=["scenario", "ack_until"],
                condition=Q(ack_until__isnull=False),
                name="marks_in_force",
            ),
            Index(
                fields=["scenario", "work_until"],
                condition=Q(work_until__isnull=False),
                name="marks_of_work",
            ),
        )


class Presence(models.Model):
    """The time at which a user last did something here.

    away_from: when, before the newest pause of hours.
    """

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    last_at = models.BigIntegerField()
    away_from = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.user_id} at {self.last_at}"


class Shift(AuthoredRow):
    """Somebody's shift, from "I take over" to "my shift ends"."""

    began_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)

    class Meta:
        indexes = (Index(fields=["user", "-began_at"], name="shifts_of_user"),)

    def __str__(self) -> str:
        return f"{self.username} from {self.began_at}"


class Handover(AuthoredRow):
    """A text for the next shift; it is not changed afterwards."""

    text = models.CharField(max_length=MAX_TEXT)
    at = models.BigIntegerField()

    class Meta:
        indexes = (Index(fields=["-at"], name="handovers_by_age"),)

    def __str__(self) -> str:
        return f"handover of {self.username} at {self.at}"


KEPT_MS = 90 * DAY_MS
MARK_KEPT_MS = DAY_MS
"""How long a mark of nothing is kept: by then every live process has seen it."""

KEPT = (
    Retention("acknowledgements that have ended", Acknowledgement, "until", KEPT_MS),
    Retention("deleted notes", Note, "deleted_at", KEPT_MS),
    Retention("shifts", Shift, "began_at", KEPT_MS),
    Retention("texts for the next shift", Handover, "at", at_most=1_000),
    Retention(
        "marks of assets without annotations",
        Mark,
        "changed_at",
        MARK_KEPT_MS,
        condition=Q(notes=0, work_until=None),
        also_past="ack_until",
    ),
)
