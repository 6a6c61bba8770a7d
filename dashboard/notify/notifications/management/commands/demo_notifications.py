"""`manage.py demo_notifications`: create a rule and channels if the mail catcher runs, otherwise
disable the channels.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.settings import DEMO_MAIL, DEMO_POINTS
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications.models import Channel, Rule
from domain.notifications.rule_parser import plain_rule, rule_from_plain

# ---- demo ----------------------------------------------------------------------------------------
# The demo's notifications, caught by the mail catcher: a rule that reports attacks on its gold
# customers, outages of their networks and scheduled tasks by mail, and a channel for points earned
# with invoices.

ADDRESS = "soc@demo.invalid"
"""Belongs to nobody: no mail server ever delivers to it (RFC 2606)."""
POINTS_ADDRESS = "customers@demo.invalid"
MOST_POINTS, POINTS_WINDOW_MS = 10, 60_000
AUTHOR = "the demo"
RULE = {
    "scenarios": ["attack", "connectivity"],
    "states": ["under-attack", "down"],
    "labels": ["tier=gold"],
    "group_by": ["scenario"],
    "after_ms": 20_000,  # the demo's waves are short: what only flares up is not reported
    "window_ms": 10_000,
    "most": 3,  # more would be ignored; those beyond the limit come in one message
    "per_ms": 15 * 60_000,
}


def ensure(now: int) -> bool:
    """Create the demo's channel and rule at a time (Unix ms), unless there has ever been either.

    Return whether they were created.
    """
    if Rule.objects.exists() or Channel.objects.exists():
        return False
    channel = Channel.objects.create(
        username=AUTHOR, name=DEMO_MAIL, kind="mail", address=ADDRESS, changed_at=now
    )
    rule = rule_from_plain(RULE | {"stages": [{"channels": [channel.pk]}]})
    Rule.objects.create(
        username=AUTHOR, name="Demo: gold customers", definition=plain_rule(rule), changed_at=now
    )
    return True


def ensure_points(now: int) -> bool:
    """Create the demo's channel for earned points at a time (Unix ms), unless its name was ever
    used.

    Return whether it was created.
    """
    if Channel.objects.filter(name=DEMO_POINTS).exists():
        return False
    Channel.objects.create(
        username=AUTHOR, name=DEMO_POINTS, kind="mail", address=POINTS_ADDRESS,
        most=MOST_POINTS, window_ms=POINTS_WINDOW_MS, changed_at=now,
    )  # fmt: skip
    return True


def switch_off(now: int) -> bool:
    """Disable the demo's channels at a time (Unix ms), as there is no mail catcher any more.

    A channel whose address has been changed belongs to somebody, and stays. Return whether one was
    disabled.
    """
    ours = (ADDRESS, POINTS_ADDRESS)
    rows = Channel.objects.filter(username=AUTHOR, address__in=ours, enabled=True)
    return bool(rows.update(enabled=False, changed_at=now))


# ---- demo notifications --------------------------------------------------------------------------
# `manage.py demo_notifications`: create or disable the demo's rule and channels.


class Command(BaseCommand):
    """Create the demo's rule and channels; without the mail catcher, disable the channels."""

    help = "With the mail catcher, make the demo's rule; without it, disable the demo's channel."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Create or disable them, and print what was done."""
        if settings.TALLYBOARD.catches_mail:
            if ensure(now_ms()):
                self.stdout.write("The demo's rule tells of attacks on gold customers by mail.")
            if settings.TALLYBOARD.points_target == DEMO_POINTS and ensure_points(now_ms()):
                self.stdout.write("Points that invoices earn are told by mail.")
        elif switch_off(now_ms()):
            self.stdout.write("There is no mail catcher: the demo's channel is disabled.")
