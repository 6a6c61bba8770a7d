"""The form of a trial: the changed keys as TOML or in fields of their own, and how far back."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django import forms

from dashboard.core.fields import UtcTimeField
from domain.config_values import duration_text
from domain.overlay import MAX_TEXT, canonical, differing, overlaid, read_overlay
from domain.scenario import Scenario, ScenarioError
from wire.job import MAX_REASON

HOUR_MS = 3_600_000
HOURS = (1, 6, 24)
LONGEST_MS = 7 * 24 * HOUR_MS
"""The log holds no more than that."""
_SPANS = ("vote_lifetime", "forget_after")
"""Fields of a duration, each named as its key."""


class TrialForm(forms.Form):
    """A proposed rule for one scenario.

    rule: the changed keys, as they would be in scenarios.toml; the fields next to it set one key
    each, so that nobody has to write TOML for a hold.
    """

    scenario = forms.CharField(widget=forms.HiddenInput)
    back = forms.ChoiceField(
        label="Replay",
        choices=[*((str(n), f"the last {n} h" if n > 1 else "the last hour") for n in HOURS),
                 ("since", "since…")],
    )  # fmt: skip
    since = UtcTimeField(label="Since (UTC)")
    vote_lifetime = forms.CharField(required=False, max_length=20, label="Vote lifetime")
    forget_after = forms.CharField(required=False, max_length=20, label="Silent votes kept for")
    min_voters = forms.IntegerField(
        required=False, min_value=1, max_value=1000, label="Fewest voters to lower a state"
    )
    raise_voters = forms.IntegerField(
        required=False, min_value=1, max_value=1000, label="Fewest voters to raise it"
    )
    rule = forms.CharField(
        required=False,
        max_length=MAX_TEXT,
        strip=False,
        label="Changed keys, as TOML",
        widget=forms.Textarea(attrs={"rows": 9, "spellcheck": "false"}),
    )
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Why (optional)")

    def __init__(self, running: Scenario, now: int, data: Any = None, initial: Any = None) -> None:
        super().__init__(data, initial=initial, auto_id="try-%s")
        self.running, self._now = running, now
        for number, spec in enumerate(running.states):
            field = forms.CharField(required=False, max_length=20, label=f"Hold: {spec.label}")
            field.widget.attrs["placeholder"] = _told(running.hold(spec.name))
            self.fields[f"hold-{number}"] = field
        placeholders = {
            "vote_lifetime": _told(running.vote_lifetime),
            "forget_after": _told(running.forget_delay),
            "min_voters": str(running.min_voters),
            "raise_voters": str(running.raise_voters),
            "rule": 'holds = { clear = "10m" }\n\n[rule]\nkind = "latest"',
        }
        for name, text in placeholders.items():
            self.fields[name].widget.attrs["placeholder"] = text
        if running.life_cycle:  # nothing is raised or lowered, and nobody's last word is kept
            self.fields["min_voters"].label = "Fewest voters"
            del self.fields["raise_voters"], self.fields["forget_after"]

    @property
    def simple(self) -> list[Any]:
        """Return the fields that set one key each."""
        holds = [name for name in self.fields if name.startswith("hold-")]
        names = ("vote_lifetime", "forget_after", "min_voters", "raise_voters", *holds)
        return [self[name] for name in names if name in self.fields]

    def clean(self) -> dict[str, Any]:
        """Return the changed keys, and since when; what is wrong is said at its field."""
        data = super().clean() or self.cleaned_data
        if not self.errors:
            data["from"] = self._from(data)
        if not self.errors:
            data["keys"] = self._keys(data)
        return data

    def _from(self, data: dict[str, Any]) -> int:
        if data["back"] != "since":
            if data.get("since"):
                text = "Expected nothing here, or “since…” chosen under Replay."
                self.add_error("since", text)
            return self._now - int(data["back"]) * HOUR_MS
        when = data.get("since")
        if when is None:
            self.add_error("since", "Expected a time, for instance 2026-11-20T08:00.")
            return 0
        at = int(when.replace(tzinfo=UTC).timestamp() * 1000)
        if not self._now - LONGEST_MS <= at < self._now:
            self.add_error("since", "Expected a time of the last seven days.")
        return at

    def _keys(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return plain keys in which the proposal differs from the rule that is used."""
        try:
            keys = read_overlay(data["rule"])
        except ScenarioError as error:
            self.add_error("rule", str(error))
            return {}
        for name, value in self._simple_keys(data).items():
            if name in keys:
                self.add_error("rule", f"{name}: expected here or in its field, not in both")
                return {}
            keys[name] = value
        try:
            canonical_keys = canonical(self.running, keys)
            changed = differing(self.running, overlaid(self.running, canonical_keys))
        except ScenarioError as error:
            self.add_error(self._field_of(str(error), data), str(error))
            return {}
        if not changed:
            self.add_error(None, "Nothing is changed: this is the present rule.")
        return changed

    def _simple_keys(self, data: dict[str, Any]) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        for name in _SPANS:
            if data.get(name):
                keys[name] = data[name]
        lower, up = data["min_voters"], data.get("raise_voters")
        if lower is not None or up is not None:
            keys["min_voters"] = {
                "lower": lower or self.running.min_voters,
                "raise": up or self.running.raise_voters,
            }
        holds = {
            spec.name: data[f"hold-{number}"]
            for number, spec in enumerate(self.running.states)
            if data[f"hold-{number}"]
        }
        if holds:
            keys["holds"] = {**(self.running.holds or {}), **holds}
        return keys

    def _field_of(self, message: str, data: dict[str, Any]) -> str:
        """Return the field that a message about a key belongs to."""
        path = message.partition(":")[0]
        for number, spec in enumerate(self.running.states):
            if path.endswith(f".holds.{spec.name}") and data[f"hold-{number}"]:
                return f"hold-{number}"
        name = path.rpartition(".")[2]
        return name if name in _SPANS and data.get(name) else "rule"


def _told(ms: int | None) -> str:
    """Return a duration as scenarios.toml has it."""
    return "none" if ms is None else duration_text(ms)
