"""The database's own refusal to change or delete entries, but for those past their time.

A migration that rebuilds the table on SQLite takes triggers away: it must install them again.
"""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

# Entries older than this, by the database's clock, may be deleted; nothing else may.
KEPT_DAYS = 400

_TABLE = "audit_auditentry"
_NAMES = ("audit_no_update", "audit_no_delete", "audit_no_truncate")
_KEPT_MS = KEPT_DAYS * 86_400_000

_SQLITE = (
    f"""
    CREATE TRIGGER audit_no_update BEFORE UPDATE ON {_TABLE}
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END
    """,
    f"""
    CREATE TRIGGER audit_no_delete BEFORE DELETE ON {_TABLE}
    WHEN OLD.at > CAST(strftime('%s', 'now') AS INTEGER) * 1000 - {_KEPT_MS}
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END
    """,
)
_POSTGRESQL = (
    f"""
    CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'DELETE' THEN
        IF OLD.at <= extract(epoch FROM clock_timestamp()) * 1000 - {_KEPT_MS} THEN
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
    """Create the triggers where there are none."""
    remove(connection)
    statements = _POSTGRESQL if connection.vendor == "postgresql" else _SQLITE
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def remove(connection: BaseDatabaseWrapper) -> None:
    """Remove the triggers where there are any."""
    of = f" ON {_TABLE}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for name in _NAMES:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{of}")
