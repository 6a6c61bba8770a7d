"""docs/configuration.md names every setting and every key of a scenario, with its default."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from config.settings import PREFIX, Settings
from domain.scenario import COLOURS, ICONS, Scenario, load_scenarios

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", DOC, re.MULTILINE))
FIELDS = {PREFIX + name.upper(): field for name, field in Settings.model_fields.items()}


def test_every_setting_is_documented_and_no_other():
    assert {name for name in ROWS if name.startswith(PREFIX)} == set(FIELDS)


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
    assert set(scenario.to_plain()) - {"name"} | {"demo"} == {
        name for name in ROWS if not name.startswith(PREFIX)
    }


@pytest.mark.parametrize("names", [COLOURS, ICONS])
def test_colours_and_icons_are_listed(names):
    assert ", ".join(names) in re.sub(r"\s+", " ", DOC)


def test_the_example_ladder_loads(tmp_path):
    example = re.findall(r"```toml\n(.*?)```", DOC, re.DOTALL)[1]
    states = [{"name": name} for name in ("under-attack", "suspicious", "clear")]
    rule = tomllib.loads(example)["attack"]["rule"]
    Scenario.from_plain({"name": "attack", "states": states, "rule": rule})
