"""Bytes as text for a page, whatever they are, with marks where something is wrong."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

# Most runs that a text is shown in; what follows is one more, without marks.
MAX_RUNS = 1_000
HEX_LINE = 16
# How much is shown in hexadecimal, bytes.
MAX_HEX = 4_096

Kind = Literal["", "byte", "escape"]
# From which byte to which.
Span = tuple[int, int]


class Run(NamedTuple):
    """A part of a text. kind: plain, a byte that is no UTF-8, or a character that is not seen;
    at fault: it lies in what is marked."""

    text: str
    kind: Kind
    at_fault: bool


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a text, as people count: line and column from 1, and the byte from 0."""

    line: int
    column: int
    byte: int

    def __str__(self) -> str:
        where = f"byte {self.byte}"
        return where if self.line == 1 else f"line {self.line}, column {self.column}, {where}"


def point(data: bytes, byte: int) -> Point:
    """Return where the byte at this offset is."""
    before = data[:byte].decode(errors="surrogateescape")
    line = before.count("\n") + 1
    return Point(line, len(before) - (before.rfind("\n") + 1) + 1, byte)


def bad_bytes(data: bytes) -> Span | None:
    """Return where the first bytes that are not UTF-8 begin and end, or None."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start, error.end
    return None


def runs(data: bytes, mark: Span | None = None) -> list[Run]:
    """Return the whole of `data` as text, with what lies in `mark` at fault; bounded."""
    if mark is not None and mark[0] >= mark[1]:
        mark = (mark[0], mark[0] + 1)  # a place is marked by what stands there
    found: list[Run] = []
    rest: list[str] = []
    for (kind, at_fault), group in groupby(_pieces(data, mark), key=lambda piece: piece[1:]):
        text = "".join(piece[0] for piece in group)
        if len(found) < MAX_RUNS:
            found.append(Run(text, kind, at_fault))
        else:
            rest.append(text)
    if rest:
        found.append(Run("".join(rest), "", at_fault=False))
    if mark is not None and mark[0] >= len(data):
        found.append(Run("(end)", "escape", at_fault=True))
    return found


def _pieces(data: bytes, mark: Span | None) -> Iterator[tuple[str, Kind, bool]]:
    begin, end = mark or (len(data) + 1, 0)
    at = 0
    for char in data.decode(errors="surrogateescape"):
        bad = "\udc80" <= char <= "\udcff"
        size = 1 if bad else len(char.encode())
        at_fault = at < end and at + size > begin
        at += size
        if bad:
            yield f"\\x{ord(char) - 0xDC00:02x}", "byte", at_fault
        elif _unseen(char):
            yield f"\\u{ord(char):04x}", "escape", at_fault
        else:
            yield char, "", at_fault


def _unseen(char: str) -> bool:
    """Return whether a character is not seen, or moves others: controls, marks of direction."""
    return char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cn", "Zl", "Zp")


def hex_lines(data: bytes) -> Sequence[tuple[str, str, str]]:
    """Return the offset, digits and letters of each line; bounded by MAX_HEX."""
    shown = data[:MAX_HEX]
    return [_hex_line(at, shown[at : at + HEX_LINE]) for at in range(0, len(shown), HEX_LINE)]


def _hex_line(at: int, part: bytes) -> tuple[str, str, str]:
    letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
    return f"{at:05x}", part.hex(" "), letters
