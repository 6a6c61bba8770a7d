"""`manage.py demo_notifications`: a rule and a channel with the mail catcher, none without it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.settings import DEMO_POINTS
from dashboard.core.times import now_ms
from dashboard.notifications import demo


class Command(BaseCommand):
    """A command that makes the demo's rule; without the mail catcher it disables its channel."""

    help = "With the mail catcher, make the demo's rule; without it, disable the demo's channel."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Make or disable them, and print what was done."""
        if settings.TALLYBOARD.catches_mail:
            if demo.ensure(now_ms()):
                self.stdout.write("The demo's rule tells of attacks on gold customers by mail.")
            if settings.TALLYBOARD.points_target == DEMO_POINTS and demo.ensure_points(now_ms()):
                self.stdout.write("Points that invoices earn are told by mail.")
        elif demo.switch_off(now_ms()):
            self.stdout.write("There is no mail catcher: the demo's channel is disabled.")
