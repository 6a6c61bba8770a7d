"""A Celery app with the product's own settings, whose task notes that it ran; and who asks for it.

`celery -A support.web.task_soak worker` carries out, `python -m support.web.task_soak` asks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django
from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
django.setup()

app = Celery("support.web.task_soak")
app.config_from_object("django.conf:settings", namespace="CELERY")

NOTED = Path(os.environ["TALLYBOARD_DATA_DIR"]) / "noted"
BALLAST = "x" * 20_000
"""Long enough that a message is written for a while."""


@app.task(ignore_result=True)
def note(number: int, ballast: str) -> None:
    """Note the number, whole, as the worker's processes share the file."""
    assert len(ballast) == len(BALLAST)
    with NOTED.open("ab", buffering=0) as noted:
        noted.write(b"%d\n" % number)


if __name__ == "__main__":
    for wanted in range(int(sys.argv[1]), int(sys.argv[2])):
        note.delay(wanted, BALLAST)
