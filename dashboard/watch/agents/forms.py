"""The forms that mute and unmute an agent."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from django import forms

from dashboard.core.common.times import HOUR_MS, MINUTE_MS
from domain.records import Mute, Unmute
from wire.source import MAX_REASON

QUICK = {"15m": 15 * MINUTE_MS, "1h": HOUR_MS}
"""Offered ends of a mute, ms from now."""
ENDS = [("15m", "15 minutes"), ("1h", "1 hour"), ("none", "until unmuted")]


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


class MuteSeveralForm(MuteForm):
    """A form that mutes several agents alike; the id of each mute is made from the form's."""

    agents = forms.MultipleChoiceField(label="Agents", widget=forms.CheckboxSelectMultiple)
    field_order = ("id", "agents", "end", "reason")

    def __init__(self, agents: Iterable[str], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        choice = self.fields["agents"]
        assert isinstance(choice, forms.MultipleChoiceField)
        choice.choices = [(agent, agent) for agent in agents]

    def records(self, user: str, now: int) -> Iterator[Mute]:
        """Yield the mute of each agent that the valid form names, at `now` (ms)."""
        for agent in self.cleaned_data["agents"]:
            mute = self.record(agent, user, now)
            assert isinstance(mute, Mute)
            yield replace(mute, id=str(uuid.uuid5(self.cleaned_data["id"], agent)))


FORMS: dict[str, type[UnmuteForm]] = {form.do: form for form in (MuteForm, UnmuteForm)}
