"""Counts of a label file: each label of the file is of one kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dashboard.labels.writer import Change

# Most refusals of which line and reason are kept.
MOST_REFUSED = 1_000
# Most changes that are kept to be listed.
LISTED = 200

# What may become of a label of a file. Their counts add up to what the file says.
KINDS = {
    "new": "New",
    "changed": "Changed",
    "removed": "Removed",
    "same": "As they are",
    "refused": "Refused",
    "again": "Said again",
    "agents": "Said by agents",
    "left": "Left out by cancelling",
}


class ImportCounts(msgspec.Struct):
    """counts: by kind; refused: the numbers of lines, and why not, the first MOST_REFUSED; changes:
    the first LISTED that are any; unknown: assets that are on no board."""

    counts: dict[str, int] = {}
    refused: list[tuple[int, str]] = []
    changes: list[Change] = []
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

    def take(self, changes: Iterable[Change], lines: Mapping[tuple[str, str], int]) -> None:
        """Count changes. lines: by asset and key where in the file each stands."""
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
