"""A rule changed from the console: laid over the file, kept, put into the log, taken back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from domain.overlay import digest
from domain.records import ScenarioChange
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from streaming.fold.assignment import AssignmentRefused, EngineAssignment
from streaming.fold.rules import Book, Rules, dump_rule, fitting, keep
from streaming.requests import handler
from streaming.requests.handler import changed_book, share_of_book
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from support.spark.driver_harness import SCENARIOS, TOPICS, Stage, values
from wire.job import Carried, Control, JobAnswer, Overlay, encode
from wire.source import decode_source

HOLD = {"holds": {"good": "2s"}}


def carried(stage: Stage) -> Carried:
    """Return what the driver told of its scenario last."""
    return [p.carried for p in stage.query_reports() if p.carried][-1]


def rule(
    stage: Stage, id_: str, keys: Any, base: str | None = None, name: str = "sites"
) -> JobAnswer:
    """Ask for an overlay, made from what was told last."""
    base = carried(stage).version if base is None else base
    return stage.ask(id_, "rule", scenario=name, keys=keys, base=base)


def in_the_log(stage: Stage) -> list[Scenario]:
    """The rules of the scenario's topic, of one partition after the other."""
    records = [
        decode_source(None, value, 0) for value in values(stage.bus, TOPICS.reports("sites"))
    ]
    return [record.scenario for record in records if isinstance(record, ScenarioChange)]


def overlay(stage: Stage) -> Overlay:
    path = stage.folder / "overlay" / "sites.json"
    return msgspec.json.decode(path.read_bytes(), type=Overlay)


def test_a_changed_rule_is_kept_and_put_into_the_log(stage: Stage) -> None:
    answer = rule(stage, "1", HOLD)
    assert (answer.outcome, answer.why) == ("done", 'sites: holds = { good = "2s" }')
    assert [each.hold("good") for each in in_the_log(stage)] == [300_000, 2_000] * 2
    assert len(stage.queries) == 1
    kept = overlay(stage)
    assert (kept.keys, kept.user, kept.reason) == ({"holds": {"good": 2_000}}, "ada", "a drill")
    now = carried(stage)
    assert now.overlay == kept
    assert now.offsets.keys() == {0, 1}
    assert (now.configured["holds"], now.rule["holds"]) == ({"good": 300_000}, {"good": 2_000})


def test_a_restart_and_a_reload_keep_it(stage: Stage) -> None:
    rule(stage, "1", HOLD)
    stage.end()
    stage.begin()
    stage.wait_for("running")
    assert len(in_the_log(stage)) == 4
    stage.file.write_text(SCENARIOS + "min_voters = 2\n")
    assert stage.ask("2", "reload").why == "changed: sites"
    assert (in_the_log(stage)[-1].min_voters, in_the_log(stage)[-1].hold("good")) == (2, 2_000)
    stage.file.write_text(SCENARIOS.replace("5m", "2s"))  # what the overlay says anyway
    stage.ask("3", "reload")
    stage.file.write_text(SCENARIOS.replace("5m", "2s").replace("1d", "1h"))
    assert stage.ask("4", "reload").outcome == "done"
    assert carried(stage).configured["vote_lifetime"] == 3_600_000


def test_it_is_taken_back(stage: Stage) -> None:
    rule(stage, "1", {**HOLD, "min_voters": 2})
    assert rule(stage, "2", HOLD).why == "sites: min_voters = 1"
    assert rule(stage, "3", {}).why == 'sites: holds = { good = "5m" }'
    assert in_the_log(stage)[-1] == load_scenarios(stage.file)["sites"]
    stage.end()
    stage.begin()
    stage.wait_for("running")
    assert len(in_the_log(stage)) == 2 * 4


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"partitions": 3}, "sites.partitions: expected one of rule, min_voters"),
        ({"states": []}, "sites.states: expected one of"),
        ({"holds": {"evil": "1s"}}, "sites.holds.evil: expected one of the scenario's states"),
        ({"rule": {"kind": "python", "function": "os"}}, "sites.rule.function: expected a module"),
        ({"rule": {"kind": "python", "function": "loudest"}}, "sites goes to the python engine: "),
        ({"weights": {f"{n:0>9000}": 1 for n in range(8)}}, "at most 65,536 bytes and 300"),
        ([], "parameters: Expected `object`, got `array` - at `$.keys`"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(stage: Stage, keys: Any, why: str) -> None:
    answer = rule(stage, "1", keys)
    assert answer.outcome == "refused"
    assert why in answer.why
    assert len(in_the_log(stage)) == 2
    assert not (stage.folder / "overlay").exists()
    assert rule(stage, "2", HOLD).outcome == "done"


def test_of_two_who_change_it_at_once_the_second_is_told(stage: Stage) -> None:
    base = carried(stage).version
    assert rule(stage, "1", HOLD, base).outcome == "done"
    answer = rule(stage, "2", {"min_voters": 2}, base)
    assert (answer.outcome, answer.why[:33]) == ("refused", "sites: another change came betwee")
    assert rule(stage, "3", {}, "", "gates").why == "scenario: expected one of sites, got 'gates'"


def test_an_overlay_that_no_longer_fits_is_named_and_stops_nothing(stage: Stage) -> None:
    rule(stage, "1", HOLD)
    gone = SCENARIOS.replace("good", "fine")
    stage.file.write_text(gone)
    answer = stage.ask("2", "reload")
    assert answer.outcome == "done"
    assert "the overlay does not fit scenarios.toml: sites.holds.good: expected one" in answer.why
    assert in_the_log(stage)[-1] == load_scenarios(stage.file)["sites"]
    stage.end()
    stage.begin()
    stage.wait_for("running")
    running = [p for p in stage.query_reports() if p.status == "running" and p.message]
    assert (
        "sites.holds.good: expected one of the scenario's states (bad, fine)" in running[-1].message
    )
    assert "sites.holds.good" in carried(stage).problem
    assert rule(stage, "3", {}).outcome == "done"
    assert carried(stage).problem == ""


def test_while_stopped_it_is_in_force_after_the_start(stage: Stage) -> None:
    stage.ask("1", "stop")
    assert rule(stage, "2", HOLD).why.endswith("; in force once it is started")
    assert carried(stage).offsets == {}
    assert len(in_the_log(stage)) == 2
    stage.ask("3", "start")
    assert len(in_the_log(stage)) == 4
    assert carried(stage).offsets.keys() == {0, 1}


def test_a_driver_that_dies_before_the_file_is_written_is_followed_by_one_that_writes_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    died(stage, monkeypatch, "keep")
    assert not (stage.folder / "overlay").exists()
    assert_the_next_one_goes_on(stage, monkeypatch)


def test_a_driver_that_dies_before_the_log_has_it_is_followed_by_one_that_appends_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    died(stage, monkeypatch, "keep", keep)
    assert overlay(stage).id == "1"
    assert_the_next_one_goes_on(stage, monkeypatch)


class Died(BaseException):
    """The process is gone; no handler sees it."""


def died(stage: Stage, monkeypatch: pytest.MonkeyPatch, at: str, first: Any = None) -> None:
    """Ask for a rule, of which the driver dies at this step, or right after it."""

    def die(*args: Any) -> None:
        if first is not None:
            first(*args)
        raise Died

    monkeypatch.setattr(handler, at, die)
    parameters = {"scenario": "sites", "keys": HOLD, "base": carried(stage).version}
    ask = Control("1", "kernel", "rule", "ada", "a drill", parameters)
    monkeypatch.setattr("threading.excepthook", lambda _args: None)
    stage.bus.producer().send_and_wait(TOPICS.control, b"kernel", encode(ask))
    stage.thread.join(20)
    assert not stage.thread.is_alive()
    assert len(in_the_log(stage)) == 2
    for query in stage.queries:
        query.stop()


def assert_the_next_one_goes_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "keep", keep)
    stage.begin()
    assert stage.answer("1").outcome == "done"
    assert [each.hold("good") for each in in_the_log(stage)] == [300_000, 2_000] * 2
    assert overlay(stage).keys == {"holds": {"good": 2_000}}


def test_an_overlay_that_cannot_be_read_stops_nothing(stage: Stage) -> None:
    rule(stage, "1", HOLD)
    (stage.folder / "overlay" / "sites.json").write_text("{")
    stage.end()
    stage.begin()
    wait_until(lambda: "cannot be read" in carried(stage).problem, 20, "it is not told")
    assert in_the_log(stage)[-1].hold("good") == 300_000


def test_a_folder_that_cannot_be_written_is_told(stage: Stage) -> None:
    (stage.folder / "overlay").touch()
    answer = rule(stage, "1", HOLD)
    assert (answer.outcome, answer.why[:30]) == ("refused", "the overlay cannot be written:")
    assert len(in_the_log(stage)) == 2


def test_a_lost_broker_delays_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Rules.settle
    calls: list[int] = []

    def fails_once(rules: Any, scenarios: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("gone")
        return real(rules, scenarios)

    monkeypatch.setattr(Rules, "settle", fails_once)
    assert rule(stage, "1", HOLD).outcome == "done"
    assert len(in_the_log(stage)) == 4
    wait_until(lambda: len(stage.queries) == 2, 20, "the query is not started again")


# ---- without a driver -----------------------------------------------------------------------


def test_a_version_names_file_and_overlay(tmp_path: LocalPath) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIOS)
    configured = load_scenarios(file)
    book = Book(configured, rules=configured)
    assert book.version("sites") == digest(configured["sites"], {})
    again = book.changed("sites", Overlay({"min_voters": 2}))
    assert again.version("sites") != book.version("sites")
    assert fitting(configured["sites"], Overlay({"min_voters": 2})) == again.rules["sites"]


@pytest.mark.parametrize("parameters", [{}, {"scenario": 1}, {"scenario": "sites", "keys": 1}])
def test_parameters_that_are_none_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(AssignmentRefused, match="parameters: "):
        changed_book(Book({}), {}, Control("1", "kernel", "rule", parameters=parameters), 0)


def test_a_scenario_of_the_python_engine_takes_any_rule(tmp_path: LocalPath) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIOS.replace('"latest"', '"python", function = "loudest"'))
    configured = load_scenarios(file)
    book = Book(configured, rules=configured)
    in_its_log = {"sites.reports/0": [[0, dump_rule(configured["sites"])]]}
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "rules.json").write_text(json.dumps(in_its_log))
    sharing = EngineAssignment("kernel", "real-time", tmp_path, {"python": configured}, None)
    for rule in ({"kind": "latest"}, {"kind": "python", "function": "loudest"}):
        book = book.changed("sites", Overlay({"rule": rule}))
        assert share_of_book(sharing, "python", book) == book.rules
