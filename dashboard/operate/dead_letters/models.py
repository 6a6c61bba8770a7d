"""Dead letters in the database: their bytes, what became of them, how long they are kept."""

from __future__ import annotations

import msgspec
from django.core.cache import caches
from django.db import models, transaction
from django.db.models import F, Index, Max, QuerySet, UniqueConstraint

from dashboard.core.common.retention import Retention, Thinning, delete_in_portions, delete_rows
from dashboard.core.common.times import DAY_MS
from dashboard.operate.dead_letters.diagnosis import Sample

# ---- dead letters --------------------------------------------------------------------------------
# Dead letters in the database. Times in Unix ms.

OPEN, SENDING, REDRIVEN, DISCARDED = "open", "sending", "redriven", "discarded"
# What may have become of a letter, with the words a page uses for it.
OUTCOMES = {OPEN: "Open", SENDING: "Being sent", REDRIVEN: "Redriven", DISCARDED: "Discarded"}


COUNT_KEPT_S = 5
_COUNT = "dead-letters-open"

_HEADERS = msgspec.json.Decoder(list[tuple[str, bytes]])
_OPEN_AGAIN = {
    "status": OPEN,
    "status_at": None,
    "status_by": "",
    "edited": False,
    "new_topic": "",
    "new_partition": None,
    "sent_from": None,
}


class DeadLetterQuerySet(models.QuerySet["DeadLetter"]):
    def open(self) -> DeadLetterQuerySet:
        """Return the letters that nobody has dealt with."""
        return self.filter(status=OPEN)

    def of_record(self, topic: str, partition: int, offset: int) -> DeadLetterQuerySet:
        """Return the letter of the record at this place, if there is one."""
        return self.filter(topic=topic, partition=partition, offset=offset)

    def discard(self, user: str, why: str, now: int) -> int:
        """Discard the open letters. Returns how many."""
        done = self.open().update(status=DISCARDED, status_at=now, status_by=user, why=why)
        self.forget_count()
        return done

    def count_open(self) -> int:
        """Return how many letters are open; the count may be a few seconds old."""
        count = caches["figures"].get(_COUNT)
        if count is None:
            count = DeadLetter.objects.open().count()
            caches["figures"].set(_COUNT, count, COUNT_KEPT_S)
        return int(count)

    def forget_count(self) -> None:
        """Drop this process's cached count, so that the next call counts again."""
        caches["figures"].delete(_COUNT)


class DeadLetter(models.Model):
    """A record that the job refused; one row however often the job reported it.

    topic, partition, offset, appended_at: of the refused record in its source topic; whole: key,
    value and headers are complete, else only their beginnings are stored; asset, agent: as far as
    they can be read, for searching. dead_partition, dead_offset: of the first report in the dead
    letters' topic, noted_at its time; repeats: how often it was reported again, up to
    `last_dead_offset`.

    status, status_at, status_by, why: what became of it, when, by whom and why. A letter that is
    being sent already has its new partition, and the offset from which to look for it there
    (`sent_from`).
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

    status = models.CharField(max_length=10, default=OPEN)
    status_at = models.BigIntegerField(null=True)
    status_by = models.CharField(max_length=150, blank=True)
    why = models.CharField(max_length=500, blank=True)
    edited = models.BooleanField(default=False)
    new_topic = models.CharField(max_length=249, blank=True)
    new_partition = models.IntegerField(null=True)
    new_offset = models.BigIntegerField(null=True)
    sent_from = models.BigIntegerField(null=True)

    # Last, because SQLite reads a row from its beginning, so counting rows need not read values.
    headers = models.TextField(default="[]")
    key = models.BinaryField(null=True)
    value = models.BinaryField(null=True)

    objects = DeadLetterQuerySet.as_manager()

    class Meta:
        # The same report always names the same source record, so this holds for the dead letters'
        # own places too. A topic that was created again has the same places, not the same times.
        constraints = (
            UniqueConstraint(
                fields=["topic", "partition", "offset", "appended_at"], name="one_letter_per_record"
            ),
        )
        indexes = (
            Index(fields=["status", "appended_at", "id"], name="letters_by_status"),
            Index(fields=["appended_at", "id"], name="letters_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}: {self.reason}, {self.status}"

    @property
    def place(self) -> str:
        """Return the refused record's place: topic/partition/offset."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def status_text(self) -> str:
        """Return what became of it, in words."""
        return OUTCOMES.get(self.status, self.status)

    # ---- the refused record, as far as it was kept ----

    @property
    def record_key(self) -> bytes | None:
        """Return its key, or None."""
        return None if self.key is None else bytes(self.key)

    @property
    def record_value(self) -> bytes | None:
        """Return its value, or None."""
        return None if self.value is None else bytes(self.value)

    @property
    def record_headers(self) -> list[tuple[str, bytes]]:
        """Return its headers."""
        return _HEADERS.decode(self.headers)

    @property
    def sample(self) -> Sample:
        """Return the record for its diagnosis."""
        return Sample(self.record_key, self.record_value, self.partition, self.appended_at)

    # ---- what becomes of it ----

    def claim(self, user: str, now: int, partition: int, sent_from: int, *, edited: bool) -> bool:
        """Claim the letter to send it again to a partition. Returns whether it was still open.

        sent_from: the offset from which to look for it there.
        """
        claimed = DeadLetter.objects.open().filter(pk=self.pk)
        return (
            claimed.update(
                status=SENDING,
                status_at=now,
                status_by=user,
                edited=edited,
                new_topic=self.topic,
                new_partition=partition,
                new_offset=None,
                sent_from=sent_from,
            )
            == 1
        )

    def mark_redriven(self, partition: int, offset: int) -> None:
        """Store where it arrived, if it is being sent."""
        self._settle(status=REDRIVEN, new_partition=partition, new_offset=offset)

    def reopen(self) -> None:
        """Reopen the letter, if it is being sent."""
        self._settle(**_OPEN_AGAIN)

    def _settle(self, **fields: object) -> None:
        DeadLetter.objects.filter(pk=self.pk, status=SENDING).update(**fields)
        DeadLetter.objects.forget_count()


class LetterCount(models.Model):
    """A count of letters affected by something that leaves no row: `thinned`."""

    what = models.CharField(max_length=20, unique=True)
    n = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.what}: {self.n}"


# ---- dead letters --------------------------------------------------------------------------------
# How long letters are kept, and how many. Deleted letters are counted.

# How long a letter is kept after it was noted: longer than its topic keeps it.
KEPT_MS = 30 * DAY_MS
MAX_LETTERS = 50_000


def delete_surplus(_now: int = 0) -> int:
    """Delete the oldest letters above the limit. Returns how many.

    Ids rise as letters arrive, so the newest id shows which letters are within the limit, without
    counting them.
    """
    newest = DeadLetter.objects.aggregate(newest=Max("id"))["newest"]
    if newest is None or newest <= MAX_LETTERS:
        return 0
    surplus = DeadLetter.objects.filter(id__lte=newest - MAX_LETTERS)
    return delete_in_portions(surplus.order_by("id"), _delete_counted)


def deleted_count() -> int:
    """Return how many letters have ever been deleted."""
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
