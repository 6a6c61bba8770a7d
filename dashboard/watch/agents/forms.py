"""The forms that mute and unmute an agent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django import forms

from dashboard.core.common.times import HOUR_MS, MINUTE_MS
from domain.records import Mute, Unmute
from wire.source import MAX_REASON

QUICK = {"15m": 15 * MINUTE_MS, "1h": HOUR_MS}
"""Offered ends of a mute, ms from now."""
ENDS = [("15m", "15 minutes"), ("1h", "1 hour"), ("none", "until taken back")]


class UnmuteForm(forms.Form):
    """A form that lets an agent's votes count again.

    Its id is made with the form, so that the request is made only once.
    """

    do = "unmute"
    id = forms.UUIDField(widget=forms.HiddenInput)
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Reason")

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        ids = f"{self.do}_%s"
        super().__init__(data, auto_id=ids, initial={"id": uuid.uuid4()})

    def record(self, agent: str, user: str, now: int) -> Mute | Unmute:  # noqa: ARG002 - a mute's
        """Return the record that the valid form requests, at `now` (ms)."""
        data = self.cleaned_data
        return Unmute(agent, user, data["reason"], str(data["id"]))


class MuteForm(UnmuteForm):
    """A form that makes an agent's votes count nothing, for a while or until it is unmuted."""

    do = "mute"
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")
    end = forms.ChoiceField(choices=ENDS, label="For", widget=forms.RadioSelect, initial="15m")

    def record(self, agent: str, user: str, now: int) -> Mute | Unmute:
        """Return the record that the valid form requests, at `now` (ms)."""
        data = self.cleaned_data
        until = now + QUICK[data["end"]] if data["end"] in QUICK else None
        return Mute(agent, until, user, data["reason"], str(data["id"]))


FORMS: dict[str, type[UnmuteForm]] = {form.do: form for form in (MuteForm, UnmuteForm)}
