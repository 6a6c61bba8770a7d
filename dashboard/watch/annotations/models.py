"""Annotations of assets and their labels. They belong to names, so a purge leaves them. Times in
Unix ms.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, models
from django.db.models import Index, Q, QuerySet, UniqueConstraint

from dashboard.core.audit.log import Actor
from dashboard.core.common.models import AssetRow, AuthoredRow, ScenarioRow
from dashboard.core.common.retention import Retention, delete_rows
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard.core.states.models import HIDDEN_KEPT_MS, PLACE, AssetState
from dashboard.core.states.queries import listed
from domain.names import MAX_STATE
from domain.scenario import Scenario

# ---- annotations ---------------------------------------------------------------------------------
# Annotations of assets. They belong to their names, so a purge leaves them. Times in Unix ms.

MAX_WHY = 500
"""Longest reason of an acknowledgement, characters."""
MAX_NOTE = 2_000
"""Longest note, characters."""
MAX_TEXT = 8_000
"""Longest text of a handover, characters."""
MAX_WORK = 100
"""Longest name of a maintenance window, characters."""
NUMBER = "INC-"
"""What the number of an incident begins with."""

ENDS: dict[str, str] = {
    "worse": "it got more severe",
    "calm": "it returned to the least severe state",
    "purged": "it was taken off the board",
    "taken back": "taken back",
    "replaced": "acknowledged anew",
}
"""Why an acknowledgement may end before its time."""


def calm_of(scenario: Scenario) -> int:
    """Return the severity from which on nothing is to be done."""
    return len(scenario.states) - 1


class AcknowledgementQuerySet(models.QuerySet["Acknowledgement"]):
    """Acknowledgements."""

    def in_force(self, now: int) -> AcknowledgementQuerySet:
        """Return those that have not ended at `now` (Unix ms)."""
        return self.filter(ended_at=None, until__gt=now)

    def of_assets(self, scenario: str, assets: Collection[str]) -> AcknowledgementQuerySet:
        """Return those of these assets."""
        return self.filter(scenario=scenario, asset__in=listed(list(assets)))


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

    objects = AcknowledgementQuerySet.as_manager()

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

    def why_ended_by(self, place: str, state: str, scenario: Scenario) -> str:
        """Return why a change of the asset's state ends it; empty where it does not, or came before
        it. place: of the change; state: then, "" after a purge."""
        if place <= self.place:
            return ""
        if not state:
            return "purged"
        severity = scenario.severity(state)
        if severity >= calm_of(scenario):
            return "calm"
        return "worse" if severity < self.severity else ""


NOTE_EDITED_FOR_MS = 15 * MINUTE_MS
"""How long a note may be edited."""


class NoteQuerySet(models.QuerySet["Note"]):
    """Notes."""

    def shown(self) -> NoteQuerySet:
        """Return those that are not deleted."""
        return self.filter(deleted_at=None)

    def of_asset(self, scenario: str, asset: str) -> NoteQuerySet:
        """Return those of an asset that are shown, newest first."""
        return self.shown().filter(scenario=scenario, asset=asset).order_by("-at", "-pk")


class Note(AssetRow, AuthoredRow):
    """A text that a user wrote about an asset.

    A deleted one is kept for the audit, but not shown.
    """

    text = models.CharField(max_length=MAX_NOTE)
    at = models.BigIntegerField()
    edited_at = models.BigIntegerField(null=True)
    deleted_at = models.BigIntegerField(null=True)

    objects = NoteQuerySet.as_manager()

    class Meta:
        indexes = (
            Index(
                fields=["scenario", "asset", "-at"],
                condition=Q(deleted_at=None),
                name="notes_of_asset",
            ),
            Index(fields=["at"], name="notes_by_age"),
        )

    def may_be_edited_by(self, user: User, now: int) -> bool:
        """Return whether the user wrote the note, recently enough."""
        return self.may_be_deleted_by(user) and now - self.at < NOTE_EDITED_FOR_MS

    def may_be_deleted_by(self, user: User) -> bool:
        """Return whether the user wrote the note, and it is not deleted."""
        return self.deleted_at is None and self.user_id == user.pk


class MarkQuerySet(models.QuerySet["Mark"]):
    """Marks."""

    def nonempty(self) -> MarkQuerySet:
        """Return those that say anything."""
        return self.exclude(ack_until=None, notes=0, work_until=None, case=None)

    def in_force(self, scenario: str, now: int) -> MarkQuerySet:
        """Return those of acknowledgements and of maintenance that have not ended at `now`."""
        return self.filter(Q(ack_until__gt=now) | Q(work_until__gt=now), scenario=scenario)


class Mark(AssetRow):
    """The part of a board's row that shows both; written in the transaction that changes either.

    revision: rises with each change, so that readers keep the newest; changed_at: by which live
    processes find what is new. ack_*: of the acknowledgement in force, empty without one; work_*:
    of the maintenance window that covers it, the one that ends last where there are several; case:
    the number of the incident that its asset is in now.
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
    case = models.BigIntegerField(null=True)

    SHOWN: ClassVar = (
        "revision", "changed_at", "ack_by", "ack_since", "ack_until", "ack_severity",
        "ack_reason", "notes", "work_name", "work_until", "work_window", "case",
    )  # fmt: skip

    objects = MarkQuerySet.as_manager()

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


AWAY_MS = 4 * HOUR_MS
"""Who did nothing here for so long was away."""


class Presence(models.Model):
    """The time at which a user last did something here.

    away_from: when, before the newest pause of hours.
    """

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    last_at = models.BigIntegerField()
    away_from = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.user_id} at {self.last_at}"

    def renew(self, now: int) -> None:
        """Store that the user does something at `now` (Unix ms)."""
        if now - self.last_at > AWAY_MS:
            self.away_from = self.last_at
        self.last_at = max(now, self.last_at)
        self.save(update_fields=["last_at", "away_from"])


SHIFT_MS = 8 * HOUR_MS
"""How long a shift is."""
LONGEST_SHIFT_MS = 16 * HOUR_MS
"""A shift that began longer ago was not ended, but is over."""


class ShiftQuerySet(models.QuerySet["Shift"]):
    """Shifts."""

    def going_on(self, now: int) -> ShiftQuerySet:
        """Return those that go on at `now` (Unix ms)."""
        return self.filter(ended_at=None, began_at__gt=now - LONGEST_SHIFT_MS)

    def current(self, user: User, now: int) -> Shift | None:
        """Return the shift that the user is in, or None."""
        return self.going_on(now).filter(user=user).order_by("-began_at", "-pk").first()

    def take_over(self, user: User, now: int) -> Shift:
        """Begin a shift, or go on with one that is open. Returns it."""
        return self.current(user, now) or self.create(
            user=user, username=user.get_username(), began_at=now
        )

    def end(self, user: User, now: int) -> Shift:
        """End the user's shift; where none was begun, the mark stands all the same."""
        begun = self.current(user, now)
        shift = begun or Shift(user=user, username=user.get_username(), began_at=now)
        shift.ended_at = now
        shift.save()
        return shift


class Shift(AuthoredRow):
    """Somebody's shift, from "start my shift" to "end my shift"."""

    began_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)

    objects = ShiftQuerySet.as_manager()

    class Meta:
        indexes = (Index(fields=["user", "-began_at"], name="shifts_of_user"),)

    def __str__(self) -> str:
        return f"{self.username} from {self.began_at}"


TWICE_MS = MINUTE_MS
"""The same text once more within this is the same form once more."""


class HandoverQuerySet(models.QuerySet["Handover"]):
    """Texts for the next shift."""

    def leave(self, user: User, text: str, now: int) -> bool:
        """Keep a text; one that was sent twice in a row is kept once. Returns whether it was
        kept."""
        last = self.order_by("-at", "-pk").first()
        if last and (last.user_id, last.text) == (user.pk, text) and now - last.at < TWICE_MS:
            return False
        self.create(user=user, username=user.get_username(), text=text, at=now)
        return True


class Handover(AuthoredRow):
    """A text for the next shift; it is not changed afterwards."""

    text = models.CharField(max_length=MAX_TEXT)
    at = models.BigIntegerField()

    objects = HandoverQuerySet.as_manager()

    class Meta:
        indexes = (Index(fields=["-at"], name="handovers_by_age"),)

    def __str__(self) -> str:
        return f"handover of {self.username} at {self.at}"


KEPT_MS = 90 * DAY_MS
MARK_KEPT_MS = DAY_MS
"""How long a mark of nothing is kept: by then every live process has seen it."""

ANNOTATIONS_KEPT = (
    Retention("acknowledgements that have ended", Acknowledgement, "until", KEPT_MS),
    Retention("deleted notes", Note, "deleted_at", KEPT_MS),
    Retention("shifts", Shift, "began_at", KEPT_MS),
    Retention("texts for the next shift", Handover, "at", at_most=1_000),
    Retention(
        "marks of assets without annotations",
        Mark,
        "changed_at",
        MARK_KEPT_MS,
        condition=Q(notes=0, work_until=None, case=None),
        also_past="ack_until",
    ),
)


# ---- labels --------------------------------------------------------------------------------------
# Labels as the database keeps them. Times in Unix ms.

MAX_KEY = 32
"""Longest key of a label, characters."""
MAX_VALUE = 100
"""Longest value of a label, characters."""

PERSON, AGENT = "person", "agent"
"""Who a label may come from; a person's is shown rather than an agent's."""


class LabelQuerySet(models.QuerySet["Label"]):
    """Labels."""

    def shown(self, scenario: str) -> LabelQuerySet:
        """Return those of a scenario that are shown."""
        return self.filter(scenario=scenario, shown=True)


class Label(AssetRow):
    """A label that people, or an asset's agents, give it under one key.

    source: `person` or `agent`; name: of that user or agent; shown: false only where a person's
    label of the same key stands before it.
    """

    key = models.CharField(max_length=MAX_KEY)
    value = models.CharField(max_length=MAX_VALUE)
    source = models.CharField(max_length=10)
    name = models.CharField(max_length=255)
    at = models.BigIntegerField()
    shown = models.BooleanField(default=True)

    objects = LabelQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "key", "source"], name="one_label_per_source"
            ),
        )
        indexes = (
            Index(
                fields=["scenario", "key", "value", "asset"],
                condition=Q(shown=True),
                name="labels_found",
            ),
            Index(
                fields=["scenario", "asset"], condition=Q(source="agent"), name="labels_of_agents"
            ),
        )


class LabelChange(models.Model):
    """The number of changes of a scenario's labels: who keeps some of them looks at it.

    chips: the keys that the board shows, in their order, parted by commas.
    """

    scenario = models.CharField(max_length=40, unique=True)
    n = models.BigIntegerField(default=0)
    chips = models.CharField(max_length=3 * MAX_KEY + 2, blank=True)

    def __str__(self) -> str:
        return f"{self.scenario}: {self.n}"


READING, COMPARING, REVIEW, APPLYING = "reading", "comparing", "review", "applying"
DONE, CANCELLED, UNREADABLE = "done", "cancelled", "unreadable"
STOPPED = "stopped"
"""Who had it applied may not any more; whoever takes it over has the rest applied."""
STATUSES = {
    READING: "Reading the file",
    COMPARING: "Comparing it with the present labels",
    REVIEW: "To be confirmed",
    APPLYING: "Applying",
    STOPPED: "Stopped",
    DONE: "Done",
    CANCELLED: "Cancelled",
    UNREADABLE: "Not a table",
}
"""Of a table that somebody has sent."""
OPEN = (READING, COMPARING, APPLYING)
"""There is something to do."""
BEGUN = (APPLYING, STOPPED, DONE, CANCELLED)
"""It has been applied, or a part of it."""

QUIET_MS = 15_000
"""A table on which nothing has been done for this long waits for the worker."""


class LabelUploadQuerySet(models.QuerySet["LabelUpload"]):
    """Label files."""

    def open(self) -> LabelUploadQuerySet:
        """Return the unfinished uploads, in the order in which they were sent."""
        rows = self.filter(status__in=OPEN, scenario__in=list(scenarios()))
        return rows.defer("data").order_by("sent_at", "pk")

    def within_reach(self, user: User) -> LabelUploadQuerySet:
        """Return those of a user, and stopped ones, which anybody may take over."""
        return self.filter(Q(user=user) | Q(status=STOPPED)).defer("data")


class LabelUpload(ScenarioRow):
    """A label file that somebody has sent: read, compared, looked at, applied.

    name: of its file; data: the file until it is read; empty_removes: whether a cell without a
    value removes the label; labels and assets: how many it is about;
    read: what its lines came to (`ImportCounts`, as JSON); portion: the next one to be compared or
    applied; done: labels that have been; found: what that came to; problem: what holds it up, why
    it is no table, or why it is stopped; actor: who had it applied, in whose name it goes on;
    moved_at: when a portion was done last.
    """

    id = models.UUIDField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="label_uploads")
    name = models.CharField(max_length=255)
    status = models.CharField(max_length=10, default=READING)
    labels = models.IntegerField(default=0)
    assets = models.IntegerField(default=0)
    portion = models.IntegerField(default=0)
    done = models.IntegerField(default=0)
    actor = models.JSONField(default=dict)
    sent_at = models.BigIntegerField()
    started_at = models.BigIntegerField()
    moved_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)
    problem = models.CharField(max_length=300, blank=True)
    read = models.TextField(default="{}")
    found = models.TextField(default="{}")
    data = models.BinaryField(null=True)
    empty_removes = models.BooleanField(default=False)

    objects = LabelUploadQuerySet.as_manager()

    class Meta:
        indexes = (
            Index(fields=["sent_at"], condition=Q(status__in=OPEN), name="label_uploads_open"),
        )

    @property
    def is_open(self) -> bool:
        """Return whether there is something to do."""
        return self.status in OPEN

    @property
    def is_begun(self) -> bool:
        """Return whether it has been applied, or a part of it."""
        return self.status in BEGUN

    @property
    def status_text(self) -> str:
        """Return its status in words."""
        return STATUSES[self.status]

    @property
    def percent(self) -> float:
        """Return how many of its labels have been compared or applied, of a hundred."""
        return round(100 * self.done / self.labels, 1) if self.labels else 0.0

    @property
    def time_left_ms(self) -> int | None:
        """Return the time left at the present pace, ms; None if unknown."""
        if not self.is_open or not self.done:
            return None
        took = self.moved_at - self.started_at
        return took * (self.labels - self.done) // self.done + 1_000

    def took_ms(self, now: int) -> int:
        """Return how long applying it took, ms."""
        return (self.ended_at or now) - self.started_at

    def is_waiting(self, now: int) -> bool:
        """Return whether an unfinished upload has made no progress for a while."""
        return self.is_open and now - self.moved_at > QUIET_MS

    def start(self, actor: Actor, now: int) -> bool:
        """Start applying a reviewed upload. Return whether this call started it."""
        began = self._change(
            (REVIEW,), portion=0, done=0, found=self.read, actor=asdict(actor), started_at=now,
            moved_at=now,
        )  # fmt: skip
        self.refresh_from_db()
        return began

    def take_over(self, user: User, actor: Actor, now: int) -> bool:
        """Start applying the rest of a stopped table in this user's name. Returns whether it
        did."""
        if not self._change((STOPPED,), user=user, actor=asdict(actor), moved_at=now):
            return False
        self.refresh_from_db()
        return True

    def _change(self, before: Collection[str], **fields: object) -> bool:
        """Have the worker apply it, if its status is one of these."""
        rows = LabelUpload.objects.filter(pk=self.pk, status__in=before)
        return rows.update(status=APPLYING, problem="", **fields) == 1


class LabelPortion(models.Model):
    """A part of a table, of which each asset is in one: applied whole or not at all.

    edits: by asset and key the value, or null, and the line, as JSON; labels: how many.
    """

    upload = models.ForeignKey(LabelUpload, models.CASCADE, related_name="portions")
    number = models.IntegerField()
    labels = models.IntegerField()
    edits = models.TextField()

    class Meta:
        constraints = (UniqueConstraint(fields=["upload", "number"], name="one_label_portion"),)

    def __str__(self) -> str:
        return f"{self.upload_id}/{self.number}"


# ---- labels --------------------------------------------------------------------------------------
# Retention of label files, and of the labels of purged assets.

UPLOADS_KEPT_MS = 90 * DAY_MS
REVIEWS_KEPT_MS = DAY_MS
UPLOADS_OF_USER = 10
"""Most tables of one user that are kept: the newest."""

_BUMP = """\
INSERT INTO annotations_labelchange (scenario, n, chips) VALUES (%s, 1, '')
ON CONFLICT (scenario) DO UPDATE SET n = annotations_labelchange.n + 1"""


def bump(scenario: str) -> None:
    """Record that the scenario's labels have changed."""
    with connection.cursor() as cursor:
        cursor.execute(_BUMP, [scenario])


def _delete_assets(rows: QuerySet[AssetState]) -> int:
    """Delete purged assets with their labels. Returns how many."""
    by_scenario: dict[str, list[str]] = {}
    for scenario, asset in rows.values_list("scenario", "asset"):
        by_scenario.setdefault(scenario, []).append(asset)
    for scenario, assets in by_scenario.items():
        labels = Label.objects.filter(scenario=scenario, asset__in=listed(assets))
        if labels.exists():
            labels.delete()
            bump(scenario)
    return delete_rows(rows)


KEPT = (
    Retention(
        "purged assets, hidden",
        AssetState,
        "purged_at",
        HIDDEN_KEPT_MS,
        condition=Q(purged=True),
        delete=_delete_assets,
    ),
    Retention(
        "label files",
        LabelUpload,
        "sent_at",
        UPLOADS_KEPT_MS,
        condition=Q(status__in=(STOPPED, DONE, CANCELLED)),
    ),
    Retention(
        "label files that nobody applied",
        LabelUpload,
        "sent_at",
        REVIEWS_KEPT_MS,
        condition=~Q(status__in=BEGUN),
    ),
    *ANNOTATIONS_KEPT,
)
