"""Dead letters as the database keeps them. Times in Unix ms."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

OPEN, SENDING, REDRIVEN, DISCARDED = "open", "sending", "redriven", "discarded"
# What may have become of a letter, and what a page calls it.
FATES = {OPEN: "Open", SENDING: "Being sent", REDRIVEN: "Redriven", DISCARDED: "Discarded"}


class DeadLetter(models.Model):
    """A record that the job refused, once, however often the job reported it.

    topic, partition, offset, appended_at: of the refused record in its source topic; whole: key,
    value and headers are all there, else only their beginnings; asset, agent: as far as they can
    be read, for who looks for them. dead_partition, dead_offset: of the first report in the dead
    letters' topic, noted_at its time; repeats: how often it came again, up to `told_offset`.

    fate, fate_at, fate_by, why: what became of it, when, by whom, for what reason; a letter that
    is being sent has its new partition already, and the offset from which it must be looked for
    there (`sent_from`).
    """

    reason = models.CharField(max_length=20)
    scenario = models.CharField(max_length=40, blank=True)
    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    offset = models.BigIntegerField()
    appended_at = models.BigIntegerField()
    size = models.IntegerField()
    whole = models.BooleanField(default=True)
    asset = models.CharField(max_length=255, blank=True)
    agent = models.CharField(max_length=255, blank=True)

    dead_partition = models.IntegerField()
    dead_offset = models.BigIntegerField()
    noted_at = models.BigIntegerField()
    repeats = models.IntegerField(default=0)
    told_offset = models.BigIntegerField()

    fate = models.CharField(max_length=10, default=OPEN)
    fate_at = models.BigIntegerField(null=True)
    fate_by = models.CharField(max_length=150, blank=True)
    why = models.CharField(max_length=500, blank=True)
    edited = models.BooleanField(default=False)
    new_topic = models.CharField(max_length=249, blank=True)
    new_partition = models.IntegerField(null=True)
    new_offset = models.BigIntegerField(null=True)
    sent_from = models.BigIntegerField(null=True)

    # Last, because SQLite reads a row from its beginning: who counts rows reads no values.
    headers = models.TextField(default="[]")
    key = models.BinaryField(null=True)
    value = models.BinaryField(null=True)

    class Meta:
        # The same telling names the same source record, so this holds for the dead letters'
        # own places too.
        constraints = (
            UniqueConstraint(fields=["topic", "partition", "offset"], name="one_letter_per_record"),
        )
        indexes = (
            Index(fields=["fate", "appended_at", "id"], name="letters_by_fate"),
            Index(fields=["appended_at", "id"], name="letters_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}: {self.reason}, {self.fate}"


class LetterCount(models.Model):
    """How many letters something has happened to that leaves no row: `thinned`."""

    what = models.CharField(max_length=20, unique=True)
    n = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.what}: {self.n}"
