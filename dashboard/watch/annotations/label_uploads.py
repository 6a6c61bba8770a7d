"""The life of a label file: sent, reviewed, applied, stopped; and its counts."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from django.contrib.auth.models import User
from django.db import transaction

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import Limit
from dashboard.core.common.tables import Column, Table
from dashboard.watch.annotations.labels import LabelEdit
from dashboard.watch.annotations.models import (
    APPLYING,
    BEGUN,
    CANCELLED,
    OPEN,
    READING,
    STOPPED,
    UPLOADS_OF_USER,
    LabelUpload,
)

# ---- import counts -------------------------------------------------------------------------------
# Counts of a label file: each label of the file is of one kind.

# Most refusals of which line and reason are kept.
MOST_REFUSED = 1_000
# Most changes that are kept to be listed.
LISTED = 200

# What may become of a label of a file. Their counts add up to what the file says.
KINDS = {
    "new": "New",
    "changed": "Changed",
    "removed": "Removed",
    "same": "Unchanged",
    "refused": "Refused",
    "again": "Repeated",
    "agents": "From agents",
    "left": "Left out by cancelling",
}


class ImportCounts(msgspec.Struct):
    """counts: by kind; refused: the numbers of lines, and why not, the first MOST_REFUSED; changes:
    the first LISTED that are any; unknown: assets that are on no board."""

    counts: dict[str, int] = {}
    refused: list[tuple[int, str]] = []
    changes: list[LabelEdit] = []
    unknown: int = 0

    @classmethod
    def of(cls, text: str) -> ImportCounts:
        """Return the counts from their text in the database."""
        return msgspec.json.decode(text, type=cls)

    def text(self) -> str:
        """Return the text for the database."""
        return msgspec.json.encode(self).decode()

    def count(self, kind: str, n: int = 1) -> None:
        """Count what is of this kind."""
        self.counts[kind] = self.counts.get(kind, 0) + n

    def refuse(self, line: int, why: str) -> None:
        """Count what is refused, and keep why."""
        self.count("refused")
        if len(self.refused) < MOST_REFUSED:
            self.refused.append((line, why))

    def take(self, changes: Iterable[LabelEdit], lines: Mapping[tuple[str, str], int]) -> None:
        """Count changes. lines: by asset and key, the line of the file."""
        for change in changes:
            if change.fault:
                why = f"{change.asset}, {change.key}: {change.fault}"
                self.refuse(lines[change.asset, change.key], why)
                continue
            self.count(change.kind)
            if change.kind != "same" and len(self.changes) < LISTED:
                self.changes.append(change)

    @property
    def said(self) -> int:
        """Return how many labels have been counted."""
        return sum(self.counts.values())

    @property
    def worth_it(self) -> bool:
        """Return whether anything would be another than it is."""
        return any(self.counts.get(kind) for kind in ("new", "changed", "removed"))

    @property
    def lines(self) -> list[tuple[str, str, int]]:
        """Return each kind that there is, in words, with how many; they add up to `said`."""
        counts = self.counts
        return [(kind, word, counts[kind]) for kind, word in KINDS.items() if counts.get(kind)]

    @property
    def refused_lines(self) -> list[tuple[int, str]]:
        """Return the lines that were refused, and why not, as far as that is kept."""
        return sorted(self.refused)


# ---- upload service ------------------------------------------------------------------------------
# Label files as people deal with them: sent, looked at, applied, stopped.

UPLOADS = Limit("tables", 20)
UPLOAD_TABLE = Table(
    "label-uploads", "File", "Status", Column.number("Labels"), Column.number("Refused"),
    Column.time("Sent"),
)  # fmt: skip


def keep(
    user: User, scenario: str, name: str, data: bytes, now: int, empty_removes: bool = False
) -> LabelUpload:
    """Store a file that a user has sent at `now` (ms), to be read.

    empty_removes: whether a cell without a value removes the label.
    Of those that the user has not had applied it is the only one.
    """
    mine = LabelUpload.objects.filter(user=user)
    mine.exclude(status__in=BEGUN).delete()
    newest = list(
        mine.order_by("-sent_at", "-pk").values_list("pk", flat=True)[: UPLOADS_OF_USER - 1]
    )
    mine.exclude(pk__in=newest).exclude(status__in=OPEN).delete()
    return LabelUpload.objects.create(
        id=uuid.uuid4(),
        user=user,
        scenario=scenario,
        name=name[-255:].encode(errors="replace").decode(),
        status=READING,
        data=data,
        empty_removes=empty_removes,
        sent_at=now,
        started_at=now,
        moved_at=now,
    )


def end(upload: LabelUpload, status: str, now: int, actor: Actor | None = None) -> bool:
    """Set a table that is being applied, or stopped, to done or cancelled at `now` (ms).

    The audit records what came of it, by `actor`, if another than had it applied. Returns whether
    it was such a table.
    """
    with transaction.atomic():
        applying = LabelUpload.objects.filter(pk=upload.pk, status__in=(APPLYING, STOPPED))
        if not applying.update(status=status, ended_at=now, problem=""):
            return False
        upload.refresh_from_db()
        counted = ImportCounts.of(upload.found)
        if upload.done < upload.labels:
            counted.count("left", upload.labels - upload.done)
            LabelUpload.objects.filter(pk=upload.pk).update(found=counted.text())
        upload.portions.all().delete()
    if counted.worth_it or status == CANCELLED:
        audit(upload, status, counted, actor)
    upload.refresh_from_db()
    return True


def audit(
    upload: LabelUpload,
    outcome: str,
    counted: ImportCounts,
    actor: Actor | None = None,
    **facts: Any,
) -> None:
    """Record in the audit what becomes of a table, or has; by who had it applied, or `actor`."""
    record(
        actor or Actor(**upload.actor),
        "labels.changed",
        scenario=upload.scenario,
        target=str(upload.pk),
        outcome=outcome,
        file=upload.name,
        assets=upload.assets,
        **{kind: counted.counts.get(kind) for kind in ("new", "changed", "removed")},
        **facts,
    )
