"""What an admin may request of a pipeline on the job's page."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from dashboard.job.forms import Offer, RequestForm
from dashboard.pipelines.status import Shown

OFFERS = {
    "stop": Offer(
        "stop",
        "Stop",
        "Ends the pipeline in order. Its records wait in the log, and it stays stopped, through "
        "restarts too, until it is started.",
        "Yes, stop it",
    ),
    "start": Offer(
        "start",
        "Start",
        "Continues from the checkpoint: all records that have waited in the log are read.",
        "Yes, start it",
    ),
    "reset": Offer(
        "reset",
        "Reset",
        "Deletes its checkpoint and state, and reads the log again from its beginning. What it "
        "writes then has the same ids as before, so nobody counts a record twice.",
        "Yes, delete its state and read the log again",
    ),
}


def request_form(pipeline: str, action: str, data: Any = None) -> RequestForm:
    """Return the form of one action on a pipeline."""
    address = reverse("console:ask-pipeline", args=[pipeline])
    return RequestForm(f"pipeline-{pipeline}", action, data, offers=OFFERS, address=address)


def forms_of(shown: Shown) -> list[RequestForm]:
    """Return the forms of what may be asked of a pipeline as it is."""
    offered = ["start"] if shown.state != "running" else []
    offered += [] if shown.state == "stopped" else ["stop"]
    return [request_form(shown.record.name, action) for action in (*offered, "reset")]
