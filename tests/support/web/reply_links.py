"""Links by which an operator answers a message, made in the configured database.

Run as a program by tests of a product that runs: `python tests/support/web/reply_links.py ASSET`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

EXPIRED = "expired"
LONG_AGO = 1


def main() -> None:
    """Print the links about an asset's attack, once the database has that."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from support.run.stack import wait_until

    asset = sys.argv[1]
    wait_until(lambda: _attacks(asset), 60, f"no attack on {asset}")
    print(json.dumps(reply_links(asset)))


def reply_links(asset: str) -> dict[str, str]:
    """Store a message to the operator about an asset's attack; return the paths of its links.

    They are by what they do: acknowledge, snooze, and, as it has expired, nothing.
    """
    from urllib.parse import urlsplit

    from django.contrib.auth.models import User
    from django.urls import reverse

    from dashboard.core.accounts.encryption import seal
    from dashboard.core.common.times import now_ms
    from dashboard.notify.notifications.models import SENT, Message
    from dashboard.notify.notifications.outbox import ACKNOWLEDGE, reply_urls

    user, attack = User.objects.get(username="operator"), _attacks(asset)[0]
    incident = {"scenario": attack.scenario, "asset": asset, "place": attack.place}
    message = Message.objects.create(
        kind="opened", status=SENT, scenario=attack.scenario, subject=f"{asset} under attack",
        means="mail", recipient="operator@example.invalid", user=user, created_at=now_ms(),
        payload={"incidents": [incident]},
    )  # fmt: skip
    old = seal(json.dumps(["reply", message.pk.hex, user.pk, ACKNOWLEDGE, LONG_AGO]))
    links = {act: urlsplit(link).path for act, link in reply_urls(message.pk, user).items()}
    return links | {EXPIRED: reverse("notifications:reply", args=[old])}


def _attacks(asset: str) -> list[Any]:
    from dashboard.watch.incidents.models import Incident

    return list(Incident.objects.filter(scenario="attack", asset=asset))


if __name__ == "__main__":
    main()
