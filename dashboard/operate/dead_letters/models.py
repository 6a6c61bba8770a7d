"""Dead letters as the database keeps them, how long, and the bytes that they were."""

from __future__ import annotations

import msgspec
from django.db import models, transaction
from django.db.models import F, Index, Max, QuerySet, UniqueConstraint

from dashboard.core.common.retention import Retention, Thinning, delete_in_portions, delete_rows
from dashboard.core.common.times import DAY_MS
from dashboard.operate.dead_letters.diagnosis import Sample

# ---- dead letters --------------------------------------------------------------------------------
# Dead letters as the database keeps them. Times in Unix ms.

OPEN, SENDING, REDRIVEN, DISCARDED = "open", "sending", "redriven", "discarded"
# What may have become of a letter, and what a page calls it.
OUTCOMES = {OPEN: "Open", SENDING: "Being sent", REDRIVEN: "Redriven", DISCARDED: "Discarded"}


class DeadLetter(models.Model):
    """A record that the job refused, once, however often the job reported it.

    topic, partition, offset, appended_at: of the refused record in its source topic; whole: key,
    value and headers are all there, else only their beginnings; asset, agent: as far as they can
    be read, for who looks for them. dead_partition, dead_offset: of the first report in the dead
    letters' topic, noted_at its time; repeats: how often it came again, up to `last_dead_offset`.

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
    last_dead_offset = models.BigIntegerField()

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


# ---- stored records ------------------------------------------------------------------------------
# A stored letter's parts, as the bytes that they were.

_HEADERS = msgspec.json.Decoder(list[tuple[str, bytes]])


def place_of(letter: DeadLetter) -> str:
    """Return where the refused record lay: topic/partition/offset."""
    return f"{letter.topic}/{letter.partition}/{letter.offset}"


def headers_of(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """Return the refused record's headers."""
    return _HEADERS.decode(letter.headers)


def sample_of(letter: DeadLetter) -> Sample:
    """Return the refused record."""
    key, value = key_of(letter), value_of(letter)
    return Sample(key, value, letter.partition, letter.appended_at)


def key_of(letter: DeadLetter) -> bytes | None:
    """Return the key, as far as it was kept, or None."""
    return None if letter.key is None else bytes(letter.key)


def value_of(letter: DeadLetter) -> bytes | None:
    """Return the value, as far as it was kept, or None."""
    return None if letter.value is None else bytes(letter.value)


# ---- dead letters --------------------------------------------------------------------------------
# How long letters are kept, and how many. Those that go are counted.

# How long a letter is kept after it was noted: longer than its topic holds it.
KEPT_MS = 30 * DAY_MS
MAX_LETTERS = 50_000


def delete_surplus(_now: int = 0) -> int:
    """Delete what is over the bound, oldest first. Returns how many.

    Numbers rise as letters come, so the newest number tells which are within the bound, without
    counting them.
    """
    newest = DeadLetter.objects.aggregate(newest=Max("id"))["newest"]
    if newest is None or newest <= MAX_LETTERS:
        return 0
    surplus = DeadLetter.objects.filter(id__lte=newest - MAX_LETTERS)
    return delete_in_portions(surplus.order_by("id"), _delete_counted)


def deleted_count() -> int:
    """Return how many letters were deleted, ever."""
    return LetterCount.objects.filter(what="thinned").values_list("n", flat=True).first() or 0


@transaction.atomic
def _delete_counted(rows: QuerySet[DeadLetter]) -> int:
    gone = delete_rows(rows)
    LetterCount.objects.get_or_create(what="thinned")
    LetterCount.objects.filter(what="thinned").update(n=F("n") + gone)
    return gone


KEPT = (
    Retention("dead letters", DeadLetter, "noted_at", KEPT_MS, delete=_delete_counted),
    Thinning("dead letters, the newest", delete_surplus, at_most=MAX_LETTERS),
)
