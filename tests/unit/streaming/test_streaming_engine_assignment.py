"""Which engine carries which scenario, and what a move from one to the other means."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from domain.scenario import PythonRule, Scenario
from domain.scenario_parser import load_scenarios
from streaming.fold.assignment import assign_engines, hand_over, most_slots, slots
from streaming.fold.rules import dump_rule
from streaming.state.buckets import Engine, Trigger
from streaming.state.checkpoint import current_epoch
from streaming.state.storage import LocalPath

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def scenarios() -> dict[str, Scenario]:
    """The product's own."""
    return load_scenarios(ROOT / "scenarios.toml")


def in_python(scenarios: dict[str, Scenario], name: str) -> dict[str, Scenario]:
    """The same, one of them with a rule in Python."""
    return {**scenarios, name: replace(scenarios[name], rule=PythonRule("loudest"))}


def test_one_engine_carries_all_where_no_rule_is_in_python(
    scenarios: dict[str, Scenario], tmp_path: LocalPath
) -> None:
    assert assign_engines("kernel", scenarios, tmp_path) == {"kernel": scenarios}
    assert assign_engines("python", scenarios, tmp_path) == {"python": scenarios}


def test_a_rule_in_python_runs_on_the_python_engine(
    scenarios: dict[str, Scenario], tmp_path: LocalPath
) -> None:
    shares = assign_engines("kernel", in_python(scenarios, "orders"), tmp_path)
    assert {engine: set(carries) for engine, carries in shares.items()} == {
        "kernel": {"attack", "clients", "connectivity", "customers"},
        "python": {"orders"},
    }
    assert current_epoch(tmp_path / "kernel").number == 1
    assert current_epoch(tmp_path / "python").number == 1


def test_a_first_epoch_has_one_number_however_late_a_query_starts(
    scenarios: dict[str, Scenario], tmp_path: LocalPath
) -> None:
    assign_engines("kernel", in_python(scenarios, "orders"), tmp_path)
    (tmp_path / "python" / "epoch-1" / "commits").mkdir(parents=True)
    assert current_epoch(tmp_path / "kernel").number == 1


def test_a_scenario_that_moves_begins_in_an_epoch_above_all_others(
    scenarios: dict[str, Scenario], tmp_path: LocalPath
) -> None:
    assign_engines("kernel", scenarios, tmp_path)
    (tmp_path / "kernel" / "epoch-4").mkdir(parents=True)
    assign_engines("kernel", in_python(scenarios, "orders"), tmp_path)
    assert current_epoch(tmp_path / "python").number == 5
    assert current_epoch(tmp_path / "kernel").number == 4
    assign_engines("kernel", in_python(scenarios, "orders"), tmp_path)
    assert current_epoch(tmp_path / "python").number == 5
    assign_engines("kernel", scenarios, tmp_path)
    assert current_epoch(tmp_path / "kernel").number == 6


def test_a_log_with_a_rule_in_python_keeps_its_scenario_on_the_python_engine(
    scenarios: dict[str, Scenario], tmp_path: LocalPath
) -> None:
    rules = tmp_path / "python" / "rules.json"
    rules.parent.mkdir()
    now, before = scenarios["orders"], in_python(scenarios, "orders")["orders"]
    held = [[0, dump_rule(before)], [9, dump_rule(now)]]
    rules.write_text(json.dumps({"orders.reports/0": held}))
    assert set(assign_engines("kernel", scenarios, tmp_path)["python"]) == {"orders"}


def test_a_scenario_whose_log_calls_for_python_is_handed_over(
    scenarios: dict[str, Scenario], tmp_path: LocalPath
) -> None:
    assign_engines("kernel", scenarios, tmp_path)
    hand_over(tmp_path, "orders")
    assert set(assign_engines("kernel", scenarios, tmp_path)["python"]) == {"orders"}
    assert current_epoch(tmp_path / "python").number == 2


def test_real_time_mode_needs_a_slot_for_every_partition(
    scenarios: dict[str, Scenario], tmp_path: LocalPath
) -> None:
    shares = assign_engines("kernel", scenarios, tmp_path)
    assert slots(shares, "real-time") == 4 + 4 + 4 + 2 + 2 + 2
    assert slots(shares, "micro-batch") == 4
    shares = assign_engines("kernel", in_python(scenarios, "orders"), tmp_path)
    assert slots(shares, "real-time") == 4 + 4 + 2 + 2 + 2 + 4


@pytest.mark.parametrize("preferred", ["kernel", "python"])
@pytest.mark.parametrize("trigger", ["real-time", "micro-batch"])
def test_there_is_room_for_every_assignment_before_it_is_known(
    scenarios: dict[str, Scenario], tmp_path: LocalPath, preferred: Engine, trigger: Trigger
) -> None:
    room = most_slots(preferred, scenarios, trigger)
    for name in ("", *scenarios):
        if name:
            hand_over(tmp_path, name)
        assert slots(assign_engines(preferred, scenarios, tmp_path), trigger) <= room
