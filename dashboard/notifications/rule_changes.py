"""Rules written, changed and retired by users, and checked against what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db.models import F, Model

from dashboard.core.scenarios import scenarios
from dashboard.notifications.models import Channel, Rota, Rule
from domain.notifications.rule import Rule as Definition
from domain.notifications.rule_parser import RuleError, plain_rule, rule_from_plain

MOST_RULES = 200
"""Most rules at a time."""


class ChangedMeanwhile(Exception):
    """Somebody else has changed the rule since it was read."""


def in_use() -> Any:
    """Return the rules that are not retired, by name."""
    return Rule.objects.filter(retired_at=None).order_by("name")


def checked(plain: Mapping[str, Any]) -> Definition:
    """Return the rule that JSON-able data describes. Raises RuleError for what is wrong in it, or
    names a scenario, state, channel or rota that is not there."""
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
    if found := {key: expected for key, expected in errors.items() if expected}:
        raise RuleError(found)
    return rule


def create(author: User, name: str, rule: Definition, enabled: bool, now: int) -> Rule:
    """Store a new rule. Raises RuleError where its name is taken, or there are too many."""
    if in_use().filter(name=name).exists():
        raise RuleError({"name": "expected a name that no other rule has"})
    if in_use().count() >= MOST_RULES:
        raise RuleError({"name": f"expected at most {MOST_RULES} rules: retire one first"})
    return Rule.objects.create(
        user=author,
        username=author.get_username(),
        name=name,
        enabled=enabled,
        definition=plain_rule(rule),
        changed_at=now,
    )


def change(
    row: Rule, name: str, rule: Definition, enabled: bool, now: int, revision: int | None = None
) -> None:
    """Store a change of a rule. revision: the one that was read, by default that of the row.

    Raises RuleError where the name is taken, ChangedMeanwhile.
    """
    if in_use().filter(name=name).exclude(pk=row.pk).exists():
        raise RuleError({"name": "expected a name that no other rule has"})
    _update(row, revision, now, name=name, enabled=enabled, definition=plain_rule(rule))


def switch(row: Rule, enabled: bool, now: int) -> None:
    """Enable or disable a rule. Raises ChangedMeanwhile."""
    _update(row, None, now, enabled=enabled)


def retire(row: Rule, now: int) -> None:
    """Have a rule send nothing any more; its messages stay. Raises ChangedMeanwhile."""
    _update(row, None, now, enabled=False, retired_at=now)


def _update(row: Rule, revision: int | None, now: int, **fields: Any) -> None:
    seen = row.revision if revision is None else revision
    same = Rule.objects.filter(pk=row.pk, revision=seen, retired_at=None)
    if not same.update(**fields, changed_at=now, revision=F("revision") + 1):
        raise ChangedMeanwhile
    row.refresh_from_db()


def _unknown(names: Any, known: Any) -> str:
    unknown = [name for name in names if name not in known]
    return f"expected what there is, not {', '.join(unknown)}" if unknown else ""


def _absent_targets(rule: Definition) -> str:
    channels = {number for stage in rule.stages for number in stage.channels}
    rotas = {number for stage in rule.stages for number in stage.rotas}
    absent = [f"channel {number}" for number in sorted(channels - _present(Channel, channels))]
    absent += [f"rota {number}" for number in sorted(rotas - _present(Rota, rotas))]
    return f"expected targets that there are, not {', '.join(absent)}" if absent else ""


def _present(model: type[Model], numbers: set[int]) -> set[int]:
    rows = model._default_manager.filter(pk__in=numbers, retired_at=None)  # noqa: SLF001
    return set(rows.values_list("pk", flat=True))
