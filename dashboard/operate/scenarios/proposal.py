"""Proposed rules, and rule changes: request, follow and store them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import msgspec
from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.forms.boundfield import BoundField

from dashboard.core.common.tables import Column, Table
from dashboard.core.job import requests
from dashboard.core.job.requests import RequestProgress
from dashboard.core.rules.ingestion import text_of
from dashboard.core.rules.models import RuleChange, parsed
from dashboard.operate.scenarios.descriptions import KeyComparison, compared
from dashboard.operate.scenarios.status import ScenarioStatus
from domain.config_values import duration_text
from domain.overlay import LIVE_KEYS, MAX_TEXT, differing, overlaid, overlay_text, read_overlay
from domain.scenario import Scenario, ScenarioError
from wire.job import MAX_PARAMETERS, MAX_REASON
from wire.source import MAX_BRACKETS, MAX_RECORD, fits

# ---- proposal ------------------------------------------------------------------------------------
# A proposed rule: from the form's fields, from text, or from removing overlay keys.

EVERY = "*"
"""Stands for all keys of an overlay that is removed."""
TEXT_KEYS = ("rule", "weights")
"""Keys that have no fields of their own."""
SPANS = {
    "vote_lifetime": "forever",
    "forget_after": "three lifetimes, at least 15m",
    "max_report_age": "as silent votes",
}
"""Keys that hold a duration, with the meaning of an empty value."""
LIFETIME_HINT = "needed, for example 10m"
"""Placeholder of the vote lifetime where states have a severity; it must not be empty there."""
BY_STATE = ("holds", "reminders", "purge_after")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A different rule for a scenario. keys: of its overlay; scenario: with them over the file."""

    keys: dict[str, Any]
    scenario: Scenario

    @property
    def text(self) -> str:
        """Return the overlay as TOML."""
        return overlay_text(self.keys)


def propose(status: ScenarioStatus, keys: Mapping[str, Any]) -> Proposal:
    """Return the scenario with these keys applied over its file's.

    Raises ScenarioError, which names the key.
    """
    scenario = overlaid(status.configured, keys)
    if not fits(scenario):
        limits = f"at most {MAX_RECORD:,} bytes and {MAX_BRACKETS} brackets"
        raise ScenarioError(f"{scenario.name}: expected a scenario of {limits}")
    changes = differing(status.configured, scenario)
    if len(msgspec.json.encode(changes)) > MAX_PARAMETERS - 1_000:
        raise ScenarioError(f"{scenario.name}: expected at most {MAX_PARAMETERS - 1_000:,} bytes")
    return Proposal(changes, scenario)


def taken_back(status: ScenarioStatus, key: str) -> Proposal:
    """Return the overlay without one of its keys, or without all of them. Raises ScenarioError."""
    kept = {} if key == EVERY else {k: v for k, v in status.keys.items() if k != key}
    return propose(status, kept)


def change_text(status: ScenarioStatus, proposal: Proposal) -> str:
    """Return a proposal in TOML for what-if: the keys it changes and those it removes."""
    plain = proposal.scenario.to_plain()
    return overlay_text({k: plain[k] for k in LIVE_KEYS if k in proposal.keys or k in status.keys})


# ---- the form -------------------------------------------------------------------------------


class ChangeForm(forms.Form):
    """Every key that may be changed, with its present or proposed value; judged by the domain."""

    min_voters = forms.CharField(label="Fewest voters to lower a state", max_length=20)
    raise_voters = forms.CharField(label="Fewest voters to raise it", required=False, max_length=20)
    electorate = forms.CharField(label="Electorate", required=False, max_length=20)
    vote_lifetime = forms.CharField(label="Vote lifetime", required=False, max_length=20)
    forget_after = forms.CharField(label="Silent votes kept for", required=False, max_length=20)
    max_report_age = forms.CharField(label="Oldest report", required=False, max_length=20)
    text = forms.CharField(
        label="Rule, weights, as TOML",
        required=False,
        max_length=MAX_TEXT,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false"}),
    )

    def __init__(self, status: ScenarioStatus, start: Scenario, data: Any = None) -> None:
        """Prepare the form. start: what the fields show at first."""
        super().__init__(data, auto_id="rule-%s", initial=_initial(start))
        self.one, self.states = status, _states(status, start)
        for at, state in enumerate(self.states):
            for key in BY_STATE:
                field = forms.CharField(required=False, max_length=20)
                field.label = f"{key}: {state}"
                field.initial = _text_of((getattr(start, key) or {}).get(state))
                self.fields[f"{key}-{at}"] = field
        for each in self.fields.values():
            each.widget.attrs |= {"autocomplete": "off"}
        empty = {**SPANS, "electorate": "the live votes", "raise_voters": "1"}
        for name, meaning in empty.items():
            self.fields[name].widget.attrs["placeholder"] = meaning
        if start.life_cycle:  # nothing is raised or lowered, and silent votes are not kept
            self.fields["min_voters"].label = "Fewest voters"
            del self.fields["raise_voters"], self.fields["forget_after"]
        else:
            self.fields["vote_lifetime"].widget.attrs["placeholder"] = LIFETIME_HINT
        self.proposal: Proposal | None = None

    def clean(self) -> None:
        """Apply the input to the file's scenario, as the job would."""
        if self.errors:
            return
        try:
            self.proposal = propose(self.one, self._keys())
        except ScenarioError as error:
            self.add_error(self._field_of(str(error)), ValidationError(str(error)))

    def _keys(self) -> dict[str, Any]:
        data = self.cleaned_data
        keys: dict[str, Any] = {
            "min_voters": _voters(data["min_voters"], data.get("raise_voters", "")),
            "electorate": _whole(data["electorate"]) if data["electorate"] else None,
            **{key: data[key] or None for key in SPANS if key in data},
        }
        for key in BY_STATE:
            values = ((state, data[f"{key}-{at}"]) for at, state in enumerate(self.states))
            keys[key] = {state: value for state, value in values if value}
        return keys | read_overlay(data["text"])

    def _field_of(self, error: str) -> str | None:
        """Return the field that a domain error is about."""
        path = error.split(": ", 1)[0].removeprefix(f"{self.one.scenario.name}.")
        key, _, state = path.partition(".")
        if key == "min_voters":
            return "raise_voters" if state == "raise" else key
        if state in self.states and f"{key}-{self.states.index(state)}" in self.fields:
            return f"{key}-{self.states.index(state)}"
        return key if key in self.fields and not state else "text"

    def rows(self) -> Iterator[tuple[str, list[BoundField]]]:
        """Yield each state with its hold, reminder and purge fields."""
        for at, state in enumerate(self.states):
            yield state, [self[f"{key}-{at}"] for key in BY_STATE]

    def simple(self) -> list[BoundField]:
        """Return the fields of keys that hold one value."""
        names = ("min_voters", "raise_voters", "electorate", *SPANS)
        return [self[name] for name in names if name in self.fields]


def _initial(start: Scenario) -> dict[str, Any]:
    plain = start.to_plain()
    return {
        "min_voters": start.min_voters,
        "raise_voters": start.raise_voters,
        "electorate": start.electorate,
        **{key: _text_of(plain[key]) for key in SPANS},
        "text": overlay_text({key: plain[key] for key in TEXT_KEYS}),
    }


def _states(status: ScenarioStatus, start: Scenario) -> list[str]:
    """Return the states that may have a hold: the scenario's, and those that already have one."""
    named = [spec.name for spec in status.configured.states]
    for scenario in (status.present, start):
        for key in BY_STATE:
            named += sorted(getattr(scenario, key) or {})
    return list(dict.fromkeys(named))


def _text_of(ms: int | None) -> str:
    return "" if ms is None else duration_text(ms)


def _voters(lower: str, up: str) -> Any:
    """Return `min_voters`: one number if one voter is enough to raise a state, else both."""
    return _whole(lower) if up in ("", "1") else {"lower": _whole(lower), "raise": _whole(up)}


def _whole(text: str) -> int | str:
    """Return the text as an integer if it is one, else unchanged for the domain to reject."""
    return int(text) if text.isascii() and text.isdigit() else text


class ProposalForm(forms.Form):
    """The confirmation of a proposal.

    id: made with the form; base: what the proposal was based on.
    """

    id = forms.UUIDField(widget=forms.HiddenInput)
    base = forms.CharField(max_length=64, widget=forms.HiddenInput)
    keys = forms.CharField(max_length=MAX_TEXT, required=False, widget=forms.HiddenInput)
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")
    name = forms.CharField(max_length=40, label="The scenario's name")

    def __init__(
        self,
        status: ScenarioStatus,
        proposal: Proposal | None = None,
        data: Any = None,
        reason: str = "",
    ) -> None:
        base = status.carried.version if status.carried else ""
        initial = {"id": uuid4(), "base": base, "reason": reason}
        if proposal is not None:
            initial["keys"] = proposal.text
        super().__init__(data, auto_id="confirm-%s", initial=initial)
        self.one = status
        self.fields["name"].help_text = f"Type {status.scenario.name}: it changes at once."
        for name in ("reason", "name"):
            self.fields[name].widget.attrs["autocomplete"] = "off"
        self.fields["name"].widget.attrs["data-drafts"] = "never"  # it confirms

    def clean_name(self) -> str:
        """Return the scenario's name. Raises ValidationError if it is another name."""
        name: str = self.cleaned_data["name"]
        if name != self.one.scenario.name:
            raise ValidationError(f"Expected {self.one.scenario.name}.")
        return name


# ---- rules ---------------------------------------------------------------------------------------
# Rule changes: request, follow and store them. Times in Unix ms.

LISTED = 50
"""How many changes a page lists."""
KEPT = 1_000
"""How many of a scenario's newest changes are kept."""


def send(
    status: ScenarioStatus,
    proposal: Proposal,
    base: str,
    reason: str,
    id_: UUID,
    user: User,
    now: int,
) -> str:
    """Request the proposal, made from `base`, from the job; the same id is sent only once.

    Returns the result of sending. Raises rate_limits.TooMany, in which case nothing was requested.
    """
    assert status.carried is not None
    change = RuleChange(
        id=id_,
        scenario=status.scenario.name,
        user=user,
        username=user.get_username(),
        reason=reason,
        asked_at=now,
        before=status.carried.rule,
        after=text_of(proposal.scenario),
        reverted=not proposal.keys,
        status="sending",
    )
    parameters = {"scenario": change.scenario, "keys": proposal.keys, "base": base}
    request, fresh = requests.send(
        status.carried.query,
        "rule",
        user,
        now,
        reason=reason,
        id_=id_,
        parameters=parameters,
        detail=change,
    )
    if not fresh:
        return "sent before"
    _bound(change.scenario)
    return request.status


def _bound(scenario: str) -> None:
    kept = RuleChange.objects.filter(scenario=scenario).order_by("-asked_at", "-pk")
    for first in kept.values_list("asked_at", flat=True)[KEPT : KEPT + 1]:
        kept.filter(asked_at__lte=first).delete()


@dataclass(frozen=True)
class RuleChangeRow(RequestProgress):
    """A change as a page lists it."""

    @property
    def moves(self) -> list[KeyComparison]:
        """Return the keys that the change affects, before and after."""
        both = compared(parsed(self.row.before), parsed(self.row.after))
        return [each for each in both if each.differs]


CHANGES = Table("changes", Column.time("When"), "Who", "Why", "What", "Outcome", css="compared")


def changes(*scenarios: str, now: int, since: int = 0) -> list[RuleChangeRow]:
    """Return the newest changes to scenarios that were requested here since a time. Unix ms."""
    rows = RuleChange.objects.filter(scenario__in=scenarios, asked_at__gte=since)
    return [RuleChangeRow(row, now) for row in rows.order_by("-asked_at", "-pk")[:LISTED]]
