"""Carrying a label file on: read, compared, applied, a portion at a time.

May be cut short at any point and go on here or in another process. Where a table is stands in the
database; each step begins with a conditional update of that, so that no portion is counted twice,
and a portion's labels are written in the transaction of its step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import QuerySet

from dashboard.audit.log import Actor
from dashboard.core.resumable import MAX_TROUBLE, ResumableTask, take_turns
from dashboard.core.scenarios import scenarios
from dashboard.core.times import Clock, now_ms
from dashboard.labels import csv_tables, upload_service, writer
from dashboard.labels.csv_tables import Table, Unreadable, Wanted
from dashboard.labels.import_counts import ImportCounts
from dashboard.labels.models import (
    APPLYING,
    COMPARING,
    DONE,
    OPEN,
    READING,
    REVIEW,
    UNREADABLE,
    LabelPortion,
    LabelUpload,
)
from dashboard.states.queries import stored

# Labels that are written in one transaction, so that nobody waits long for the lock.
PORTION = 1_000
# A table of so many labels is compared and applied where it is asked for.
AT_ONCE = 1_000
# A file so large is read where it is sent.
AT_ONCE_BYTES = 64 << 10
# Longest pause after a portion was applied, s: it is as long as that took, so that who else writes
# gets by.
REST_S = 0.5


def open_uploads() -> list[LabelUpload]:
    """Return the tables of which there is something to do, the first that was sent first."""
    uploads = LabelUpload.objects.filter(status__in=OPEN, scenario__in=list(scenarios()))
    return list(uploads.defer("data").order_by("sent_at"))


def work(clock: Clock = now_ms) -> bool:
    """Give each open table a turn. Returns whether one of them can go on at once."""
    return take_turns(UploadTask(upload, clock) for upload in open_uploads())


def at_once(upload: LabelUpload, clock: Clock = now_ms) -> None:
    """Carry a table on here as far as that takes a moment; the rest is the worker's."""
    task = UploadTask(upload, clock)
    with suppress(LabelUpload.DoesNotExist):  # its user has sent another one instead
        while upload.status in OPEN and _small(upload):
            task.step()


def _small(upload: LabelUpload) -> bool:
    if upload.status == READING:
        return len(upload.data or b"") <= AT_ONCE_BYTES
    return upload.labels <= AT_ONCE


class UploadTask(ResumableTask[LabelUpload]):
    """One worker's turn at a table. It needs no lease: portions are done in their order, and each
    is noted only where it is the table's next one."""

    kind = "label file"

    def __init__(self, upload: LabelUpload, clock: Clock = now_ms) -> None:
        super().__init__(upload, clock)
        self.upload = upload

    def held(self) -> QuerySet[LabelUpload]:
        """Return the table, where it is still at the portion that this worker saw."""
        seen = self.upload
        return LabelUpload.objects.filter(pk=seen.pk, status=seen.status, portion=seen.portion)

    def move(self, **fields: Any) -> bool:
        """Record that the table has come further. Returns whether it was where this worker saw
        it."""
        return super().move(**{"moved_at": self.clock(), "trouble": "", **fields})

    def step(self) -> bool:
        """Do the table's next portion. Returns whether there is another one.

        Raises LabelUpload.DoesNotExist where it has been thrown away.
        """
        upload = self.upload
        upload.refresh_from_db()
        if upload.status == READING:
            self._read()
        elif upload.status in OPEN and not self._stopped():
            portion = upload.portions.filter(number=upload.portion).first()
            if portion is not None:
                self._pass(portion)
            elif upload.status == COMPARING:
                self.move(status=REVIEW)
            else:
                upload_service.end(upload, DONE, self.clock())
        return upload.status in OPEN

    def pause_s(self, took_s: float) -> float:
        """Return a pause where labels were written."""
        return min(REST_S, took_s) if self.upload.status == APPLYING else 0.0

    def note_stopped(self, why: str) -> None:
        """Record in the audit that the table was stopped."""
        counted = ImportCounts.of(self.upload.found)
        upload_service.audit(self.upload, f"stopped: {why}", counted, Actor.system("worker"))

    def _stopped(self) -> bool:
        """Return whether nothing more is applied, as who had it applied may not do so any more."""
        actor = self.upload.actor
        applying = self.upload.status == APPLYING
        return applying and self.stop_if_lapsed(actor["user_id"], actor["name"])

    # ---- read -----------------------------------------------------------------------------------

    def _read(self) -> None:
        now = self.clock()
        try:
            table = csv_tables.read(bytes(self.upload.data or b""))
        except Unreadable as error:
            trouble = str(error)[:MAX_TROUBLE]
            self.move(status=UNREADABLE, trouble=trouble, data=None, ended_at=now)
            return
        read = table.found.text()
        size = {"labels": table.labels, "assets": len(table.wanted), "read": read, "found": read}
        with transaction.atomic():
            if self.move(status=COMPARING, data=None, started_at=now, **size):
                portions = _portions(self.upload, table)
                LabelPortion.objects.bulk_create(portions, batch_size=100)

    # ---- compared, applied ----------------------------------------------------------------------

    def _pass(self, portion: LabelPortion) -> None:
        """Compare a portion with the labels that there are, or apply it, and count its changes."""
        upload = self.upload
        rows = msgspec.json.decode(portion.wanted, type=Wanted)
        wanted = {
            asset: {key: each.value for key, each in labels.items()}
            for asset, labels in rows.items()
        }
        lines = {(a, key): each.line for a, labels in rows.items() for key, each in labels.items()}
        counted = ImportCounts.of(upload.found)
        further = {"portion": portion.number + 1, "done": upload.done + portion.labels}
        if upload.status == APPLYING:
            self._apply(wanted, lines, counted, further)
            return
        counted.take(writer.compare(upload.scenario, wanted), lines)
        shown = sum(bool(kept.state) for kept in stored(upload.scenario, wanted.keys()).values())
        counted.unknown += len(wanted) - shown
        self.move(found=counted.text(), **further)

    def _apply(
        self,
        wanted: writer.Wanted,
        lines: dict[tuple[str, str], int],
        counted: ImportCounts,
        further: dict[str, int],
    ) -> None:
        upload = self.upload
        with transaction.atomic():
            if not self.move(**further):
                return  # another worker has it, or it was cancelled
            changes = writer.put(upload.scenario, wanted, upload.actor["name"], self.clock())
            counted.take(changes, lines)
            LabelUpload.objects.filter(pk=upload.pk).update(found=counted.text())


def _portions(upload: LabelUpload, table: Table) -> Iterator[LabelPortion]:
    """Yield the table in parts of PORTION labels or a few more."""
    part: Wanted = {}
    number = labels = 0
    for asset, values in table.wanted.items():
        part[asset] = values
        labels += len(values)
        if labels >= PORTION:
            yield _portion(upload, number, labels, part)
            part, number, labels = {}, number + 1, 0
    if part:
        yield _portion(upload, number, labels, part)


def _portion(upload: LabelUpload, number: int, labels: int, part: Wanted) -> LabelPortion:
    wanted = msgspec.json.encode(part).decode()
    return LabelPortion(upload=upload, number=number, labels=labels, wanted=wanted)
