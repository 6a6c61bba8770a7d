"""Forms of the commands on one asset."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import msgspec
from django import forms

from dashboard.core.common.forms import LocalTimeInput, typed_end
from dashboard.core.common.times import HOUR_MS, MINUTE_MS, exact_span, now_ms, utc
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.commands.stale_forms import MAX_SIGHT, SeenAsset, read_sight
from dashboard.watch.commands.warnings import warning
from domain.config_values import PlainError, duration
from domain.names import state_name_ok
from domain.records import Command, Kind, Schedule
from domain.scenario import LEAST_PERIOD, MAX_RUNS, Scenario
from domain.version import Version
from wire.sink import StateValue
from wire.source import MAX_REASON

# ---- schedule fields -----------------------------------------------------------------------------
# The fields of a form that schedules a task, on an asset's page and in bulk.

ACTIONS = [
    ("notify", "notify"),
    ("emit", "write its state to Kafka again"),
    ("set", "set a state"),
    ("release", "release a pin"),
    ("purge", "purge it"),
]


class IntervalField(forms.CharField):
    """A field of a time span, such as 5m; its value is in ms, None where nothing was typed."""

    def clean(self, value: Any) -> int | None:
        """Return the span in ms. Raises ValidationError."""
        text = str(super().clean(value) or "").strip().replace(" ", "")
        if not text:
            return None
        try:
            span = duration(text, "")
        except PlainError:
            span = 0
        if span < LEAST_PERIOD:
            raise forms.ValidationError("Expected a time such as 30s, 5m or 2h, at least 1s.")
        return span


TASK = ("do", "condition", "after", "run_at", "every", "times", "run_until")
"""The fields of a task."""


class ScheduleFields(forms.Form):
    """The base of forms that schedule: what is done, if what, when, and how often.

    A valid form's `at` and `last` are the typed times of the first run and of the end, Unix ms.
    """

    do = forms.ChoiceField(choices=ACTIONS, required=False, label="Do", initial="notify")
    condition = forms.CharField(required=False, max_length=64, label="Only if then it is")
    after = IntervalField(
        required=False, max_length=20, label="After", help_text="such as 30s, 5m or 2h"
    )
    run_at = forms.CharField(required=False, label="Or at", widget=LocalTimeInput)
    every = IntervalField(
        required=False, max_length=20, label="Then every", help_text="empty: once"
    )
    times = forms.IntegerField(
        required=False, min_value=1, max_value=MAX_RUNS, label="Times at most"
    )
    run_until = forms.CharField(required=False, label="Last run by", widget=LocalTimeInput)
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def offer_conditions(self, scenario: Scenario) -> None:
        """Let the condition be one of the scenario's states."""
        if not scenario.open_vocabulary:
            states = [(spec.name, spec.label) for spec in scenario.states]
            self.fields["condition"].widget = forms.Select(choices=[("", "anything"), *states])

    def check_schedule(self, scenario: Scenario, data: dict[str, Any], state_field: str) -> None:
        """Add errors for missing or contradictory fields. state_field: what a `set` sets."""
        state, condition = data.get(state_field) or "", data.get("condition") or ""
        if not data.get("do"):
            self.add_error("do", "Choose what is to be done.")
        if data.get("do") == "set" and not scenario.knows(state):
            self.add_error(state_field, "Choose the state to set.")
        if condition and not scenario.knows(condition):
            self.add_error("condition", f"There is no state “{condition}”.")
        self._check_begin(data)
        self._check_end(data)

    def _check_begin(self, data: dict[str, Any]) -> None:
        """Set the time of the first run; add an error if there is none, or two."""
        data["at"] = self._typed("run_at", data)
        if data.get("run_at") and data.get("after"):
            self.add_error("run_at", "Expected a time here or a span above, not both.")
        given = data.get("after") or data.get("every") or data.get("run_at")
        if "after" in data and "every" in data and not given:
            self.add_error("after", "Expected a time such as 30s, 5m or 2h.")

    def _check_end(self, data: dict[str, Any]) -> None:
        """Set the end; add errors for fields that a task that runs once does not have."""
        data["last"] = self._typed("run_until", data)
        if "every" not in self.errors and not data.get("every"):
            for name in ("times", "run_until"):
                if data.get(name):
                    self.add_error(name, "Expected nothing here for a task that runs once.")
        elif data["last"] is not None:
            first = data["at"] or now_ms() + (data.get("after") or data.get("every") or 0)
            if data["last"] < first:
                self.add_error("run_until", "Expected a time after the first run.")

    def _typed(self, field: str, data: dict[str, Any]) -> int | None:
        """Return the time typed in a field, Unix ms; add an error and return None if it is none."""
        if not data.get(field):
            return None
        try:
            return typed_end(data[field], data.get("zone", ""), now_ms())
        except forms.ValidationError as error:
            self.add_error(field, error)
            return None

    def schedule(self) -> Schedule:
        """Return the schedule of the valid form."""
        data = self.cleaned_data
        return Schedule(
            do=data["do"],
            condition=data["condition"] or None,
            after=data["after"],
            at=data["at"],
            every=data["every"],
            times=data["times"],
        )


def words_of(schedule: Schedule, until: int | None = None) -> str:
    """Return a schedule in words: `notify in 5 m, then every 1 h, if it is down`.

    until: after which it runs no more, Unix ms.
    """
    does = dict(ACTIONS).get(schedule.do, schedule.do)
    when = []
    if schedule.at is not None:
        when.append(f"at {utc(schedule.at)}")
    if schedule.after is not None:
        when.append(f"in {exact_span(schedule.after)}")
    if schedule.every is not None:
        when.append(f"every {exact_span(schedule.every)}")
    most = [f"at most {schedule.times:,} times"] if schedule.times else []
    end = [f"until {utc(until)}"] if until is not None else []
    condition = [f"if it is {schedule.condition}"] if schedule.condition else []
    return f"{does} {', '.join([', then '.join(when), *most, *end, *condition])}"


# ---- commands ------------------------------------------------------------------------------------
# Forms of the commands on one asset.

QUICK = {"15m": 15 * MINUTE_MS, "1h": HOUR_MS, "4h": 4 * HOUR_MS}
"""Ends an override may have at one click, ms from now."""

ENDS = [
    ("15m", "in 15 minutes"),
    ("1h", "in 1 hour"),
    ("4h", "in 4 hours"),
    ("at", "at a time"),
    ("", "no end: until it is released"),
]
SUGGESTED = "1h"
"""The end that a form begins with: a pin that somebody forgets is no danger for long."""
CHOOSE = ("", "choose…")
"""What stands where no state is chosen yet: none is suggested."""


_KEPT = ("sight", "end", "until_at", "zone", *TASK)
_PLACES = {"until": ("until_at", "run_until"), "at": ("run_at",), "if": ("condition",)}
"""The fields of forms for what the wire format names otherwise."""


class CommandForm(forms.Form):
    """The base of the forms of commands, with an id made with the form, so that it is sent once.

    seen and sight: the version that the page shows, and what there was to be seen of it.
    """

    field_order: Iterable[str] | None = ("state", "reason", "end", "until_at", "unchanged")
    kind: ClassVar[Kind]
    id = forms.UUIDField(widget=forms.HiddenInput)
    seen = forms.CharField(required=False, max_length=60, widget=forms.HiddenInput)
    sight = forms.CharField(required=False, max_length=MAX_SIGHT, widget=forms.HiddenInput)
    unchanged = forms.BooleanField(
        required=False, initial=True, label="Only if the state is still what I saw"
    )

    def __init__(
        self,
        scenario: Scenario,
        data: Mapping[str, Any] | None = None,
        showing: Mapping[str, str] | None = None,
        place: str = "",
    ) -> None:
        """Fill the form.

        showing: what `shown` made of the page; place: keeps the ids of two forms apart.
        """
        initial = {"id": uuid.uuid4(), **(showing or {})}
        ids = f"{place}{self.kind}_%s"
        super().__init__(data, auto_id=ids, initial=initial)
        self.scenario = scenario

    def begin(self) -> None:
        """Let the page begin at the first field that is still to be filled in."""
        names = [n for n in ("state", "reason") if n in self.fields and not self.initial.get(n)]
        if names:
            self.fields[names[0]].widget.attrs["autofocus"] = True

    def renewed(self, record: StateValue | None, now: int, *, late: bool = False) -> Self:
        """Return the same form as it was typed, about what the asset is now, and with a new id.

        late: whether it comes back as the asset has changed; then it is sent without the condition.
        """
        data = {name: self.data[name] for name in self.data}
        if late:
            data.pop("unchanged", None)
        data |= {"id": str(uuid.uuid4()), **shown(record, now)}
        return type(self)(self.scenario, data)

    def clean_seen(self) -> Version | None:
        """Return the version the page showed, as three integers."""
        text = self.cleaned_data["seen"]
        try:
            return Version.parse(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error

    def clean_sight(self) -> SeenAsset | None:
        """Return what the page showed, None where that is not known."""
        return read_sight(self.cleaned_data["sight"])

    def is_confirmed(self, record: StateValue | None) -> bool:  # noqa: ARG002 - as a task needs it
        """Return whether the valid form may be sent: its warning, if it has one, has been shown."""
        return True

    def kept(self) -> str:
        """Return what the form held and the command does not, as JSON, should it be shown again."""
        held = {name: str(self.data.get(name, ""))[:MAX_SIGHT] for name in _KEPT}
        return msgspec.json.encode({name: text for name, text in held.items() if text}).decode()

    def blame(self, field: str | None, message: str) -> None:
        """Show `message` beside `field`, or above the form where it has no such field."""
        places = _PLACES.get(field or "", (field,))
        self.add_error(next((each for each in places if each in self.fields), None), message)

    def command(self, asset: str, user: str) -> Command:
        """Return the command that the valid form requests."""
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
    """A form that ends the override and withdraws the user's own vote."""

    kind: ClassVar[Kind] = "release"
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Reason")


class PurgeForm(CommandForm):
    """A form that takes the asset off the board, once `confirm` says so."""

    kind: ClassVar[Kind] = "purge"
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Reason")

    def is_confirmed(self, record: StateValue | None) -> bool:  # noqa: ARG002 - as a task needs it
        """Return whether the second step was taken."""
        return bool(self.data.get("confirm"))


class VoteForm(CommandForm):
    """A form that counts the user as one more agent."""

    kind: ClassVar[Kind] = "vote"
    state = forms.CharField(
        max_length=64, label="State", error_messages={"required": "Choose a state."}
    )
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Reason")

    def __init__(self, scenario: Scenario, *args: Any, **kwargs: Any) -> None:
        super().__init__(scenario, *args, **kwargs)
        self.fields["state"].widget = _state_widget(scenario)

    def clean_state(self) -> str:
        """Return a state that the scenario knows."""
        state: str = self.cleaned_data["state"]
        if self.scenario.knows(state):
            return state
        raise forms.ValidationError(expected_state(self.scenario, state))


class EndForm(forms.Form):
    """The base of forms with an end.

    It is a quick choice, or a time in the viewer's zone; `until` is its Unix ms.
    """

    end = forms.ChoiceField(required=False, choices=ENDS, label="Until", initial=SUGGESTED)
    until_at = forms.CharField(required=False, label="Time", widget=LocalTimeInput)
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """Work out `until` (Unix ms) from the quick choices or the time in the viewer's zone."""
        data = super().clean() or self.cleaned_data
        end, typed = data.get("end", ""), data.get("until_at", "")
        now = now_ms()
        data["until"] = None
        if end in QUICK:
            data["until"] = now + QUICK[end]
        elif end == "at" or typed:
            try:
                data["until"] = typed_end(typed, data.get("zone", ""), now)
            except forms.ValidationError as error:
                self.add_error("until_at", error)
        return data


class SetForm(EndForm, VoteForm):
    """A form that pins a state, for a while or until it is released."""

    kind: ClassVar[Kind] = "set"
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")


class ScheduleForm(ScheduleFields, CommandForm):
    """A form that schedules a task; one that has a warning once `confirm` repeats it."""

    kind: ClassVar[Kind] = "schedule"
    field_order = ("do", "state", *TASK[1:], "reason", "unchanged")
    state = forms.CharField(required=False, max_length=64, label="State to set")
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")

    def __init__(self, scenario: Scenario, *args: Any, **kwargs: Any) -> None:
        super().__init__(scenario, *args, **kwargs)
        self.fields["state"].widget = _state_widget(scenario)
        self.offer_conditions(scenario)

    def clean(self) -> dict[str, Any]:
        """Compare the parts with each other."""
        data = super().clean() or self.cleaned_data
        self.check_schedule(self.scenario, data, "state")
        data["until"] = data["last"]
        return data

    def warning(self, record: StateValue | None) -> str:
        """Return what is to be confirmed of the task; empty where nothing is, or it is not valid.

        record: the newest of the asset.
        """
        if not self.is_valid():
            return ""
        shown = record.state if record else None
        return warning(self.scenario, self.schedule(), self.cleaned_data["state"], shown)

    def is_confirmed(self, record: StateValue | None) -> bool:
        """Return whether the warning, if there is one, was shown as it is now."""
        return self.warning(record) in ("", self.data.get("confirm"))

    def command(self, asset: str, user: str) -> Command:
        """Return the command that the valid form requests."""
        schedule = self.schedule()
        state = self.cleaned_data["state"] if schedule.do == "set" else None
        return replace(super().command(asset, user), state=state, schedule=schedule)


def shown(record: StateValue | None, now: int) -> dict[str, str]:
    """Return what a form carries of its page: the version seen, and the sight of it."""
    seen = record.version if record else ""
    return {"seen": seen, "sight": SeenAsset.of(record, now).text()}


FORMS: dict[str, type[CommandForm]] = {
    form.kind: form for form in (SetForm, VoteForm, ReleaseForm, ScheduleForm, PurgeForm)
}


def asked_again(scenario: Scenario, row: Row, record: StateValue | None, now: int) -> CommandForm:
    """Return the form of a command that was sent here, as typed, about what the asset is now, and
    without the condition for which it was refused."""
    typed = {"state": row.state, "reason": row.reason, "id": str(uuid.uuid4())}
    data = row.kept | typed | shown(record, now)
    return FORMS[row.kind](scenario, data, place="again_")


def expected_state(scenario: Scenario, got: str) -> str:
    """Return the message of what is expected in place of an unknown state."""
    names = ", ".join(spec.name for spec in scenario.states)
    if scenario.open_vocabulary and not state_name_ok(got):
        return "Expected 1-64 printable characters without spaces at the ends."
    if not got:
        return f"Choose a state: one of {names}."
    return f"There is no state “{got}”; expected one of: {names}."


def _state_widget(scenario: Scenario) -> forms.Widget:
    if scenario.open_vocabulary:
        return forms.TextInput(attrs={"list": "states-known", "autocomplete": "off"})
    return forms.Select(choices=[CHOOSE, *((spec.name, spec.label) for spec in scenario.states)])
