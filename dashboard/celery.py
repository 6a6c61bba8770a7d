"""Celery: `celery -A dashboard worker --beat`; CELERY_ settings in dashboard.settings."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

app = Celery("tallyboard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [
        "dashboard.accounts",
        "dashboard.annotations",
        "dashboard.audit",
        "dashboard.materialiser",
        "dashboard.bulk",
        "dashboard.replay",
    ]
)
app.autodiscover_tasks(["dashboard.statestore", "dashboard.whatif"])
app.autodiscover_tasks(["dashboard.agentry", "dashboard.labels"])
