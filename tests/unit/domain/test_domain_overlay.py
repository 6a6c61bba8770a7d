"""Keys laid over a configured scenario: what may be, what is refused, and the way as text."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain.config_values import MAX_DURATION, duration, duration_text
from domain.overlay import (
    LIVE_KEYS,
    MAX_PARTS,
    MAX_TEXT,
    canonical,
    differing,
    digest,
    overlaid,
    overlay_text,
    read_overlay,
)
from domain.scenario import Latest, Quorum, ScenarioError, Threshold
from domain.scenario_checks import LIFETIME, NO_PURGE
from domain.scenario_parser import load_scenarios, scenario_from_plain

SITES = scenario_from_plain(
    {
        "name": "sites",
        "vote_lifetime": "10m",
        "states": [{"name": "bad"}, {"name": "so so"}, {"name": "good"}],
        "holds": {"good": "5m", "so so": "30s"},
        "weights": {"scrubber-*": 2},
        "rule": {
            "kind": "quorum",
            "ladder": [{"state": "bad", "more_than": "1/2"}, {"state": "good", "at_least": 2}],
        },
    }
)
CHANGES: list[dict[str, Any]] = [
    {},
    {"holds": {"good": "1s"}},
    {"holds": {}},
    {"rule": {"kind": "latest"}},
    {"rule": {"kind": "quorum", "ladder": [{"state": "good", "at_least": 1}], "default": "bad"}},
    {"rule": {"kind": "python", "function": "loudest"}},
    {"vote_lifetime": "20m", "max_report_age": "1h", "electorate": 5, "min_voters": 3},
    {"min_voters": {"lower": 3, "raise": 2}, "forget_after": "1h", "max_report_age": "1h"},
    {"min_voters": {"lower": 3}, "forget_after": "0s"},
    {"forget_after": None},
    {"weights": {'odd "name" \\ é\x7f\n': 3, "*": 0}},
    {"reminders": {"so so": "90s"}, "purge_after": {"good": 86_400_000}},
]


@pytest.mark.parametrize("keys", CHANGES)
def test_an_overlay_goes_to_text_and_back(keys: dict[str, Any]) -> None:
    plain = canonical(SITES, keys)
    assert list(plain) == [key for key in LIVE_KEYS if key in keys]
    assert canonical(SITES, read_overlay(overlay_text(plain))) == plain
    assert overlaid(SITES, plain) == overlaid(SITES, keys)


def test_what_differs_is_the_overlay() -> None:
    wanted = replace(SITES, min_voters=3, rule=Latest(), holds={"good": 1000})
    keys = differing(SITES, wanted)
    assert keys == {"rule": {"kind": "latest"}, "min_voters": 3, "holds": {"good": 1000}}
    assert overlaid(SITES, keys) == wanted
    assert differing(SITES, SITES) == {}


def test_the_text_is_as_a_person_would_write_it() -> None:
    assert overlay_text(canonical(SITES, {"holds": {"so so": "90s"}, "forget_after": None})) == (
        'forget_after = "none"\nholds = { "so so" = "90s" }\n'
    )
    assert overlay_text(differing(replace(SITES, rule=Latest()), SITES)) == (
        '[rule]\nkind = "quorum"\nladder = [\n'
        '    { state = "bad", more_than = "1/2" },\n    { state = "good", at_least = 2 },\n'
        ']\ndefault = "keep"\n'
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("partitions = 8", "sites.partitions: expected one of rule, .* in scenarios.toml"),
        ("states = []", "sites.states: expected one of"),
        ("hold = 1", "sites.hold: expected one of"),
        ('holds = { evil = "1s" }', r"sites.holds.evil: expected one of the scenario's states"),
        ('holds = { good = "soon" }', "sites.holds.good: expected a duration"),
        ("min_voters = 0", "sites.min_voters: expected an integer from 1"),
        ("min_voters = 1979-05-27", "sites.min_voters: expected an integer"),
        ('min_voters = "none"', "sites.min_voters: expected an integer"),
        ("min_voters = { lower = 0 }", "sites.min_voters.lower: expected an integer"),
        ('severity = "none"', "sites.severity: expected one of"),
        ("fold = 1", "sites.fold: expected one of"),
        ('forget_after = "never"', "sites.forget_after: expected a duration"),
        (
            'max_report_age = "31m"',
            'max_report_age: expected at most forget_after, which is "30m"',
        ),
        ('purge_after = { bad = "1d" }', "sites.purge_after: expected only good, the mildest"),
        (
            'vote_lifetime = "none"',
            f"sites.vote_lifetime: expected {re.escape(LIFETIME)}, got None$",
        ),
        (
            'tasks = [{ on = "bad", after = "1m", do = "purge" }]',
            rf"sites.tasks\[0\].do: expected {NO_PURGE}, got 'purge'$",
        ),
        (
            'tasks = [{ on = "so so", after = "1m", do = "set", state = "good" }]',
            r"sites.tasks\[0\].state: expected so so or a worse state, as time alone must not .*$",
        ),
        ("rule = 1", "sites.rule: expected a table"),
        ('rule = { kind = "latest", x = 1 }', "sites.rule.x: expected a known key"),
        ('rule = { kind = "python", function = "os" }', "sites.rule.function: expected a module"),
        ("weights = { a = -1 }", "sites.weights.a: expected an integer"),
        ("holds = [", "expected TOML: "),
        ("a = " + "[" * 9_000, "expected TOML that is less deep|expected TOML: "),
        ("min_voters = " + "9" * 9_000, "expected TOML: "),
        ("x\n" * (MAX_TEXT // 2) + "x", "expected at most 32,768 characters, got 32,769"),
        ("x" + ".x" * MAX_PARTS + " = 1", "expected TOML with keys of at most 128 parts"),
        ("x" + ' . "x"' * MAX_PARTS + " = 1", "expected TOML with keys of at most 128 parts"),
        ("\ud800 = 1", "expected TOML: "),
        ("a = '\0'", "expected TOML: "),
    ],
)
def test_what_cannot_be_laid_over_is_named(text: str, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        overlaid(SITES, read_overlay(text))


@pytest.mark.parametrize(
    "text",
    [
        'tasks = [{ on = "so so", after = "1m", do = "set", state = "bad" }]',
        'tasks = [{ on = "bad", after = "1m", if = "good", do = "set", state = "good" }]',
        'tasks = [{ on_report = "good", after = "1m", do = "set", state = "bad" }]',
    ],
)
def test_a_task_that_makes_no_state_milder_can_be_laid_over(text: str) -> None:
    assert len(overlaid(SITES, read_overlay(text)).tasks) == 1


def test_of_a_life_cycle_votes_without_an_end_and_purges_can_be_laid_over() -> None:
    text = 'vote_lifetime = "none"\ntasks = [{ on = "bad", after = "1m", do = "purge" }]'
    scenario = overlaid(replace(SITES, life_cycle=True), read_overlay(text))
    assert (scenario.vote_lifetime, len(scenario.tasks)) == (None, 1)


def test_a_rule_of_an_earlier_release_takes_no_overlay_without_a_lifetime() -> None:
    endless = replace(SITES, vote_lifetime=None, fold=1)
    with pytest.raises(ScenarioError, match=r"sites\.vote_lifetime: expected a duration"):
        overlaid(endless, {"min_voters": 2})
    assert overlaid(endless, {"vote_lifetime": "10m"}).vote_lifetime == 600_000


def test_a_text_that_is_slow_to_read_is_bounded() -> None:
    parts = ".a" * (MAX_PARTS - 1)
    key = len(parts) + len("0000=1\n")
    text = "".join(f"{n:04}{parts}=1\n" for n in range(MAX_TEXT // key))
    begun = time.process_time()
    with pytest.raises(ScenarioError):
        overlaid(SITES, read_overlay(text))
    assert time.process_time() - begun < 3


def test_a_digest_names_the_file_and_the_overlay() -> None:
    keys = canonical(SITES, {"min_voters": 3})
    same = digest(scenario_from_plain(SITES.to_plain()), dict(keys))
    assert digest(SITES, keys) == same
    others = {digest(SITES, {}), digest(replace(SITES, min_voters=3), {}), same}
    assert len(others) == 3


@pytest.mark.parametrize(
    "ms", [0, 1, 250, 1000, 90_000, 3_600_000, 86_400_000, MAX_DURATION, 61_001]
)
def test_a_duration_is_read_back(ms: int) -> None:
    assert duration(duration_text(ms), "x", zero=True) == ms


def test_every_scenario_of_the_product_can_be_overlaid() -> None:
    for scenario in load_scenarios(Path("scenarios.toml"), demo=True).values():
        whole = {key: scenario.to_plain()[key] for key in LIVE_KEYS}
        assert overlaid(scenario, read_overlay(overlay_text(whole))) == scenario
    assert overlaid(SITES, {"rule": {"kind": "quorum", "ladder": [
        {"state": "good", "at_least": 1}, {"state": "bad", "at_least": "1/3"}]}}).rule == Quorum(
        (Threshold("bad", 1, 3), Threshold("good", 1)))  # fmt: skip
