"""The tests' database: migrated once for each state of the code, and copied from then on."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.run.locks import exclusive

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / ".pytest_cache" / "migrated"


def fingerprint() -> str:
    """Return a hash of all that decides what the migrations make: our code, and what it needs."""
    sources = [ROOT / "requirements.lock", *sorted((ROOT / "dashboard").rglob("*.py"))]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def migrate() -> None:
    """Migrate this process's database, which is empty."""
    from django.core.management import call_command

    with migrated_by_copy():
        call_command("migrate", verbosity=0)


@contextmanager
def migrated_by_copy() -> Iterator[None]:
    """Within it, the first `migrate` copies what an earlier run has kept, or keeps what it makes.

    Only for a database that is empty; one that is not SQLite is migrated as ever.
    """
    from django.core.management.commands.migrate import Command
    from django.db import connection

    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / f"{fingerprint()}.sqlite3"
    original = Command.handle

    def handle(self: Command, *arguments: object, **options: object) -> None:
        patch.undo()
        connection.ensure_connection()
        with exclusive(KEPT / "migrate.lock"):
            if not kept.exists():
                original(self, *arguments, **options)
                keep(connection.connection, kept)
                return
        with closing(sqlite3.connect(kept)) as source:
            source.backup(connection.connection)

    with pytest.MonkeyPatch.context() as patch:
        if connection.vendor == "sqlite":
            patch.setattr(Command, "handle", handle)
        yield


def keep(database: sqlite3.Connection, path: Path) -> None:
    """Copy a database into a file, in place of those of other states of the code."""
    for old in path.parent.glob("*.sqlite3"):
        old.unlink(missing_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with closing(sqlite3.connect(unfinished)) as target:
        database.backup(target)
    unfinished.replace(path)
