"""Rules written in Python: looked up by name in rules/, asked for a state, never fatal."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rules
from dashboard.board.assets.explanation import rest_text
from domain import python_rules
from domain.fold import Bucket
from domain.records import Record, Report, ScenarioChange, StateRecord, Tick, Vote
from domain.scenario import Latest, PythonRule, Scenario, ScenarioError
from domain.scenario_parser import scenario_from_plain
from domain.tally import tally
from rules import loudest
from support.histories.histories import Entry, play, seeded
from support.run.selection import examples

ROOT = Path(__file__).parents[3]

Write = Callable[[str, str], None]


def watching(rule: str, **more: Any) -> Scenario:
    """A scenario with the states down, slow and up, and this rule in Python."""
    states = [{"name": name} for name in ("down", "slow", "up")]
    python = {"kind": "python", "function": rule}
    return scenario_from_plain({"name": "net", "states": states, "rule": python, **more})


def votes_of(*claims: tuple[str, int]) -> tuple[Vote, ...]:
    """A vote for each (state, weight), each later in the log than the one before it."""
    return tuple(
        Vote(f"a{at}", state, at, at, offset=at, expires=None, weight=weight)
        for at, (state, weight) in enumerate(claims)
    )


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes the module of a rule, as if it stood in rules/."""
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    monkeypatch.setattr(python_rules, "_logged", set())
    written = set()

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        written.add(name)

    yield write
    for name in written:
        sys.modules.pop(f"rules.{name}", None)
        vars(rules).pop(name, None)


def returning(what: str) -> str:
    """The text of a rule that returns the expression `what`."""
    return f"def tally(votes, current):\n    return {what}\n"


# ---- loudest -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "state"),
    [
        ([("up", 1)], "up"),
        ([("down", 1), ("down", 1), ("up", 1)], "down"),
        ([("down", 1), ("down", 1), ("up", 3)], "up"),
        ([("down", 2), ("up", 1), ("up", 1)], "up"),
        ([("up", 1), ("down", 2), ("up", 1)], "up"),
        ([("up", 1), ("down", 1)], "down"),
        ([("up", 0), ("down", 0)], "down"),
    ],
)
def test_loudest(claims, state):
    assert loudest.tally(votes_of(*claims), None) == state


claims = st.lists(
    st.tuples(st.sampled_from(("down", "slow", "up")), st.integers(0, 3)), min_size=1, max_size=6
)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(claims, st.randoms(use_true_random=False))
def test_loudest_is_some_votes_state_in_whatever_order_they_come(claims, rng):
    votes = votes_of(*claims)
    mixed = tuple(rng.sample(votes, len(votes)))
    state = loudest.tally(votes, None)
    assert loudest.tally(mixed, "down") == state
    assert state in {vote.state for vote in votes}


# ---- the fold ------------------------------------------------------------------------------


class Log:
    """A bucket's log as it grows; the only asset is x."""

    def __init__(self, scenario: Scenario) -> None:
        self.bucket = Bucket(scenario, partition=0, epoch=1)
        self._offsets = itertools.count()

    def add(self, record: Record, at: int = 0) -> list[Any]:
        return self.bucket.apply(record, next(self._offsets), at)

    def state(self, agent: str, state: str) -> str | None:
        """The state of x after this report."""
        self.add(Report("x", agent, state))
        return self.bucket.assets["x"].shown


def test_the_fold_with_loudest():
    log = Log(watching("loudest", weights={"big": 3}))
    assert log.state("a1", "down") == "down"
    assert log.state("a2", "up") == "up"
    assert log.state("a3", "down") == "down"
    assert log.state("big", "slow") == "slow"
    assert log.state("a2", "down") == "down"


def test_holds_expiry_and_voters_are_as_with_any_rule():
    more = {"holds": {"up": 500}, "vote_lifetime": 1000, "min_voters": 2}
    log = Log(watching("loudest", weights={"a1": 2}, **more))
    assert [log.state("a1", "down"), log.state("a2", "up")] == ["down", "down"]
    log.add(Report("x", "a1", "up"), 100)
    [held] = log.add(Tick(), 700)
    assert (held.state, held.cause.type, held.cause.time) == ("up", "hold", 600)
    lost = log.add(Tick(), 1000)[0]
    assert (lost.state, lost.unconfirmed) == ("up", True)


def test_a_rule_in_python_takes_over_at_its_place_in_the_log():
    log = Log(replace(watching("loudest"), rule=Latest()))
    assert [log.state(agent, "up") for agent in ("a1", "a2")] == ["up", "up"]
    assert log.state("a3", "down") == "down"
    [record] = log.add(ScenarioChange(watching("loudest")))
    assert isinstance(record, StateRecord)
    assert (record.state, record.cause.type) == ("up", "scenario")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.spread(10)
def test_a_rule_that_says_what_latest_says_makes_the_same_board(seed, rule):
    rule("newest", returning("max(votes, key=lambda vote: (vote.order, vote.offset)).state"))
    history = seeded(seed)

    def spelt_out(scenario: Scenario) -> Scenario:
        is_latest = isinstance(scenario.rule, Latest)
        return replace(scenario, rule=PythonRule("newest")) if is_latest else scenario

    def change(entry: Entry) -> Entry:
        record = entry.record
        if isinstance(record, ScenarioChange):
            return entry._replace(record=ScenarioChange(spelt_out(record.scenario)))
        return entry

    python = Bucket(spelt_out(history.scenario), history.partition, 1)
    assert play(python, map(change, history.entries)) == play(history.bucket(), history.entries)


def test_a_function_is_given_the_votes_by_agent_and_the_state_so_far(rule):
    rule("said", "asked = []\n\ndef tally(*given):\n    asked.append(given)\n    return 'up'\n")
    scenario = watching("said")
    votes = votes_of(("down", 1), ("up", 2))
    tally(scenario, votes[::-1], None)
    tally(scenario, votes, "slow")
    assert sys.modules["rules.said"].asked == [(votes, None), (votes, "slow")]


def test_to_lower_a_state_it_is_asked_once_more_with_the_silent_votes_that_are_worse(rule):
    """They are marked, so that a function may make less of them."""
    rule("said", "asked = []\n\ndef tally(votes, current):\n    asked.append(votes)\n"
         "    return min(vote.state for vote in votes)\n")  # fmt: skip
    log = Log(watching("said", vote_lifetime=1000))
    log.add(Report("x", "a1", "down"))
    log.add(Report("x", "a2", "slow"), 500)
    log.add(Tick(), 1000)
    asked = sys.modules["rules.said"].asked
    asked.clear()
    log.add(Report("x", "a3", "up"), 1200)
    calls = {tuple((vote.agent, vote.silent) for vote in votes) for votes in asked}
    assert calls == {
        (("a2", None), ("a3", None)),
        (("a1", 1000), ("a2", None), ("a3", None)),
    }
    assert log.bucket.assets["x"].shown == "down"


def test_the_panel_says_that_a_function_decides():
    assert rest_text(watching("loudest")) == "The function loudest decides, in Python."


# ---- python_rules that fail -------------------------------------------------------------------

ODD_TEXT = """
class Odd(str):
    def __eq__(self, other):
        raise RuntimeError
    __hash__ = str.__hash__
    def __str__(self):
        return "down"

def tally(votes, current):
    return Odd("up")
"""

FAILING = [
    (returning("votes[9].state"), "raised IndexError"),
    (returning("tally(votes, current)"), "raised RecursionError"),
    ("def tally(votes):\n    return 'up'\n", "raised TypeError"),
    ("class Own(Exception):\n    pass\ndef tally(*_):\n    raise Own\n", "raised Own"),
    (returning("None"), "returned NoneType instead of a state's name"),
    (returning("5"), "returned int instead of a state's name"),
    (returning("b'up'"), "returned bytes instead of a state's name"),
    (returning("'odd'"), "returned a state that the scenario does not know"),
    (returning("''"), "returned a state that the scenario does not know"),
    (returning("'keep'"), "returned a state that the scenario does not know"),
    (returning(r"'\ud800'"), "raised UnicodeEncodeError"),
]


@pytest.mark.parametrize(("text", "what"), FAILING)
def test_a_function_that_fails_leaves_the_state_as_it_is(rule, caplog, text, what):
    rule("failing", text)
    """On a new asset, which has none, the worst vote decides."""
    scenario, votes = watching("failing"), votes_of(("down", 5), ("up", 1))
    assert tally(scenario, votes, "slow") == "slow"
    assert tally(scenario, votes[::-1], None) == "down"
    assert [r.getMessage() for r in caplog.records] == [f"rule failing {what} (logged once)"]


@pytest.mark.parametrize("state", [r"'\ud800'", r"'a\nb'", "'x' * 65"])
def test_what_no_record_can_hold_is_no_state_of_an_open_vocabulary(rule, state):
    rule("failing", returning(state))
    scenario = watching("failing", vocabulary="open")
    assert tally(scenario, votes_of(("down", 1)), "up") == "up"


def test_an_open_vocabulary_takes_what_the_function_makes_up(rule):
    rule("inventive", returning("'parked'"))
    log = Log(watching("inventive", vocabulary="open"))
    assert log.state("a1", "up") == "parked"


def test_the_fold_goes_on_where_a_function_fails_now_and_then(rule):
    rule("moody", returning("{'down': 'down', 'up': 'up'}[votes[-1].state]"))
    log = Log(watching("moody"))
    said = [log.state("a1", state) for state in ("slow", "down", "slow", "up")]
    assert said == ["slow", "down", "down", "up"]


def test_a_text_of_a_class_of_its_own_becomes_a_plain_one(rule):
    rule("odd_text", ODD_TEXT)
    state = tally(watching("odd_text"), votes_of(("down", 1)), None)
    assert (state, type(state)) == ("up", str)


def test_a_failure_is_logged_once_for_each_function_and_kind(rule, caplog):
    rule("one", returning("{'a0': 5, 'a1': 1 / 0}[votes[0].agent]"))
    rule("two", returning("{'up': 5, 'down': {}[0]}[current]"))
    for name, current in itertools.product(("one", "two") * 3, ("up", "down")):
        tally(watching(name), votes_of(("slow", 1)), current)
    assert len(caplog.records) == 2
    assert {r.levelno for r in caplog.records} == {logging.WARNING}
    assert all(r.exc_info for r in caplog.records)


def test_no_more_than_so_many_failures_are_logged(rule, caplog):
    rule("ever_new", "def tally(votes, current):\n    raise type(current, (Exception,), {})\n")
    scenario = watching("ever_new", vocabulary="open")
    for at in range(python_rules.MAX_LOGGED + 20):
        assert tally(scenario, votes_of(("up", 1)), f"S{at}") == f"S{at}"
    assert len(caplog.records) == python_rules.MAX_LOGGED


def test_a_function_that_is_not_there_any_more_leaves_the_state_as_it_is(rule, caplog):
    scenario = replace(watching("loudest"), rule=PythonRule("gone"))
    assert tally(scenario, votes_of(("down", 1)), "up") == "up"
    assert tally(scenario, votes_of(("down", 1)), None) == "down"
    assert len(caplog.records) == 1


# ---- looking it up -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "log"),
    [
        ("tally = 5\n", None),
        ("def tell(votes, current):\n    return current\n", None),
        ("def tally(:\n", "rule broken cannot be imported: SyntaxError (logged once)"),
        ("import nowhere_at_all\n", "rule broken cannot be imported: ModuleNotFoundError"),
        ("1 / 0\n", "rule broken cannot be imported: ZeroDivisionError (logged once)"),
    ],
)
def test_a_module_without_the_function_is_refused(rule, caplog, text, log):
    rule("broken", text)
    for _ in range(2):
        with pytest.raises(ScenarioError, match=r"function: expected a module of rules/.*'broken'"):
            watching("broken")
    assert [r.getMessage().startswith(log or "-") for r in caplog.records] == [True] * bool(log)


@pytest.mark.parametrize("name", ["os", "sys", "loudest.os", "..os", "domain", "", None, 5, []])
def test_nothing_outside_the_package_can_be_named(name):
    assert python_rules.rule_function(name) is None


def test_a_rule_is_imported_when_a_scenario_names_it_and_not_before():
    script = (
        "import sys, domain.fold, domain.python_rules as f;"
        "before = [name for name in sys.modules if name.partition('.')[0] == 'rules'];"
        "print(before, f.rule_function('loudest').__module__)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["[]", "rules.loudest"]
