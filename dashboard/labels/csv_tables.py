"""Labels as tables: read from a CSV file line by line, and written as one that can be read again.

Either a line for each label (asset, key, value) or a line for each asset and a column for each key.
A cell without a value takes the label away.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dashboard.core.exports import FORMULA, written
from dashboard.labels.import_counts import ImportCounts
from dashboard.labels.models import PERSON, Label
from dashboard.labels.validation import fault, key_fault
from domain.names import name_ok

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


class Unreadable(ValueError):
    """A file that is no such table."""


class Said(NamedTuple):
    """A line's word on a label. value: None removes it; line: its number, from 1."""

    value: str | None
    line: int


# By asset and key.
Wanted = dict[str, dict[str, Said]]


@dataclass
class Table:
    """The content of a file. labels: how many are wanted; found: of its lines what is none of
    those, counted as `refused`, `again` (an earlier line says the same) and `agents`' own."""

    wanted: Wanted = field(default_factory=dict)
    labels: int = 0
    lines: int = 0
    found: ImportCounts = field(default_factory=ImportCounts)


def read(data: bytes) -> Table:
    """Read a file and return its table. Raises Unreadable."""
    if len(data) > MAX_BYTES:
        raise Unreadable(f"expected at most {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"expected UTF-8; byte {error.start + 1} is none") from None
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(first))
    table = Table()
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        take = _taking(header)
        for cells in reader:
            if not any(cells):
                continue
            table.lines += 1
            if table.lines > MAX_LINES:
                raise Unreadable(f"expected at most {MAX_LINES:,} lines")
            take(table, reader.line_num, [_plain(cell) for cell in cells])
            if table.labels > MAX_LABELS:
                raise Unreadable(f"expected at most {MAX_LABELS:,} labels")
    except csv.Error as error:
        raise Unreadable(f"line {reader.line_num}: {error}") from None
    return table


def _delimiter(header: str) -> str:
    """Return the delimiter: a spreadsheet may part cells by semicolons or tabs."""
    return max(",;\t", key=header.count)


def _plain(cell: str) -> str:
    """Return a cell without the apostrophe that keeps a spreadsheet from reading a formula."""
    cell = cell.strip()
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*FORMULA, "'")) else cell


def _taking(header: Sequence[str]) -> Callable[[Table, int, list[str]], None]:
    """Return what reads a line of such a table. Raises Unreadable."""
    if tuple(header[:3]) == LONG:
        return _take_label
    if not header or header[0] != "asset" or len(header) < 2:
        raise Unreadable("the header: expected asset,key,value, or asset and a column for each key")
    for key in header[1:]:
        if problem := key_fault(key):
            raise Unreadable(f"the header: {key or 'a column without a key'}: {problem}")
    if len(set(header)) < len(header):
        raise Unreadable("the header: a key is repeated")

    def take(table: Table, line: int, cells: list[str]) -> None:
        if len(cells) != len(header):
            table.found.refuse(line, f"expected {len(header)} cells, got {len(cells)}")
            return
        for key, value in zip(header[1:], cells[1:], strict=True):
            _take(table, line, cells[0], key, value)

    return take


def _take_label(table: Table, line: int, cells: list[str]) -> None:
    if len(cells) < 3:
        table.found.refuse(line, f"expected asset, key and value, got {len(cells)} cells")
    elif len(cells) > 3 and cells[3].startswith(OF_AGENT):
        table.found.count("agents")
    else:
        _take(table, line, cells[0], cells[1].lower(), cells[2])


def _take(table: Table, line: int, asset: str, key: str, value: str) -> None:
    if not name_ok(asset):
        table.found.refuse(line, "asset: expected a name of 1 to 255 characters")
        return
    if wrong := fault(key, value) if value else key_fault(key) and f"key: {key_fault(key)}":
        table.found.refuse(line, wrong)
        return
    labels = table.wanted.setdefault(asset, {})
    if key not in labels:
        labels[key] = Said(value or None, line)
        table.labels += 1
    elif labels[key].value == (value or None):
        table.found.count("again")
    else:
        table.found.refuse(line, f"an earlier line has another {key} for this asset")


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
    rows = Label.objects.filter(scenario=scenario, shown=True).order_by("asset", "key")
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
