"""`manage.py demo_labels`: labels of the demo's assets with the demo, none of these without it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from dashboard.core.times import now_ms
from dashboard.labels import demo


class Command(BaseCommand):
    """A command that labels the demo's assets once; without the demo it takes these labels away."""

    help = "With the demo, label its sites and networks once; without it, delete these labels."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Make or delete the labels, and print of how many assets."""
        if settings.TALLYBOARD.demo:
            if labelled := demo.ensure(now_ms()):
                self.stdout.write(f"The demo's {labelled} sites and networks have labels.")
        elif unlabelled := demo.retire(now_ms()):
            self.stdout.write(f"The demo is off: {unlabelled} sites and networks lose its labels.")
