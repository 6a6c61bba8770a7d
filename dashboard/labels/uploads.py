"""A table of labels between its upload and the word to apply it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec
from django.contrib.auth.models import User

from dashboard.board.store import stored
from dashboard.labels.models import LabelUpload
from dashboard.labels.tables import Table
from dashboard.labels.writing import PORTION, Change, Wanted, compare, put

LISTED = 200
"""Most changes, and most refused lines, that the page lists."""


@dataclass(frozen=True)
class Preview:
    """What an upload would do. counts: of changes by kind; unknown: assets that are on no board."""

    counts: Counter[str]
    changes: list[Change]
    refused: list[tuple[int, str]]
    refused_lines: int
    unknown: int
    assets: int

    @property
    def worth_it(self) -> bool:
        """Whether anything would be another than it is."""
        return any(self.counts[kind] for kind in ("new", "changed", "removed"))


def keep(user: User, scenario: str, table: Table, now: int) -> LabelUpload:
    """Keep a table for its user until it is applied; one that was kept before goes."""
    LabelUpload.objects.filter(user=user).delete()
    refused = {"lines": table.refused, "more": table.more}
    return LabelUpload.objects.create(
        id=uuid.uuid4(),
        user=user,
        scenario=scenario,
        at=now,
        wanted=msgspec.json.encode(table.wanted).decode(),
        refused=msgspec.json.encode(refused).decode(),
    )


def wanted_of(upload: LabelUpload) -> dict[str, dict[str, str | None]]:
    """By asset and key the value."""
    return msgspec.json.decode(upload.wanted, type=dict[str, dict[str, str | None]])


def preview(upload: LabelUpload) -> Preview:
    """What it would do to the labels as they are now."""
    wanted, counts, unknown = wanted_of(upload), Counter[str](), 0
    changes: list[Change] = []
    for portion in _portions(wanted):
        for change in compare(upload.scenario, portion):
            counts[change.kind] += 1
            if change.kind != "same" and len(changes) < LISTED:
                changes.append(change)
        shown = sum(1 for _, _, state in stored(upload.scenario, portion.keys()) if state)
        unknown += len(portion) - shown
    lines = msgspec.json.decode(upload.refused)
    refused = [(line, why) for line, why in lines["lines"]]
    return Preview(
        counts, changes, refused[:LISTED], len(refused) + lines["more"], unknown, len(wanted)
    )


def apply(upload: LabelUpload, by: str, now: int) -> Counter[str]:
    """Give the labels. Done twice it does nothing more. Returns how many of each kind."""
    done = put(upload.scenario, wanted_of(upload), by, now)
    upload.delete()
    return done


def _portions(wanted: Wanted) -> Iterator[Wanted]:
    remaining = iter(wanted.items())
    while portion := dict(islice(remaining, PORTION)):
        yield portion
