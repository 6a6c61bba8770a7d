"""docs/configuration.md names every setting and every key of a scenario, with its default."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from config.settings import PREFIX, SECRETS, Settings
from domain.records import Vote
from domain.scenario import COLOURS, ICONS, Latest, PythonRule
from domain.scenario_parser import load_scenarios, scenario_from_plain

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
LISTED = re.compile(r"^- `(\w+)`(?: \((.*?)\))?: ", re.MULTILINE | re.DOTALL)
ROWS = {name: " ".join(default.split()) for name, default in LISTED.findall(DOC)}
"""The default of each setting and key, empty where it has none."""
FIELDS = {PREFIX + name.upper(): field for name, field in Settings.model_fields.items()}


def example(language: str, at: int) -> str:
    """The document's example number `at` in this language."""
    examples: list[str] = re.findall(rf"```{language}\n(.*?)```", DOC, re.DOTALL)
    return examples[at]


def test_every_setting_is_documented_and_no_other():
    assert {name for name in ROWS if name.startswith(PREFIX)} == set(FIELDS)


def test_every_secret_that_can_be_in_a_file_is_documented_and_no_other():
    listed = DOC.partition("## Secrets in files")[2].partition("White space")[0]
    assert {name.lower() for name in re.findall(r"`([A-Z_]{2,})`", listed)} - {"_file"} == set(
        SECRETS
    )


@pytest.mark.parametrize("name", [n for n, f in FIELDS.items() if not callable(f.default)])
def test_a_documented_default_is_the_default(name):
    shown = re.fullmatch(r"`(.*)`", ROWS[name])
    default = FIELDS[name].default
    if shown:
        assert str(int(default) if isinstance(default, bool) else default) == shown[1]
    else:
        assert default in (None, "")


def test_every_key_of_a_scenario_is_documented():
    scenario = next(iter(load_scenarios(ROOT / "scenarios.toml").values()))
    assert set(scenario.to_plain()) - {"name", "fold"} | {"demo", "depends_on"} | OF_A_TASK == {
        name for name in ROWS if not name.startswith(PREFIX)
    }


OF_A_TASK = {"on", "on_report", "after", "every", "times", "if", "do", "state"}
"""The keys of one of a scenario's tasks."""


@pytest.mark.parametrize("names", [COLOURS, ICONS])
def test_colours_and_icons_are_listed(names):
    assert ", ".join(names) in re.sub(r"\s+", " ", DOC)


@pytest.mark.parametrize(("at", "rule"), [(0, Latest()), (2, PythonRule("loudest"))])
def test_the_example_rules_load(at, rule):
    plain = {"name": "net", "states": [{"name": "up"}], **tomllib.loads(example("toml", at))}
    assert scenario_from_plain(plain).rule == rule


def test_the_example_in_python_is_the_module_whole():
    assert example("python", 0) == (ROOT / "rules" / "loudest.py").read_text(encoding="utf-8")


def test_what_a_vote_has_is_listed():
    [listed] = re.findall(r"Each has (.*?)\n- ", DOC, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", listed)) == {field.name for field in fields(Vote)}


def test_the_example_ladder_loads():
    states = [{"name": name} for name in ("under-attack", "suspicious", "clear")]
    rule = tomllib.loads(example("toml", 1))["attack"]["rule"]
    scenario_from_plain({"name": "attack", "states": states, "rule": rule})
