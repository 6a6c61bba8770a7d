"""Label files: their tables, and how they are carried on."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from django.db import transaction
from django.db.models import QuerySet

from dashboard.core.audit.log import Actor
from dashboard.core.common.exports import FORMULA, written
from dashboard.core.common.resumable import MAX_PROBLEM, ResumableTask, take_turns
from dashboard.core.common.times import Clock, now_ms
from dashboard.core.states.queries import stored
from dashboard.watch.annotations import label_uploads
from dashboard.watch.annotations import labels as annotation_labels
from dashboard.watch.annotations.label_uploads import ImportCounts
from dashboard.watch.annotations.labels import fault, key_fault
from dashboard.watch.annotations.models import (
    APPLYING,
    COMPARING,
    DONE,
    PERSON,
    READING,
    REVIEW,
    UNREADABLE,
    Label,
    LabelPortion,
    LabelUpload,
)
from domain.names import name_ok

# ---- csv tables ----------------------------------------------------------------------------------
# Labels as tables: read from a CSV file line by line, and written as one that can be read again.
#
# Either a line for each label (asset, key, value) or a line for each asset and a column for each
# key. A cell without a value says nothing, or takes the label away where that was chosen.

# Most lines of one file, without its header.
MAX_LINES = 100_000
# Most labels of one file: of a table with a column for each key there are many in a line.
MAX_LABELS = 1_000_000
# Largest file, bytes.
MAX_BYTES = 16 << 20
# The header of a file with a line for each label.
LONG = ("asset", "key", "value")
# How the source of an agent's label begins: such a line of a file is passed over.
OF_AGENT = "agent "
# Labels read in one query.
PORTION = 5_000


class UnreadableTable(ValueError):
    """A file that is no such table."""


class LabelCell(NamedTuple):
    """A line's word on a label. value: None removes it; line: its number, from 1."""

    value: str | None
    line: int


EMPTY_REMOVES = "Empty cells remove labels"
NOTHING = f'expected a value; with "{EMPTY_REMOVES}" a line without one removes the label'
"""Why a line that gives nothing is refused."""

# By asset and key.
EditsByAsset = dict[str, dict[str, LabelCell]]


@dataclass
class LabelTable:
    """The content of a file. empty_removes: whether a cell without a value removes the label;
    labels: how many it edits; import_counts: of its lines what is none of those, counted as
    `refused`, `again` (an earlier line says the same) and `agents`' own."""

    empty_removes: bool = False
    edits: EditsByAsset = field(default_factory=dict)
    labels: int = 0
    lines: int = 0
    import_counts: ImportCounts = field(default_factory=ImportCounts)


def read_table(data: bytes, empty_removes: bool = False) -> LabelTable:
    """Read a file and return its table. Raises UnreadableTable."""
    if len(data) > MAX_BYTES:
        raise UnreadableTable(f"expected at most {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableTable(f"expected UTF-8; byte {error.start + 1} is none") from None
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(first))
    table = LabelTable(empty_removes)
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        take = _taking(header)
        for cells in reader:
            if not any(cells):
                continue
            table.lines += 1
            if table.lines > MAX_LINES:
                raise UnreadableTable(f"expected at most {MAX_LINES:,} lines")
            take(table, reader.line_num, [_plain(cell) for cell in cells])
            if table.labels > MAX_LABELS:
                raise UnreadableTable(f"expected at most {MAX_LABELS:,} labels")
    except csv.Error as error:
        raise UnreadableTable(f"line {reader.line_num}: {error}") from None
    return table


def _delimiter(header: str) -> str:
    """Return the delimiter: a spreadsheet may part cells by semicolons or tabs."""
    return max(",;\t", key=header.count)


def _plain(cell: str) -> str:
    """Return a cell without the apostrophe that keeps a spreadsheet from reading a formula."""
    cell = cell.strip()
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*FORMULA, "'")) else cell


def _taking(header: Sequence[str]) -> Callable[[LabelTable, int, list[str]], None]:
    """Return what reads a line of such a table. Raises Unreadable."""
    if tuple(header[:3]) == LONG:
        return _take_label
    if not header or header[0] != "asset" or len(header) < 2:
        raise UnreadableTable(
            "the header: expected asset,key,value, or asset and a column for each key"
        )
    for key in header[1:]:
        if problem := key_fault(key):
            raise UnreadableTable(f"the header: {key or 'a column without a key'}: {problem}")
    if len(set(header)) < len(header):
        raise UnreadableTable("the header: a key is repeated")

    def take(table: LabelTable, line: int, cells: list[str]) -> None:
        if len(cells) != len(header):
            table.import_counts.refuse(line, f"expected {len(header)} cells, got {len(cells)}")
            return
        named = zip(header[1:], cells[1:], strict=True)
        given = [(key, value) for key, value in named if value or table.empty_removes]
        if not given:
            table.import_counts.refuse(line, NOTHING)
        for key, value in given:
            _take(table, line, cells[0], key, value)

    return take


def _take_label(table: LabelTable, line: int, cells: list[str]) -> None:
    if len(cells) < 3:
        table.import_counts.refuse(line, f"expected asset, key and value, got {len(cells)} cells")
    elif len(cells) > 3 and cells[3].startswith(OF_AGENT):
        table.import_counts.count("agents")
    else:
        _take(table, line, cells[0], cells[1].lower(), cells[2])


def _take(table: LabelTable, line: int, asset: str, key: str, value: str) -> None:
    if not name_ok(asset):
        table.import_counts.refuse(line, "asset: expected a name of 1 to 255 characters")
        return
    if wrong := fault(key, value) if value else key_fault(key) and f"key: {key_fault(key)}":
        table.import_counts.refuse(line, wrong)
        return
    if not value and not table.empty_removes:
        table.import_counts.refuse(line, NOTHING)
        return
    labels = table.edits.setdefault(asset, {})
    if key not in labels:
        labels[key] = LabelCell(value or None, line)
        table.labels += 1
    elif labels[key].value == (value or None):
        table.import_counts.count("again")
    else:
        table.import_counts.refuse(line, f"an earlier line has another {key} for this asset")


def lines(scenario: str) -> Iterator[bytes]:
    """Yield labels that are shown, as CSV that can be read again.

    source: people's, or an agent's.
    """
    return written("csv", (*LONG, "source"), (map(_plain_of, rows) for rows in _shown(scenario)))


def _plain_of(row: tuple[str, str, str, str, str]) -> dict[str, str]:
    asset, key, value, source, name = row
    by = source if source == PERSON else f"{OF_AGENT}{name}"
    return {"asset": _kept(asset), "key": key, "value": _kept(value), "source": by}


def _shown(scenario: str) -> Iterator[list[tuple[str, str, str, str, str]]]:
    """Yield all of them by asset, in portions; of an asset that is cut, the next one has all."""
    rows = Label.objects.shown(scenario).order_by("asset", "key")
    columns = rows.values_list("asset", "key", "value", "source", "name")
    portion, last = list(columns[:PORTION]), ""
    while portion:
        if len(portion) == PORTION:
            cut = portion[-1][0]
            portion = [row for row in portion if row[0] != cut]
        yield portion
        last = portion[-1][0]
        portion = list(columns.filter(asset__gt=last)[:PORTION])


def _kept(text: str) -> str:
    """Return a text that reads as itself again though it begins with an apostrophe."""
    return f"'{text}" if text.startswith("'") else text


# ---- imports -------------------------------------------------------------------------------------
# Carrying a label file on: read, compared, applied, a portion at a time.
#
# May be cut short at any point and go on here or in another process. Where a table is stands in the
# database; each step begins with a conditional update of that, so that no portion is counted twice,
# and a portion's labels are written in the transaction of its step.

# Labels that are written in one transaction, so that nobody waits long for the lock.
WRITE_PORTION = 1_000
# A table of so many labels is compared and applied where it is asked for.
AT_ONCE = 1_000
# A file so large is read where it is sent.
AT_ONCE_BYTES = 64 << 10
# Longest pause after a portion was applied, s: it is as long as that took, so that who else writes
# gets by.
REST_S = 0.5


def work(clock: Clock = now_ms) -> bool:
    """Apply one portion of each open table. Return whether any can continue at once."""
    return take_turns(UploadTask(upload, clock) for upload in LabelUpload.objects.open())


def at_once(upload: LabelUpload, clock: Clock = now_ms) -> None:
    """Apply a table for a moment in this process; the worker does the rest."""
    task = UploadTask(upload, clock)
    with suppress(LabelUpload.DoesNotExist):  # its user has sent another one instead
        while upload.is_open and _small(upload):
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
        return super().move(**{"moved_at": self.clock(), "problem": "", **fields})

    def step(self) -> bool:
        """Do the table's next portion. Returns whether there is another one.

        Raises LabelUpload.DoesNotExist where it has been thrown away.
        """
        upload = self.upload
        upload.refresh_from_db()
        if upload.status == READING:
            self._read()
        elif upload.is_open and not self._stopped():
            portion = upload.portions.filter(number=upload.portion).first()
            if portion is not None:
                self._pass(portion)
            elif upload.status == COMPARING:
                self.move(status=REVIEW)
            else:
                label_uploads.end(upload, DONE, self.clock())
        return upload.is_open

    def pause_s(self, took_s: float) -> float:
        """Return a pause where labels were written."""
        return min(REST_S, took_s) if self.upload.status == APPLYING else 0.0

    def log_stopped(self, why: str) -> None:
        """Record in the audit that the table was stopped."""
        counted = ImportCounts.of(self.upload.found)
        label_uploads.audit(self.upload, f"stopped: {why}", counted, Actor.system("worker"))

    def _stopped(self) -> bool:
        """Return whether nothing more is applied, as who had it applied may not do so any more."""
        actor = self.upload.actor
        applying = self.upload.status == APPLYING
        return applying and self.stop_if_lapsed(actor["user_id"], actor["name"])

    # ---- read -----------------------------------------------------------------------------------

    def _read(self) -> None:
        now = self.clock()
        try:
            table = read_table(bytes(self.upload.data or b""), self.upload.empty_removes)
        except UnreadableTable as error:
            problem = str(error)[:MAX_PROBLEM]
            self.move(status=UNREADABLE, problem=problem, data=None, ended_at=now)
            return
        read = table.import_counts.text()
        size = {"labels": table.labels, "assets": len(table.edits), "read": read, "found": read}
        with transaction.atomic():
            if self.move(status=COMPARING, data=None, started_at=now, **size):
                portions = _portions(self.upload, table)
                LabelPortion.objects.bulk_create(portions, batch_size=100)

    # ---- compared, applied ----------------------------------------------------------------------

    def _pass(self, portion: LabelPortion) -> None:
        """Compare a portion with the labels that there are, or apply it, and count its changes."""
        upload = self.upload
        rows = msgspec.json.decode(portion.edits, type=EditsByAsset)
        edits = {
            asset: {key: each.value for key, each in labels.items()}
            for asset, labels in rows.items()
        }
        lines = {(a, key): each.line for a, labels in rows.items() for key, each in labels.items()}
        counted = ImportCounts.of(upload.found)
        further = {"portion": portion.number + 1, "done": upload.done + portion.labels}
        if upload.status == APPLYING:
            self._apply(edits, lines, counted, further)
            return
        counted.take(annotation_labels.compare(upload.scenario, edits), lines)
        shown = sum(bool(kept.state) for kept in stored(upload.scenario, edits.keys()).values())
        counted.unknown += len(edits) - shown
        self.move(found=counted.text(), **further)

    def _apply(
        self,
        edits: annotation_labels.LabelEdits,
        lines: dict[tuple[str, str], int],
        counted: ImportCounts,
        further: dict[str, int],
    ) -> None:
        upload = self.upload
        with transaction.atomic():
            if not self.move(**further):
                return  # another worker has it, or it was cancelled
            changes = annotation_labels.put(
                upload.scenario, edits, upload.actor["name"], self.clock()
            )
            counted.take(changes, lines)
            LabelUpload.objects.filter(pk=upload.pk).update(found=counted.text())


def _portions(upload: LabelUpload, table: LabelTable) -> Iterator[LabelPortion]:
    """Yield the table in parts of PORTION labels or a few more."""
    part: EditsByAsset = {}
    number = labels = 0
    for asset, values in table.edits.items():
        part[asset] = values
        labels += len(values)
        if labels >= WRITE_PORTION:
            yield _portion(upload, number, labels, part)
            part, number, labels = {}, number + 1, 0
    if part:
        yield _portion(upload, number, labels, part)


def _portion(upload: LabelUpload, number: int, labels: int, part: EditsByAsset) -> LabelPortion:
    edits = msgspec.json.encode(part).decode()
    return LabelPortion(upload=upload, number=number, labels=labels, edits=edits)
