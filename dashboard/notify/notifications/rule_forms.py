"""Creating, changing and retiring rules: the form and its checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.forms import BaseFormSet, formset_factory

from dashboard.core.common.forms import SpanField, scenario_choices
from dashboard.core.common.scenarios import scenarios
from dashboard.notify.notifications.models import MAX_TITLE, Channel, Rota, Rule
from domain.notifications.events import AGENT_DOUBTED, AGENT_LATE, AGENT_REFUSED, AGENT_SILENT
from domain.notifications.rule import Rule as Definition
from domain.notifications.rule_parser import (
    EVERY_SCENARIO,
    MOST_STAGES,
    RuleError,
    plain_rule,
    rule_from_plain,
)

# ---- rule forms ----------------------------------------------------------------------------------
# The form of a rule: its fields, its stages, and the conversion of both to the data of a rule.

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY_CHOICES = [(str(number), name) for number, name in enumerate(DAYS)]
EVERY_DAY = [number for number, _ in DAY_CHOICES]
ALL_SCENARIOS = "All scenarios"
EXPECTED_SCENARIOS = f"Choose scenarios; “{ALL_SCENARIOS}” is one of the choices."
FEWEST_STAGES = 3
"""The number of stages that the form has room for at least."""

SPANS = {"after_ms": "after", "window_ms": "window", "repeat_ms": "repeat", "per_ms": "per"}
FIELDS = {**SPANS, "hours": "hours_begin", "quiet": "quiet_begin"}
"""Names of form fields by key of the data, where the two differ."""
KEPT = (
    *("scenarios", "states", "at_least", "resolved", "incidents", "tasks", "agents", "budgets"),
    "most",
)
"""Fields with the same names and values as in the data."""
AGENT_CHOICES = [
    (AGENT_REFUSED, "Reports refused"),
    (AGENT_SILENT, "Silent everywhere"),
    (AGENT_DOUBTED, "In doubt: clock ahead, or contradicts itself"),
    (AGENT_LATE, "Reports too late"),
]
"""The findings about agents that a rule can report."""


def state_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the states that are not good, by scenario, as choices."""
    return [
        (each.title, [(s.name, s.label) for s in each.states if not each.is_good(s.name)])
        for each in scenarios().values()
    ]


def target_choices() -> list[tuple[str, str]]:
    """Return the channels and rotas that a stage can use, as choices."""
    channels = Channel.objects.in_use()
    rotas = Rota.objects.in_use()
    listed = [(f"channel:{row.pk}", f"{row.name} ({row.kind})") for row in channels]
    return listed + [(f"rota:{row.pk}", f"{row.name} (rota)") for row in rotas]


def _checks(label: str, choices: Any = (), initial: Any = ()) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        label=label,
        choices=choices,
        initial=initial,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"invalid_choice": "Expected some of the choices."},
    )


def _clock(label: str) -> forms.CharField:
    return forms.CharField(
        label=label, required=False, max_length=5, widget=forms.TimeInput(attrs={"type": "time"})
    )


class RuleForm(forms.Form):
    """A rule without its stages. revision: of the rule that the form shows."""

    revision = forms.IntegerField(required=False, widget=forms.HiddenInput)
    name = forms.CharField(max_length=MAX_TITLE, label="Name")
    enabled = forms.BooleanField(required=False, initial=True, label="Enabled")
    scenarios = _checks("Scenarios")
    at_least = forms.ChoiceField(required=False, label="This state or a worse one")
    states = forms.MultipleChoiceField(
        required=False, label="Only these states", widget=forms.SelectMultiple(attrs={"size": 5})
    )
    labels = forms.CharField(
        required=False,
        label="Any of these labels or details",
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": "tier=gold"}),
        help_text="One per line, such as tier=gold or rate=>10000.",
    )
    after = SpanField(label="Lasts at least", required=False, zero=True, initial="0s")
    group_by = forms.CharField(
        label="Group by",
        max_length=500,
        required=False,
        initial="scenario",
        help_text="One message per: scenario, asset, or label keys, separated by commas.",
    )
    window = SpanField(label="Wait for more to group", required=False, zero=True, initial="30s")
    repeat = SpanField(label="Remind every", required=False)
    resolved = forms.BooleanField(required=False, initial=True, label="Notify when it is over")
    incidents = forms.BooleanField(required=False, initial=True, label="Incidents")
    tasks = forms.BooleanField(required=False, initial=True, label="Scheduled tasks that notify")
    agents = _checks("Agents", AGENT_CHOICES)
    budgets = forms.BooleanField(required=False, label="Error budgets that burn too fast")
    most = forms.IntegerField(label="Messages at most", initial=20)
    per = SpanField(label="Per", initial="1h")
    hours_begin, hours_end = _clock("From"), _clock("Until")
    hours_days = _checks("Days", DAY_CHOICES, EVERY_DAY)
    hours_zone = forms.CharField(required=False, max_length=64, label="Zone", initial="UTC")
    quiet_begin, quiet_end = _clock("From"), _clock("Until")
    quiet_days = _checks("Days", DAY_CHOICES, EVERY_DAY)
    quiet_zone = forms.CharField(required=False, max_length=64, label="Zone", initial="UTC")
    quiet_exempt = forms.ChoiceField(required=False, label="Except this state or a worse one")

    WHAT = ("incidents", "tasks", "budgets", "agents")
    WHICH = ("scenarios", "at_least", "states", "labels", "after")
    HOW = ("group_by", "window", "repeat", "most", "per", "resolved")
    HOURS = ("hours_begin", "hours_end", "hours_zone", "hours_days")
    QUIET = ("quiet_begin", "quiet_end", "quiet_zone", "quiet_exempt", "quiet_days")

    def __init__(self, data: Any = None, row: Rule | None = None) -> None:
        super().__init__(data, initial=_initial(row) if row else None)
        self._offer("scenarios", [(EVERY_SCENARIO, ALL_SCENARIOS), *scenario_choices()])
        self.fields["scenarios"].required = True
        self.fields["scenarios"].error_messages["required"] = EXPECTED_SCENARIOS
        self._offer("states", state_choices())
        for name in ("at_least", "quiet_exempt"):
            self._offer(name, [("", "any that is not good" if name == "at_least" else "none")])
            self._offer(name, [*self._choices(name), *state_choices()])

    def clean(self) -> dict[str, Any]:
        """Return the fields. Hours without a day are an error of their days."""
        data = super().clean() or self.cleaned_data
        for name in ("hours", "quiet"):
            given = data.get(f"{name}_begin") or data.get(f"{name}_end")
            if given and not data.get(f"{name}_days"):
                self.add_error(f"{name}_days", "Expected days, as there are hours.")
        return data

    def _choices(self, name: str) -> Any:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        return field.choices

    def _offer(self, name: str, choices: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def part(self, names: tuple[str, ...]) -> list[forms.BoundField]:
        """Return the bound fields with these names."""
        return [self[name] for name in names]

    @property
    def what(self) -> list[forms.BoundField]:
        """The fields for what the rule reports."""
        return self.part(self.WHAT)

    @property
    def which(self) -> list[forms.BoundField]:
        """The fields for which incidents it covers."""
        return self.part(self.WHICH)

    @property
    def how(self) -> list[forms.BoundField]:
        """The fields for how often it sends."""
        return self.part(self.HOW)

    @property
    def hours(self) -> list[forms.BoundField]:
        """The fields of its active hours."""
        return self.part(self.HOURS)

    @property
    def quiet(self) -> list[forms.BoundField]:
        """The fields of its quiet hours."""
        return self.part(self.QUIET)

    def plain(self, stages: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the data of a rule. The form must be valid."""
        data = self.cleaned_data
        quiet = self._hours("quiet")
        return {
            "scenarios": data["scenarios"],
            "labels": [line.strip() for line in data["labels"].splitlines() if line.strip()],
            "states": data["states"],
            "at_least": data["at_least"],
            "after_ms": data["after"] or 0,
            "hours": self._hours("hours"),
            "quiet": quiet and quiet | {"exempt": data["quiet_exempt"]},
            "group_by": [key.strip() for key in data["group_by"].split(",") if key.strip()],
            "window_ms": data["window"] or 0,
            "repeat_ms": data["repeat"],
            "stages": stages,
            "resolved": data["resolved"],
            "incidents": data["incidents"],
            "tasks": data["tasks"],
            "agents": data["agents"],
            "budgets": data["budgets"],
            "most": data["most"],
            "per_ms": data["per"],
        }

    def _hours(self, name: str) -> dict[str, Any] | None:
        data = self.cleaned_data
        begin, end = data[f"{name}_begin"], data[f"{name}_end"]
        if not begin and not end:
            return None
        days = [int(day) for day in data[f"{name}_days"]]
        return {"zone": data[f"{name}_zone"] or "UTC", "days": days, "begin": begin, "end": end}

    def refuse(self, error: RuleError) -> None:
        """Add each error to the field that it concerns."""
        for key, expected in error.errors.items():
            field = FIELDS.get(key, key)
            words = f"{expected[:1].upper()}{expected[1:]}."
            self.add_error(field if field in self.fields else None, words)


def _plain(rule: Rule) -> dict[str, Any]:
    """Return a rule's data, including keys that were added after it was stored."""
    return plain_rule(rule_from_plain(rule.definition))


def _initial(rule: Rule) -> dict[str, Any]:
    plain = _plain(rule)
    own = {
        "revision": rule.revision,
        "name": rule.name,
        "enabled": rule.enabled,
        "labels": "\n".join(plain["labels"]),
        "group_by": ", ".join(plain["group_by"]),
    }
    spans = {field: plain[key] for key, field in SPANS.items()}
    kept = {key: plain[key] for key in KEPT}
    hours = {
        f"{name}_{key}": [str(day) for day in value] if key == "days" else value
        for name in ("hours", "quiet")
        for key, value in (plain[name] or {}).items()
    }
    return kept | spans | own | hours


class StageForm(forms.Form):
    """A stage: whom to notify when nobody has acknowledged for so long; empty for no stage."""

    after = SpanField(label="After", required=False, zero=True)
    targets = _checks("Notify")

    def __init__(self, *args: Any, choices: list[tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["targets"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def plain(self) -> dict[str, Any] | None:
        """Return the data of a stage, None for an empty one. The form must be valid."""
        targets = [target.split(":") for target in self.cleaned_data["targets"]]
        if not targets:
            return None
        return {
            "after_ms": self.cleaned_data["after"] or 0,
            "channels": [int(number) for kind, number in targets if kind == "channel"],
            "rotas": [int(number) for kind, number in targets if kind == "rota"],
        }


StageFormSet = formset_factory(StageForm, extra=0, max_num=MOST_STAGES, absolute_max=MOST_STAGES)


def stage_forms(data: Any = None, rule: Rule | None = None) -> BaseFormSet[StageForm]:
    """Return the forms of a rule's stages, with room for one more, up to the limit."""
    stages = [_initial_stage(stage) for stage in rule.definition["stages"]] if rule else []
    room = min(max(FEWEST_STAGES, len(stages) + 1), MOST_STAGES)
    stages += [{}] * (room - len(stages))
    return StageFormSet(
        data, initial=stages, prefix="stage", form_kwargs={"choices": target_choices()}
    )


def plain_stages(forms_of_stages: BaseFormSet[StageForm]) -> list[dict[str, Any]]:
    """Return the stages of valid forms, ordered by time."""
    stages = [stage for form in forms_of_stages if (stage := form.plain())]
    return sorted(stages, key=lambda stage: int(stage["after_ms"]))


def _initial_stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    targets = [f"channel:{number}" for number in stage["channels"]]
    return {
        "after": stage["after_ms"],
        "targets": targets + [f"rota:{number}" for number in stage["rotas"]],
    }


# ---- rule changes --------------------------------------------------------------------------------
# Creating, changing and retiring rules, which are checked against the configuration.

MOST_RULES = 200
"""Most rules in use."""


def checked(plain: Mapping[str, Any]) -> Definition:
    """Return the rule that JSON-able data describes.

    Raises RuleError if the data is invalid, lists no scenario, or names a scenario, state, channel
    or rota that does not exist.
    """
    if plain.get("scenarios") == []:
        raise RuleError({"scenarios": f"expected scenarios, or {EVERY_SCENARIO} for all of them"})
    rule = rule_from_plain(plain)
    known = scenarios()
    states = {state.name for scenario in known.values() for state in scenario.states}
    named = {*rule.states, *filter(None, (rule.at_least, rule.quiet and rule.quiet.exempt))}
    errors = {
        "scenarios": _unknown(rule.scenarios, known),
        "states": _unknown(rule.states, states),
        "at_least": _unknown(named - set(rule.states), states),
        "stages": _absent_targets(rule),
    }
    if faults := {key: expected for key, expected in errors.items() if expected}:
        raise RuleError(faults)
    return rule


def create_rule(author: User, name: str, rule: Definition, enabled: bool, now: int) -> Rule:
    """Store and return a new rule. Raises RuleError if its name is taken or there are too many."""
    if Rule.objects.in_use().filter(name=name).exists():
        raise RuleError({"name": "expected a name that no other rule has"})
    if Rule.objects.in_use().count() >= MOST_RULES:
        raise RuleError({"name": f"expected at most {MOST_RULES} rules: retire one first"})
    return Rule.objects.create(
        user=author,
        username=author.get_username(),
        name=name,
        enabled=enabled,
        definition=plain_rule(rule),
        changed_at=now,
    )


def change_rule(
    row: Rule, name: str, rule: Definition, enabled: bool, now: int, revision: int | None = None
) -> bool:
    """Store a change of a rule, and return whether it is one.

    revision: the one that was read, by default the row's. Raises RuleError if the name is taken,
    and ChangedMeanwhile.
    """
    if Rule.objects.in_use().filter(name=name).exclude(pk=row.pk).exists():
        raise RuleError({"name": "expected a name that no other rule has"})
    changed = {"name": name, "enabled": enabled, "definition": plain_rule(rule)}
    if all(getattr(row, field) == value for field, value in changed.items()):
        return False
    row.change(now, revision, **changed)
    return True


def _unknown(names: Any, known: Any) -> str:
    unknown = [name for name in names if name not in known]
    return f"expected known ones, not {', '.join(unknown)}" if unknown else ""


def _absent_targets(rule: Definition) -> str:
    channels = {number for stage in rule.stages for number in stage.channels}
    rotas = {number for stage in rule.stages for number in stage.rotas}
    gone = channels - set(Channel.objects.in_use().in_bulk(channels))
    absent = [f"channel {number}" for number in sorted(gone)]
    gone = rotas - set(Rota.objects.in_use().in_bulk(rotas))
    absent += [f"rota {number}" for number in sorted(gone)]
    return f"expected existing channels and rotas, not {', '.join(absent)}" if absent else ""
