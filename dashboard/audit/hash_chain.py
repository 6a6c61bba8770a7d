"""How entries hang together: numbers without gaps, and each with the digest of the one before."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.utils import IntegrityError

from dashboard.audit.models import AuditEntry

START = "0" * 64
"""What stands for the digest before the first entry."""
FIELDS = (
    "number", "at", "user_id", "name", "role", "source", "token", "address", "action", "scenario",
    "target", "outcome", "facts", "previous",
)  # fmt: skip
"""What a digest covers, in this order."""
TRIES = 20
"""So often an entry is tried anew whose number another process was faster to take."""
PORTION = 2_000
"""Entries read at a time."""

_LOCK = 7_364_215_118
"""PostgreSQL's advisory lock of who appends: any number that nothing else of ours takes."""


def digest(values: Iterable[Any]) -> str:
    """SHA-256 of an entry's values, in the order of FIELDS."""
    return sha256(json.dumps(list(values), separators=(",", ":")).encode()).hexdigest()


def append(fields: dict[str, Any]) -> AuditEntry:
    """Write an entry behind the newest one.

    Raises DatabaseError, and IntegrityError after many that others were faster to write.
    """
    for left in reversed(range(TRIES)):
        try:
            with transaction.atomic():
                return _append(fields)
        except IntegrityError:
            if not left:
                raise
    raise AssertionError


def _append(fields: dict[str, Any]) -> AuditEntry:
    if connection.vendor == "postgresql":  # SQLite has one writer at a time as it is
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    newest = AuditEntry.objects.order_by("-number").values_list("number", "digest").first()
    number, previous = newest or (0, START)
    entry = AuditEntry(**fields, number=number + 1, previous=previous)
    entry.digest = digest(getattr(entry, name) for name in FIELDS)
    entry.save(force_insert=True)
    return entry


class Finding(NamedTuple):
    """What a look along the chain has found. first, last: numbers, 0 of none; fault: empty where
    the chain is whole; dropped: whether older entries are gone."""

    entries: int
    first: int
    last: int
    digest: str
    fault: str = ""
    dropped: bool = False


def verify(newest: int | None = None) -> Finding:
    """Look along the chain, or along its newest entries, from the oldest one to the newest."""
    rows = AuditEntry.objects.order_by("number")
    if newest is not None:
        last = AuditEntry.objects.order_by("-number").values_list("number", flat=True).first()
        rows = rows.filter(number__gt=(last or 0) - newest)
    found = Finding(0, 0, 0, START)
    for values in rows.values_list(*FIELDS, "digest").iterator(PORTION):
        fault = _fault(found, values)
        if fault:
            return found._replace(fault=fault)
        first = found.first or values[0]
        found = Finding(found.entries + 1, first, values[0], values[-1])
    return _begun(found) if newest is None else found


def _fault(found: Finding, values: tuple[Any, ...]) -> str:
    """What is wrong with an entry behind those that were found whole."""
    number, previous, own = values[0], values[-2], values[-1]
    if found.entries and number != found.last + 1:
        return f"entry {found.last + 1} is missing"
    if found.entries and previous != found.digest:
        return f"entry {number} does not follow from the one before"
    if digest(values[:-1]) != own:
        return f"entry {number} was changed"
    return ""


def _begun(found: Finding) -> Finding:
    """The finding of a whole chain, with its beginning: the first entry, or what pruning left."""
    if found.first <= 1:
        start = AuditEntry.objects.filter(number=1).values_list("previous", flat=True).first()
        return found if start in (None, START) else found._replace(fault="entry 1 was changed")
    oldest = AuditEntry.objects.get(number=found.first)
    told = {"last": found.first - 1, "digest": oldest.previous}
    for facts in AuditEntry.objects.filter(action="audit.pruned").values_list("facts", flat=True):
        if told.items() <= json.loads(facts).items():
            return found._replace(dropped=True)
    return found._replace(fault=f"entries before {found.first} are missing, and none says why")
