"""Entries of the audit for a page or a file: newest first, filtered, page by page."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
from django.core.cache import caches
from django.db.models import QuerySet

from dashboard.audit.actions import ACTIONS
from dashboard.audit.hash_chain import FIELDS, Finding, verify
from dashboard.audit.models import AuditEntry
from dashboard.core.exports import TIMES
from dashboard.core.listing import Listing, TableFile
from dashboard.core.tables import Table
from dashboard.core.times import iso

CHECKED = 10_000
"""So many of the newest entries the page looks along for whether their chain is whole."""
CHECK_KEPT_S = 60
"""How long what was found stands."""


class Wanted(NamedTuple):
    """A filter of entries. user: the whole name; action: one, or a group such as `command.`; q,
    outcome: a part of the text; start, end: Unix ms."""

    user: str = ""
    action: str = ""
    scenario: str = ""
    q: str = ""
    outcome: str = ""
    start: int | None = None
    end: int | None = None

    def rows(self) -> QuerySet[AuditEntry]:
        """Return the entries that pass."""
        conditions = {
            "name": self.user,
            "action__startswith" if self.action.endswith(".") else "action": self.action,
            "scenario": self.scenario,
            "target__icontains": self.q,
            "outcome__icontains": self.outcome,
            "at__gte": self.start,
            "at__lt": self.end,
        }
        return AuditEntry.objects.filter(
            **{name: value for name, value in conditions.items() if value not in ("", None)}
        )


class Entry(NamedTuple):
    """An entry as the page shows it."""

    row: AuditEntry
    meaning: str
    facts: list[tuple[str, str]]


def _entry(row: AuditEntry) -> Entry:
    facts = {name: _told(name, value) for name, value in json.loads(row.facts).items()}
    return Entry(row, ACTIONS.get(row.action, ""), list(facts.items()))


def _told(name: str, value: Any) -> str:
    if name in TIMES and isinstance(value, int):
        return iso(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def checked() -> Finding:
    """Return whether the newest entries hang together, as checked a moment ago."""
    finding: Finding | None = caches["figures"].get("audit-checked")
    if finding is None:
        finding = verify(CHECKED)
        caches["figures"].set("audit-checked", finding, CHECK_KEPT_S)
    return finding


COLUMNS = (*FIELDS, "digest")


def plain(row: AuditEntry) -> dict[str, Any]:
    """Return an entry as an object of NDJSON, or a line of CSV; its facts are an object already."""
    values = {name: getattr(row, name) for name in COLUMNS}
    return values | {"facts": msgspec.Raw(row.facts.encode())}


ENTRY_TABLE = Table("", "At", "Who", "Did", "To", "Outcome", "From", css="audit")
ENTRIES = Listing(_entry)
ENTRY_FILE = TableFile("audit", COLUMNS, plain)
