"""The hash chain of the audit's entries, and the database triggers that protect them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import IntegrityError

from dashboard.core.audit.models import KEPT_MS, AuditEntry
from dashboard.core.common.sql import lock_until_commit

# ---- hash chain ----------------------------------------------------------------------------------
# The hash chain: entries are numbered without gaps, and each has the digest of the one before.

# Stands for the digest before the first entry.
START = "0" * 64
# The fields covered by a digest, in this order.
FIELDS = (
    "number", "at", "user_id", "name", "role", "source", "token", "address", "action", "scenario",
    "target", "outcome", "facts", "previous",
)  # fmt: skip
# How often writing is tried again if another process took the entry's number first.
TRIES = 20
# Entries read at a time.
PORTION = 2_000


def digest(values: Iterable[Any]) -> str:
    """Return the SHA-256 of an entry's values, given in the order of FIELDS, as hex digits."""
    return sha256(json.dumps(list(values), separators=(",", ":")).encode()).hexdigest()


def append(fields: dict[str, Any]) -> AuditEntry:
    """Write an entry after the newest one, and return it.

    Raises DatabaseError; IntegrityError if other processes took its number at every attempt.
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
    lock_until_commit("audit", "")
    newest = AuditEntry.objects.order_by("-number").values_list("number", "digest").first()
    number, previous = newest or (0, START)
    entry = AuditEntry(**fields, number=number + 1, previous=previous)
    entry.digest = digest(getattr(entry, name) for name in FIELDS)
    entry.save(force_insert=True)
    return entry


class ChainCheck(NamedTuple):
    """The result of a check of the chain. first, last: entry numbers, 0 if there are none; fault:
    empty if the chain is intact; dropped: whether older entries have been pruned."""

    entries: int
    first: int
    last: int
    digest: str
    fault: str = ""
    dropped: bool = False


def verify(newest: int | None = None) -> ChainCheck:
    """Check the chain, or its `newest` entries, in order, and return the result."""
    rows = AuditEntry.objects.order_by("number")
    if newest is not None:
        last = AuditEntry.objects.order_by("-number").values_list("number", flat=True).first()
        rows = rows.filter(number__gt=(last or 0) - newest)
    finding = ChainCheck(0, 0, 0, START)
    for values in rows.values_list(*FIELDS, "digest").iterator(PORTION):
        fault = _fault(finding, values)
        if fault:
            return finding._replace(fault=fault)
        first = finding.first or values[0]
        finding = ChainCheck(finding.entries + 1, first, values[0], values[-1])
    return _begun(finding) if newest is None else finding


def _fault(finding: ChainCheck, values: tuple[Any, ...]) -> str:
    """Return what is wrong with the entry after those found intact; empty if nothing is."""
    number, previous, own = values[0], values[-2], values[-1]
    if finding.entries and number != finding.last + 1:
        return f"entry {finding.last + 1} is missing"
    if finding.entries and previous != finding.digest:
        return f"entry {number} does not follow from the one before"
    if digest(values[:-1]) != own:
        return f"entry {number} was changed"
    return ""


def _begun(finding: ChainCheck) -> ChainCheck:
    """Return the result for an intact chain, after checking its first entry or what was pruned."""
    if finding.first <= 1:
        start = AuditEntry.objects.filter(number=1).values_list("previous", flat=True).first()
        return finding if start in (None, START) else finding._replace(fault="entry 1 was changed")
    oldest = AuditEntry.objects.get(number=finding.first)
    pruned = {"last": finding.first - 1, "digest": oldest.previous}
    for facts in AuditEntry.objects.filter(action="audit.pruned").values_list("facts", flat=True):
        if pruned.items() <= json.loads(facts).items():
            return finding._replace(dropped=True)
    return finding._replace(fault=f"entries before {finding.first} are missing, and none says why")


# ---- triggers ------------------------------------------------------------------------------------
# Triggers by which the database refuses to change or delete entries, except those past their time.
#
# A migration that rebuilds the table on SQLite removes the triggers, so it must install them again.

_TABLE = "audit_auditentry"
_NAMES = ("audit_no_update", "audit_no_delete", "audit_no_truncate")

_SQLITE = (
    f"""
    CREATE TRIGGER audit_no_update BEFORE UPDATE ON {_TABLE}
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END
    """,
    f"""
    CREATE TRIGGER audit_no_delete BEFORE DELETE ON {_TABLE}
    WHEN OLD.at > CAST(strftime('%s', 'now') AS INTEGER) * 1000 - {KEPT_MS}
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END
    """,
)
_POSTGRESQL = (
    f"""
    CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'DELETE' THEN
        IF OLD.at <= extract(epoch FROM clock_timestamp()) * 1000 - {KEPT_MS} THEN
          RETURN OLD;
        END IF;
      END IF;
      RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'integrity_constraint_violation';
    END $$
    """,
    *(
        f"CREATE TRIGGER {name} BEFORE {event} ON {_TABLE} FOR EACH {each} "
        "EXECUTE FUNCTION audit_refuse()"
        for name, event, each in zip(
            _NAMES, ("UPDATE", "DELETE", "TRUNCATE"), ("ROW", "ROW", "STATEMENT"), strict=True
        )
    ),
)


def install(connection: BaseDatabaseWrapper) -> None:
    """Create the triggers, replacing those that exist."""
    remove(connection)
    statements = _POSTGRESQL if connection.vendor == "postgresql" else _SQLITE
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def remove(connection: BaseDatabaseWrapper) -> None:
    """Remove the triggers that exist."""
    of = f" ON {_TABLE}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for name in _NAMES:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{of}")
