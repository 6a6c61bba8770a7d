"""Many write the audit at once, and two admins deactivate each other; what is left, as JSON.

Run as a program by tests of both databases: `python tests/support/web/audit_race.py`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
WRITERS, EACH = 8, 40
ATTEMPTS = (
    "UPDATE audit_auditentry SET outcome = 'another' WHERE number = 3",
    "DELETE FROM audit_auditentry WHERE number = 3",
    "DELETE FROM audit_auditentry",
)
TRUNCATE = "TRUNCATE audit_auditentry"


def main() -> None:
    """Do it and look."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from django.db import connection

    from support.web.database import migrate

    migrate()
    begun = time.monotonic()
    together(WRITERS, write)
    took = time.monotonic() - begun
    truncate = (TRUNCATE,) if connection.vendor == "postgresql" else ()
    outcome = {
        "refused": [refused(sql) for sql in (*ATTEMPTS, *truncate)],
        "active": deactivate_each_other(),
        **chain(),
        "per_second": round(WRITERS * EACH / took),
    }
    print(json.dumps(outcome))


def together(many: int, act: Any) -> None:
    """Let `act(number, barrier)` run in so many threads."""
    barrier = Barrier(many)
    threads = [Thread(target=act, args=(number, barrier)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write(number: int, barrier: Barrier) -> None:
    """Note much as fast as may be."""
    from django.db import connection

    from dashboard.core.audit.log import Actor, record

    barrier.wait()
    for n in range(EACH):
        record(
            Actor.system(f"writer {number}"), "command.set", target=f"asset {n}", reason="a drill"
        )
    connection.close()


def refused(sql: str) -> bool:
    """Return whether the database does not do it, and says why."""
    from django.db import DatabaseError, connection, transaction

    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)
    except DatabaseError as error:
        return "append-only" in str(error)
    return False


def deactivate_each_other() -> list[int]:
    """Return how many active admins are left after each of several rounds."""
    from django.contrib.auth.models import Group, User
    from django.db import connection
    from django.utils import timezone

    from dashboard.core.accounts import users

    admins = [User.objects.create_user(name) for name in ("one", "two")]
    for each in admins:
        each.groups.add(Group.objects.get(name="admin"))

    def act(number: int, barrier: Barrier) -> None:
        by, whom = User.objects.get(pk=admins[number].pk), User.objects.get(pk=admins[~number].pk)
        barrier.wait()
        with suppress(users.UserChangeRefused):
            users.deactivate_user(by, whom, timezone.now())
        connection.close()

    left = []
    for _ in range(5):
        User.objects.update(is_active=True)
        together(2, act)
        left.append(User.objects.filter(is_active=True).count())
    return left


def chain() -> dict[str, Any]:
    """Return how many entries there are, and what is wrong with how they hang together."""
    from dashboard.core.audit.hash_chain import verify

    check = verify()
    return {"entries": check.entries, "last": check.last, "fault": check.fault}


if __name__ == "__main__":
    main()
