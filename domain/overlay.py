"""A scenario's overlay: keys changed from the console, applied over scenarios.toml.

Like the `demo` table, an overlay replaces whole keys. It may contain only what a running job can
adopt: topics, partitions and states are changed in the file alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from domain.config_values import PlainError, duration_text
from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import parse_whole

# The keys that an overlay may contain.
LIVE_KEYS = (
    "rule",
    "min_voters",
    "vote_lifetime",
    "forget_after",
    "max_report_age",
    "electorate",
    "holds",
    "reminders",
    "purge_after",
    "weights",
    "tasks",
)
# Keys that may be absent: `"none"` in TOML, which has no null, and None in plain data.
OPTIONAL = ("vote_lifetime", "forget_after", "max_report_age", "electorate")
NONE = "none"
# Longest text of an overlay, in characters.
MAX_TEXT = 32_768
# Largest number of parts in a dotted key: a key with thousands takes the parser seconds.
MAX_PARTS = 128

_DEEP = re.compile(rf"""(?:[ \t]*\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')){{{MAX_PARTS}}}""")
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_DURATIONS = ("vote_lifetime", "forget_after", "max_report_age")
_DURATIONS_BY_STATE = ("holds", "reminders", "purge_after")
_DURATIONS_OF_TASK = ("after", "every")


def overlaid(scenario: Scenario, keys: Mapping[str, Any]) -> Scenario:
    """Return the scenario with these keys replaced. Raises ScenarioError naming the key."""
    for key in keys:
        if key not in LIVE_KEYS:
            expected = f"one of {', '.join(LIVE_KEYS)}; all else is changed in scenarios.toml"
            raise ScenarioError(f"{scenario.name}.{key}: expected {expected}")
    content = {**scenario.to_plain(), **keys}
    del content["name"]
    try:
        return parse_whole(scenario.name, content)
    except PlainError as error:
        raise ScenarioError(str(error)) from None


def differing(configured: Scenario, changed: Scenario) -> dict[str, Any]:
    """Return the keys in which `changed` differs from `configured`, as plain data: its overlay."""
    before, after = configured.to_plain(), changed.to_plain()
    return {key: after[key] for key in LIVE_KEYS if after[key] != before[key]}


def canonical(scenario: Scenario, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys in canonical form: durations in ms, the ladder in order.

    Raises ScenarioError.
    """
    plain = overlaid(scenario, keys).to_plain()
    return {key: plain[key] for key in LIVE_KEYS if key in keys}


def digest(configured: Scenario, keys: Mapping[str, Any]) -> str:
    """Return a digest of a scenario with an overlay: 16 hexadecimal digits.

    A proposal uses it to name the version it is based on.
    """
    text = json.dumps([configured.to_plain(), keys], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---- as text --------------------------------------------------------------------------------


def read_overlay(text: str) -> dict[str, Any]:
    """Return the keys in a TOML text, not yet checked against a scenario.

    Raises ScenarioError.
    """
    if len(text) > MAX_TEXT:
        raise ScenarioError(f"expected at most {MAX_TEXT:,} characters, got {len(text):,}")
    if _DEEP.search(text):
        raise ScenarioError(f"expected TOML with keys of at most {MAX_PARTS} parts")
    try:
        keys = tomllib.loads(text.replace("\r\n", "\n"))
    except RecursionError:
        raise ScenarioError("expected TOML that is less deep") from None
    except ValueError as error:  # also raised for an integer with thousands of digits
        raise ScenarioError(f"expected TOML: {error}") from None
    return {key: None if key in OPTIONAL and v == NONE else v for key, v in keys.items()}


def overlay_text(keys: Mapping[str, Any]) -> str:
    """Return plain keys, as returned by `canonical` or `differing`, as TOML for `read_overlay`."""
    lines = [f"{key} = {_value(key, keys[key])}" for key in LIVE_KEYS[1:] if key in keys]
    if "rule" in keys:
        lines += [""] * bool(lines) + ["[rule]", *_rule_lines(keys["rule"])]
    return "\n".join(lines) + "\n" * bool(lines)


def _rule_lines(rule: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, value in rule.items():
        if key == "ladder":
            thresholds = [f"    {_table(threshold.items())}," for threshold in value]
            lines += ["ladder = [", *thresholds, "]"]
        else:
            lines.append(f"{key} = {_text(value)}")
    return lines


def _value(key: str, value: Any) -> str:
    if value is None:
        return _text(NONE)
    if key in _DURATIONS:
        return _text(duration_text(value))
    if key in _DURATIONS_BY_STATE:
        return _table((state, duration_text(ms)) for state, ms in value.items())
    if key == "tasks":
        return "".join(["[", *(f"\n    {_task(task)}," for task in value), "\n" * bool(value), "]"])
    return _table(value.items()) if isinstance(value, Mapping) else str(value)


def _task(task: Mapping[str, Any]) -> str:
    return _table(
        (key, duration_text(value) if key in _DURATIONS_OF_TASK else value)
        for key, value in task.items()
    )


def _table(items: Iterable[tuple[str, Any]]) -> str:
    inner = ", ".join(
        f"{name if _BARE.match(name) else _text(name)} = "
        f"{_text(value) if isinstance(value, str) else value}"
        for name, value in items
    )
    return f"{{ {inner} }}" if inner else "{}"


def _text(value: str) -> str:
    """Return a TOML string: the same as in JSON, with DEL escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
