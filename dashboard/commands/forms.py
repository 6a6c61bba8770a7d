"""Forms of the four commands on one asset."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django import forms
from django.utils import timezone

from domain.names import state_name_ok
from domain.records import Command, Kind
from domain.scenario import Scenario
from domain.version import Version
from wire.source import MAX_REASON

QUICK = {"15m": 15 * 60_000, "1h": 3_600_000, "4h": 4 * 3_600_000}
"""Ends an override may have at one click, ms from now."""

ENDS = [
    ("", "no end"),
    ("15m", "in 15 minutes"),
    ("1h", "in 1 hour"),
    ("4h", "in 4 hours"),
    ("at", "at a time"),
]


class CommandForm(forms.Form):
    """What every command has: an id made with the form, so that it is sent once."""

    kind: ClassVar[Kind]
    id = forms.UUIDField(widget=forms.HiddenInput)
    seen = forms.CharField(required=False, max_length=60, widget=forms.HiddenInput)
    unchanged = forms.BooleanField(required=False, label="Only if the state is still what I saw")

    def __init__(
        self, scenario: Scenario, data: Mapping[str, Any] | None = None, seen: str = ""
    ) -> None:
        """`seen`: the version that the page shows."""
        initial = {"id": uuid.uuid4(), "seen": seen}
        super().__init__(data, auto_id=f"{self.kind}_%s", initial=initial, label_suffix="")
        self.scenario = scenario

    def clean_seen(self) -> Version | None:
        """The version the page showed, as three integers."""
        text = self.cleaned_data["seen"]
        try:
            return Version.parse(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error

    def blame(self, field: str | None, message: str) -> None:
        """Show `message` beside `field`, or above the form where it has no such field."""
        place = {"until": "until_at"}.get(field or "", field)
        self.add_error(place if place in self.fields else None, message)

    def command(self, asset: str, user: str) -> Command:
        """The command that the valid form asks for."""
        data = self.cleaned_data
        return Command(
            kind=self.kind,
            asset=asset,
            id=str(data["id"]),
            user=user,
            reason=data.get("reason", ""),
            state=data.get("state"),
            until=data.get("until"),
            if_version=data["seen"] if data["unchanged"] else None,
        )


class ReleaseForm(CommandForm):
    """Ends the override and withdraws the user's own vote."""

    kind: ClassVar[Kind] = "release"
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Reason")


class PurgeForm(CommandForm):
    """Takes the asset off the board, once `confirm` says so."""

    kind: ClassVar[Kind] = "purge"
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Reason")
    confirm = forms.CharField(required=False, widget=forms.HiddenInput)

    @property
    def confirmed(self) -> bool:
        """Whether the second step was taken."""
        return bool(self.cleaned_data.get("confirm"))


class VoteForm(CommandForm):
    """Counts the user as one more agent."""

    kind: ClassVar[Kind] = "vote"
    state = forms.CharField(max_length=64, label="State")
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Reason")
    field_order: Iterable[str] | None = ("state", "reason", "unchanged")

    def __init__(
        self, scenario: Scenario, data: Mapping[str, Any] | None = None, seen: str = ""
    ) -> None:
        super().__init__(scenario, data, seen)
        self.fields["state"].widget = _state_widget(scenario)

    def clean_state(self) -> str:
        """A state the scenario knows."""
        state: str = self.cleaned_data["state"]
        if self.scenario.knows(state):
            return state
        raise forms.ValidationError(expected_state(self.scenario, state))


class SetForm(VoteForm):
    """Pins a state, for a while or until it is released."""

    kind: ClassVar[Kind] = "set"
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")
    end = forms.ChoiceField(required=False, choices=ENDS, label="Until")
    until_at = forms.CharField(
        required=False,
        label="Time",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
    )
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    field_order: Iterable[str] | None = ("state", "reason", "end", "until_at", "unchanged")

    def clean(self) -> dict[str, Any]:
        """Work out `until` (Unix ms) from the quick choices or the time in the viewer's zone."""
        data = super().clean() or self.cleaned_data
        end, typed = data.get("end", ""), data.get("until_at", "")
        now_ms = int(timezone.now().timestamp() * 1000)
        data["until"] = None
        if end in QUICK:
            data["until"] = now_ms + QUICK[end]
        elif end == "at" or typed:
            data["until"] = self._typed_end(typed, data.get("zone", ""), now_ms)
        return data

    def _typed_end(self, typed: str, zone: str, now_ms: int) -> int | None:
        try:
            at = datetime.fromisoformat(typed)
        except ValueError:
            self.add_error("until_at", "Expected a date and a time, such as 2030-01-31T18:00.")
            return None
        until = int((at if at.tzinfo else at.replace(tzinfo=_zone(zone))).timestamp() * 1000)
        if until <= now_ms:
            self.add_error("until_at", "This time is past; expected one to come.")
        return until


FORMS: dict[str, type[CommandForm]] = {
    form.kind: form for form in (SetForm, VoteForm, ReleaseForm, PurgeForm)
}


def expected_state(scenario: Scenario, got: str) -> str:
    """What may stand where an unknown state stood."""
    names = ", ".join(spec.name for spec in scenario.states)
    if scenario.open_vocabulary and not state_name_ok(got):
        return "Expected 1-64 printable characters without space at either end."
    return f"Unknown state {got!r}; expected one of: {names}."


def _state_widget(scenario: Scenario) -> forms.Widget:
    if scenario.open_vocabulary:
        return forms.TextInput(attrs={"list": "states-known", "autocomplete": "off"})
    return forms.Select(choices=[(spec.name, spec.label) for spec in scenario.states])


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else timezone.get_current_timezone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
