"""Celery's app; CELERY_ settings in dashboard.settings.

Two workers: `worker` carries out whatever takes long; `notifier` does nothing but decide on
notifications and send them, so that these wait for no other task. `beat` sends both what is due.
"""

import os
from functools import lru_cache
from typing import Any

from celery import Celery
from celery.platforms import set_pdeathsig
from celery.signals import beat_embedded_init, heartbeat_sent
from django.conf import settings

from config.pulse import Pulse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

app = Celery("tallyboard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [
        "dashboard.notify.notifications",
        "dashboard.notify.summaries",
        "dashboard.operate.administration",
        "dashboard.operate.requests",
        "dashboard.serve.materialiser",
        "dashboard.watch.agents",
        "dashboard.watch.annotations",
        "dashboard.watch.bulk",
        "dashboard.watch.incidents",
    ]
)


@heartbeat_sent.connect
def beat_pulse(sender: Any, **_sent: object) -> None:
    """Beat the pulse of the worker of this process: its own loop goes round, whatever task it is
    at."""
    pulse(sender.eventer.hostname.partition("@")[0]).beat()


@beat_embedded_init.connect
def end_with_worker(**_sent: object) -> None:
    """Have a Beat that is a worker's own (`--beat`) end with it, as the processes of its tasks do:
    it would hold the lock of the schedule for good."""
    set_pdeathsig("SIGKILL")


@lru_cache(maxsize=2)
def pulse(name: str) -> Pulse:
    """Return the sign of life of the worker of this name, which is that before the `@`."""
    return Pulse(settings.TALLYBOARD.data_dir, name)
