"""Read, check and write notification rules as JSON-compatible data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from domain.notifications.events import AGENT_KINDS
from domain.notifications.hours import Hours
from domain.notifications.rule import Quiet, Rule, Stage

SECOND_MS, MINUTE_MS, DAY_MS = 1_000, 60_000, 86_400_000

MOST_LISTED = 50
"""Largest number of scenarios, labels, states, grouping keys, or channels of a stage."""
MOST_STAGES = 10
LONGEST_AFTER_MS = 7 * DAY_MS
LONGEST_WINDOW_MS = 60 * MINUTE_MS
SHORTEST_REPEAT_MS = MINUTE_MS
MOST_MESSAGES = 1_000
LONGEST_TEXT = 140

T = TypeVar("T")


class RuleError(ValueError):
    """A rule that cannot be used. errors: what was expected, by key."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{key}: {expected}" for key, expected in errors.items()))
        self.errors = dict(errors)


class _Expected(Exception):
    """Raised with a description of the value that was expected."""


def rule_from_plain(plain: Mapping[str, Any]) -> Rule:
    """Return the rule described by JSON-compatible data. Raises RuleError naming every key."""
    errors: dict[str, str] = {}
    values: dict[str, Any] = {}
    for key in sorted(plain.keys() - _READERS.keys()):
        errors[str(key)] = f"expected one of {', '.join(_READERS)}"
    for key, read in _READERS.items():
        if key in plain:
            try:
                values[key] = read(plain[key])
            except _Expected as expected:
                errors[key] = str(expected)
    if not plain.get("stages"):
        errors["stages"] = "expected whom to tell"
    if errors:
        raise RuleError(errors)
    return Rule(**values)


EVERY_SCENARIO = "*"
"""Stands for all scenarios, also those to come, in the data of a rule."""


def plain_rule(rule: Rule) -> dict[str, Any]:
    """Return a rule as JSON-compatible data; `rule_from_plain` restores an equal rule."""
    return {
        "scenarios": list(rule.scenarios) or [EVERY_SCENARIO],
        "labels": [f"{key}={value}" for key, value in rule.labels],
        "states": list(rule.states),
        "at_least": rule.at_least,
        "after_ms": rule.after_ms,
        "hours": rule.hours and _plain_hours(rule.hours),
        "quiet": rule.quiet and _plain_hours(rule.quiet.hours) | {"exempt": rule.quiet.exempt},
        "group_by": list(rule.group_by),
        "window_ms": rule.window_ms,
        "repeat_ms": rule.repeat_ms,
        "stages": [
            {"after_ms": s.after_ms, "channels": list(s.channels), "rotas": list(s.rotas)}
            for s in rule.stages
        ],
        "resolved": rule.resolved,
        "incidents": rule.incidents,
        "tasks": rule.tasks,
        "agents": list(rule.agents),
        "budgets": rule.budgets,
        "most": rule.most,
        "per_ms": rule.per_ms,
    }


def _plain_hours(hours: Hours) -> dict[str, Any]:
    return {
        "zone": hours.zone,
        "days": sorted(hours.days),
        "begin": _clock(hours.begin),
        "end": _clock(hours.end),
    }


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


# ---- readers of values ------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise _Expected(f"expected a text of at most {LONGEST_TEXT} characters")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Expected("expected true or false")
    return value


def _number(least: int, most: int, unit: str = "") -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _Expected(f"expected a number from {least} to {most}{unit}")
        return value

    return read


def _optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else read(value)


def _listed(read: Callable[[Any], T], most: int = MOST_LISTED) -> Callable[[Any], tuple[T, ...]]:
    def read_all(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            raise _Expected(f"expected a list of at most {most}")
        return tuple(dict.fromkeys(read(each) for each in value))

    return read_all


def _scenarios(value: Any) -> tuple[str, ...]:
    names = _listed(_text)(value)
    return () if EVERY_SCENARIO in names else names


def _agent_kind(value: Any) -> str:
    kind = _text(value)
    if kind not in AGENT_KINDS:
        raise _Expected(f"expected some of {', '.join(AGENT_KINDS)}")
    return kind


def _label(value: Any) -> tuple[str, str]:
    key, equals, text = _text(value).partition("=")
    if not key or not equals or not text:
        raise _Expected("expected labels as key=value")
    return key, text


def _object(value: Any, keys: frozenset[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() - keys:
        raise _Expected(f"expected an object of {', '.join(sorted(keys))}")
    return value


_HOURS = frozenset(("zone", "days", "begin", "end"))


def _hours(value: Any) -> Hours:
    plain = _object(value, _HOURS)
    days = _listed(_number(0, 6))(plain.get("days", [*range(7)]))
    if not days:
        raise _Expected("expected days, 0 for Monday to 6 for Sunday")
    begin, end = _minutes(plain.get("begin")), _minutes(plain.get("end"))
    return Hours(_zone(plain.get("zone", "UTC")), frozenset(days), begin, end)


def _minutes(value: Any) -> int:
    match = re.fullmatch(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00", str(value))
    if match is None:
        raise _Expected("expected times of day as 00:00 to 24:00")
    return 24 * 60 if match[1] is None else 60 * int(match[1]) + int(match[2])


def _zone(value: Any) -> str:
    try:
        return ZoneInfo(_text(value)).key
    except (KeyError, OSError, ValueError):
        raise _Expected("expected a time zone such as Europe/Berlin") from None


def _quiet(value: Any) -> Quiet:
    plain = _object(value, _HOURS | {"exempt"})
    exempt = _text(plain.get("exempt", ""))
    return Quiet(_hours({key: plain[key] for key in plain if key != "exempt"}), exempt)


_STAGE = frozenset(("after_ms", "channels", "rotas"))
_id = _number(1, 2**63 - 1)


def _stage(value: Any) -> Stage:
    plain = _object(value, _STAGE)
    after = _number(0, LONGEST_AFTER_MS, " ms")(plain.get("after_ms", 0))
    stage = Stage(
        after, _listed(_id)(plain.get("channels", [])), _listed(_id)(plain.get("rotas", []))
    )
    if not stage.channels and not stage.rotas:
        raise _Expected("expected a channel or a rota in each stage")
    return stage


def _stages(value: Any) -> tuple[Stage, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_STAGES:
        raise _Expected(f"expected 1 to {MOST_STAGES} stages")
    stages = tuple(_stage(each) for each in value)
    times = [stage.after_ms for stage in stages]
    if times[0] != 0 or any(a >= b for a, b in pairwise(times)):
        raise _Expected("expected the first stage at once, and each later than the one before")
    return stages


_READERS: dict[str, Callable[[Any], Any]] = {
    "scenarios": _scenarios,
    "labels": _listed(_label),
    "states": _listed(_text),
    "at_least": _text,
    "after_ms": _number(0, LONGEST_AFTER_MS, " ms"),
    "hours": _optional(_hours),
    "quiet": _optional(_quiet),
    "group_by": _listed(_text),
    "window_ms": _number(0, LONGEST_WINDOW_MS, " ms"),
    "repeat_ms": _optional(_number(SHORTEST_REPEAT_MS, LONGEST_AFTER_MS, " ms")),
    "stages": _stages,
    "resolved": _flag,
    "incidents": _flag,
    "tasks": _flag,
    "agents": _listed(_agent_kind),
    "budgets": _flag,
    "most": _number(1, MOST_MESSAGES),
    "per_ms": _number(MINUTE_MS, DAY_MS, " ms"),
}
