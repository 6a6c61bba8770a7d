"""Carrying a table of labels on: read, compared, applied, a portion at a time.

May be cut short at any point and go on here or in another process. Where a table is stands in the
database; each step begins with a conditional update of that, so that no portion is counted twice,
and a portion's labels are written in the transaction of its step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from django.db import transaction

from dashboard.audit.log import Actor
from dashboard.core.roles import lapsed
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.labels import csv_tables, upload_service, writer
from dashboard.labels.csv_tables import Table, Unreadable, Wanted
from dashboard.labels.import_counts import Found
from dashboard.labels.models import (
    APPLYING,
    COMPARING,
    DONE,
    OPEN,
    READING,
    REVIEW,
    STOPPED,
    UNREADABLE,
    LabelPortion,
    LabelUpload,
)
from dashboard.labels.upload_service import end
from dashboard.states.queries import stored

log = structlog.get_logger(__name__)

PORTION = 1_000
"""Labels that are written in one transaction, so that nobody waits long for the lock."""
AT_ONCE = 1_000
"""A table of so many labels is compared and applied where it is asked for."""
AT_ONCE_BYTES = 64 << 10
"""A file so large is read where it is sent."""
TURN_S = 10.0
"""How long a table is carried on before another has its turn, s."""
REST_S = 0.5
"""Longest pause after a portion was applied, s: it is as long as that took, so that who else writes
gets by."""


def open_uploads() -> list[LabelUpload]:
    """The tables of which there is something to do, the first that was sent first."""
    found = LabelUpload.objects.filter(status__in=OPEN, scenario__in=list(scenarios()))
    return list(found.defer("data").order_by("sent_at"))


def work() -> bool:
    """Give each open table a turn. Returns whether one of them can go on at once."""
    more = [turn(upload) for upload in open_uploads()]
    return any(more)


def turn(upload: LabelUpload) -> bool:
    """Carry a table on for a while. Returns whether it can go on at once."""
    last = time.monotonic() + TURN_S
    try:
        while (begun := time.monotonic()) < last:
            if not step(upload):
                return False
            if upload.status == APPLYING:
                time.sleep(min(REST_S, time.monotonic() - begun))
    except LabelUpload.DoesNotExist:  # its user has sent another one instead
        return False
    except Exception as error:  # the others go on, and this one is tried again
        log.exception("a table of labels cannot be carried on", upload=str(upload.pk))
        held = LabelUpload.objects.filter(pk=upload.pk, status__in=OPEN)
        held.update(trouble=f"The worker failed: {error}"[:300])
        return False
    return True


def at_once(upload: LabelUpload) -> None:
    """Carry a table on here as far as that takes a moment; the rest is the worker's."""
    with suppress(LabelUpload.DoesNotExist):  # its user has sent another one instead
        while upload.status in OPEN and _small(upload):
            step(upload)


def _small(upload: LabelUpload) -> bool:
    if upload.status == READING:
        return len(upload.data or b"") <= AT_ONCE_BYTES
    return upload.labels <= AT_ONCE


def step(upload: LabelUpload) -> bool:
    """Do a table's next piece. Returns whether there is another one.

    Raises LabelUpload.DoesNotExist where it has been thrown away.
    """
    upload.refresh_from_db()
    if upload.status == READING:
        _read(upload)
    elif upload.status in OPEN and not _stopped(upload):
        portion = upload.portions.filter(number=upload.portion).first()
        if portion is not None:
            _pass(upload, portion)
        elif upload.status == COMPARING:
            _move(upload, status=REVIEW)
        else:
            end(upload, DONE, now_ms())
    return upload.status in OPEN


def _stopped(upload: LabelUpload) -> bool:
    """Whether nothing more is applied, as who had it applied may not do so any more."""
    if upload.status != APPLYING:
        return False
    why = lapsed(upload.actor["user_id"], upload.actor["name"], "command")
    if why and _move(upload, status=STOPPED, trouble=why[:300]):
        upload_service.audit(
            upload, f"stopped: {why}", Found.of(upload.found), Actor.system("worker")
        )
    return bool(why)


def _move(upload: LabelUpload, **fields: Any) -> bool:
    """Note that a table has come further, unless it is not where we saw it any more."""
    here = LabelUpload.objects.filter(pk=upload.pk, status=upload.status, portion=upload.portion)
    fields = {"moved_at": now_ms(), "trouble": "", **fields}
    if not here.update(**fields):
        return False
    for name, value in fields.items():
        setattr(upload, name, value)
    return True


# ---- read ---------------------------------------------------------------------------------------


def _read(upload: LabelUpload) -> None:
    try:
        table = csv_tables.read(bytes(upload.data or b""))
    except Unreadable as error:
        _move(upload, status=UNREADABLE, trouble=str(error)[:300], data=None, ended_at=now_ms())
        return
    read = table.found.text()
    with transaction.atomic():
        came = {"labels": table.labels, "assets": len(table.wanted), "read": read, "found": read}
        if _move(upload, status=COMPARING, data=None, started_at=now_ms(), **came):
            LabelPortion.objects.bulk_create(_portions(upload, table), batch_size=100)


def _portions(upload: LabelUpload, table: Table) -> Iterator[LabelPortion]:
    """The table in parts of PORTION labels or a few more."""
    part: Wanted = {}
    number = labels = 0
    for asset, said in table.wanted.items():
        part[asset] = said
        labels += len(said)
        if labels >= PORTION:
            yield _portion(upload, number, labels, part)
            part, number, labels = {}, number + 1, 0
    if part:
        yield _portion(upload, number, labels, part)


def _portion(upload: LabelUpload, number: int, labels: int, part: Wanted) -> LabelPortion:
    wanted = msgspec.json.encode(part).decode()
    return LabelPortion(upload=upload, number=number, labels=labels, wanted=wanted)


# ---- compared, applied --------------------------------------------------------------------------


def _pass(upload: LabelUpload, portion: LabelPortion) -> None:
    """Compare a portion with the labels that there are, or apply it, and count what came of it."""
    said = msgspec.json.decode(portion.wanted, type=Wanted)
    wanted = {a: {key: each.value for key, each in labels.items()} for a, labels in said.items()}
    lines = {(a, key): each.line for a, labels in said.items() for key, each in labels.items()}
    found = Found.of(upload.found)
    further = {"portion": portion.number + 1, "done": upload.done + portion.labels}
    if upload.status == APPLYING:
        _apply(upload, wanted, lines, found, further)
        return
    found.take(writer.compare(upload.scenario, wanted), lines)
    shown = sum(bool(kept.state) for kept in stored(upload.scenario, wanted.keys()).values())
    found.unknown += len(wanted) - shown
    _move(upload, found=found.text(), **further)


def _apply(
    upload: LabelUpload,
    wanted: writer.Wanted,
    lines: dict[tuple[str, str], int],
    found: Found,
    further: dict[str, int],
) -> None:
    with transaction.atomic():
        if not _move(upload, **further):
            return  # another worker has it, or it was cancelled
        changes = writer.put(upload.scenario, wanted, upload.actor["name"], now_ms())
        found.take(changes, lines)
        LabelUpload.objects.filter(pk=upload.pk).update(found=found.text())
