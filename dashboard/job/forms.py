"""The forms of what an admin may request of a query on the job's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django import forms

from wire.job import MAX_REASON, Action


@dataclass(frozen=True, slots=True)
class Offer:
    """The words of an action that is offered, and of the box that is to be ticked."""

    action: Action
    title: str
    hint: str
    confirm: str


OFFERS = {
    "stop": Offer(
        "stop",
        "Stop",
        "Ends the query in order. States stand as they are, reports wait in the log, and it stays "
        "stopped, through restarts of the job too, until it is started.",
        "Yes, let states stand still",
    ),
    "start": Offer(
        "start",
        "Start",
        "Continues from the checkpoint: all records that have waited in the log are applied.",
        "Yes, start it",
    ),
    "reload": Offer(
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
        offers: Mapping[str, Offer] = OFFERS,
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
