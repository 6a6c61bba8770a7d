"""The forms of what an admin may request of a query or a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django import forms
from django.urls import reverse

from dashboard.core.job.pipelines import PipelineView
from wire.job import MAX_REASON, Action

# ---- job -----------------------------------------------------------------------------------------
# The forms of what an admin may request of a query on the job's page.


@dataclass(frozen=True, slots=True)
class ActionOffer:
    """The words of an action that is offered, and of the box that is to be ticked."""

    action: Action
    title: str
    hint: str
    confirm: str


OFFERS = {
    "stop": ActionOffer(
        "stop",
        "Stop",
        "Ends the query in order. States stand as they are, reports wait in the log, and it stays "
        "stopped, through restarts of the job too, until it is started.",
        "Yes, let states stand still",
    ),
    "start": ActionOffer(
        "start",
        "Start",
        "Continues from the checkpoint: all records that have waited in the log are applied.",
        "Yes, start it",
    ),
    "reload": ActionOffer(
        "reload",
        "Reload scenarios",
        "Reads scenarios.toml anew. Changed rules go into the log and hold from there on; what is "
        "new is started. New labels and scenarios show here once web and materialiser have been "
        "restarted.",
        "Yes, take the file as it is now",
    ),
}


class RequestForm(forms.Form):
    """One action on one query, with its reason and a box to tick. `id`: made with the form."""

    id = forms.UUIDField(widget=forms.HiddenInput)
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")
    confirm = forms.BooleanField(error_messages={"required": "Tick this to go on."})

    def __init__(
        self,
        query: str,
        action: str,
        data: Any = None,
        *,
        address: str,
        offers: Mapping[str, ActionOffer] = OFFERS,
    ) -> None:
        """address: where it is sent; offers: the words of each action."""
        initial = {"id": uuid4(), "action": action}
        auto_id = f"ask-{query}-{action}-%s"
        super().__init__(data, auto_id=auto_id, initial=initial)
        self.offer, self.query, self.address = offers[action], query, address
        self.fields["confirm"].label = self.offer.confirm
        choices = [(name, name) for name in offers]
        self.fields["action"] = forms.ChoiceField(choices=choices, widget=forms.HiddenInput())
        self.fields["reason"].widget.attrs["autocomplete"] = "off"


# ---- pipelines -----------------------------------------------------------------------------------
# What an admin may request of a pipeline on the job's page.

PIPELINE_OFFERS = {
    "stop": ActionOffer(
        "stop",
        "Stop",
        "Ends the pipeline in order. Its records wait in the log, and it stays stopped, through "
        "restarts too, until it is started.",
        "Yes, stop it",
    ),
    "start": ActionOffer(
        "start",
        "Start",
        "Continues from the checkpoint: all records that have waited in the log are read.",
        "Yes, start it",
    ),
    "reset": ActionOffer(
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
    return RequestForm(
        f"pipeline-{pipeline}", action, data, offers=PIPELINE_OFFERS, address=address
    )


def forms_of(shown: PipelineView) -> list[RequestForm]:
    """Return the forms of what may be asked of a pipeline as it is."""
    offered = ["start"] if shown.state != "running" else []
    offered += [] if shown.state == "stopped" else ["stop"]
    return [request_form(shown.record.name, action) for action in (*offered, "reset")]
