"""Many logins at once with one code, of an app and of recovery; how many were let in, as JSON.

Run as a program by tests of both databases: `python tests/support/web/code_race.py`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
LOGINS, ROUNDS = 6, 5


def main() -> None:
    """Let them log in, and print what came of it."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from django.db import connection

    from support.web.database import migrate

    migrate()
    outcome: dict[str, Any] = {"vendor": connection.vendor}
    for kind, codes in known_codes().items():
        outcome[kind] = [admitted(kind, code) for code in codes]
    print(json.dumps(outcome))


def known_codes() -> dict[str, list[str]]:
    """Codes of a new user's factors, in the order in which they are used; those of the app all
    count now."""
    from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
    from allauth.mfa.totp.internal import auth

    from support.web.web_fixtures import make_user

    user, secret = make_user("operator"), auth.generate_totp_secret()
    auth.TOTP.activate(user, secret)
    counters = range(1, ROUNDS + 1)
    auth.yield_hotp_counters_from_time = lambda: iter(counters)
    totp = [auth.format_hotp_value(auth.hotp_value(secret, counter)) for counter in counters]
    recovery = RecoveryCodes.activate(user).get_unused_codes()[:ROUNDS]
    return {"totp": totp, "recovery_codes": recovery}


def admitted(kind: str, code: str) -> int:
    """How many of the logins that begin at once are let in with a code."""
    from allauth.mfa.models import Authenticator
    from django.core.cache import cache
    from django.db import connection

    from dashboard.core.accounts.encryption import accepts

    barrier, taken = Barrier(LOGINS), list[Any]()

    def log_in() -> None:
        factor = Authenticator.objects.get(type=kind)
        barrier.wait()
        cache.clear()  # as if each were in a process of its own
        taken.append(accepts(factor, code))
        connection.close()

    threads = [Thread(target=log_in) for _ in range(LOGINS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == LOGINS
    return taken.count(True)


if __name__ == "__main__":
    main()
