"""Celery: `celery -A dashboard worker --beat`; CELERY_ settings in dashboard.settings."""

import os
from functools import lru_cache

from celery import Celery
from celery.signals import heartbeat_sent
from django.conf import settings

from config.pulse import Pulse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

app = Celery("tallyboard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [
        "dashboard.agents",
        "dashboard.bulk",
        "dashboard.labels",
        "dashboard.materialiser",
        "dashboard.replays",
    ]
)


@heartbeat_sent.connect
def say_it_lives(**_sent: object) -> None:
    """The worker's own loop goes round, whatever task its child is at."""
    pulse().beat()


@lru_cache(maxsize=1)
def pulse() -> Pulse:
    """The worker's sign of life."""
    return Pulse(settings.TALLYBOARD.data_dir, "worker")
