"""Scenarios are data, checked on load with an error that names file, key and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from dashboard.core.states import queries
from dashboard.core.states.filter_terms import KEYS
from domain.python_rules import EXPECTED
from domain.scenario import FOLD, Latest, PythonRule, Quorum, Scenario, ScenarioError, Threshold
from domain.scenario_parser import (
    GRACE_MS,
    RESERVED,
    DependsOn,
    load_dependencies,
    load_scenarios,
    scenario_from_plain,
)
from support.histories.histories import scenarios
from support.run.selection import examples

SHIPPED = Path(__file__).parents[3] / "scenarios.toml"

BARE = """
[net]
states = [{ name = "down" }, { name = "up" }]
rule = { kind = "latest" }
"""
GOOD = BARE + 'vote_lifetime = "10m"\n'

LATEST = 'kind = "latest"'
QUORUM = """
[net]
vote_lifetime = "10m"
states = [{ name = "down" }, { name = "up" }]
rule = { kind = "quorum", ladder = [%s], default = "up" }
"""


MIDDLE = """
[net]
vote_lifetime = "10m"
states = [{ name = "down" }, { name = "slow" }, { name = "up" }]
[net.rule]
kind = "quorum"
ladder = [{ state = "%s", at_least = 2 }, { state = "up", at_least = 2 }]
default = "%s"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "some.toml"
    path.write_text(text, encoding="utf-8")
    return path


def load(tmp_path: Path, text: str, demo: bool = False) -> Scenario:
    [scenario] = load_scenarios(written(tmp_path, text), demo).values()
    return scenario


# ---- what is read --------------------------------------------------------------------------


@pytest.mark.parametrize("demo", [False, True])
def test_the_shipped_scenarios_are_read(demo):
    shipped = ["attack", "connectivity", "orders", "clients", "customers"]
    assert list(load_scenarios(SHIPPED, demo)) == shipped


def test_the_shipped_scenarios_are_what_the_product_promises():
    """Attack at once and all-clear after a hold; latest with a five-minute hold; orders purged."""
    shipped = load_scenarios(SHIPPED)
    attack, net, orders = (shipped[name] for name in ("attack", "connectivity", "orders"))
    assert (attack.hold("under-attack"), attack.hold("clear")) == (0, 300_000)
    assert isinstance(attack.rule, Quorum)
    assert attack.rule.ladder[0] == Threshold("under-attack", 1, 2, strict=True)
    assert (net.rule, net.hold("down"), net.reminder("down")) == (Latest(), 300_000, 600_000)
    assert (orders.open_vocabulary, orders.purge_delay("delivered")) == (True, 86_400_000)


def test_of_clients_one_agent_is_enough():
    rule = load_scenarios(SHIPPED)["clients"].rule
    assert isinstance(rule, Quorum)
    states = ("challenge", "verified", "quiet")
    assert rule.ladder == tuple(Threshold(state, 1) for state in states)


def test_the_demo_overlay_replaces_whole_keys_and_only_in_the_demo(tmp_path):
    text = GOOD + 'holds = { down = "5m", up = "1m" }\n[net.demo]\nholds = { down = "10s" }\n'
    assert load(tmp_path, text).holds == {"down": 300_000, "up": 60_000}
    assert load(tmp_path, text, demo=True).holds == {"down": 10_000}


def test_what_is_left_out_has_a_default(tmp_path):
    net = load(tmp_path, GOOD)
    assert (net.title, net.noun, net.partitions, net.min_voters) == ("Net", "asset", 4, 1)
    assert (net.max_report_age, net.electorate) == (None, None)
    assert (net.hold("up"), net.reminder("up"), net.purge_delay("up")) == (0, None, None)
    assert (net.spec("up").label, net.spec("up").colour) == ("up", "grey")


@pytest.mark.parametrize(
    ("text", "ms"),
    [('"250ms"', 250), ('"30s"', 30_000), ('"5m"', 300_000), ('"1h"', 3_600_000), ("17", 17)],
)
def test_durations(tmp_path, text, ms):
    assert load(tmp_path, BARE + f"vote_lifetime = {text}\n").vote_lifetime == ms


def test_a_hold_may_be_zero(tmp_path):
    assert load(tmp_path, GOOD + 'holds = { down = "0s" }\n').hold("down") == 0


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        ('{ state = "up", at_least = 3 }', Threshold("up", 3)),
        ('{ state = "up", at_least = "1/2" }', Threshold("up", 1, 2)),
        ('{ state = "up", more_than = "0/1" }', Threshold("up", 0, 1, strict=True)),
    ],
)
def test_thresholds(tmp_path, threshold, expected):
    assert load(tmp_path, QUORUM % threshold).rule == Quorum((expected,), "up")


def test_the_ladder_is_put_in_order_of_severity(tmp_path):
    thresholds = '{ state = "up", at_least = 1 }, { state = "down", at_least = 2 }'
    rule = load(tmp_path, QUORUM % thresholds).rule
    assert isinstance(rule, Quorum)
    assert [threshold.state for threshold in rule.ladder] == ["down", "up"]


@pytest.mark.parametrize(
    ("threshold", "default"), [("slow", "slow"), ("slow", "up"), ("slow", "keep"), ("down", "down")]
)
def test_only_the_mildest_states_threshold_is_milder_than_the_default(tmp_path, threshold, default):
    """Two votes for down would make slow, where nobody says so, in place of down."""
    rule = load(tmp_path, MIDDLE % (threshold, default)).rule
    assert isinstance(rule, Quorum)
    assert rule.default == default


def test_a_rule_in_python_is_a_name(tmp_path):
    scenario = load(tmp_path, GOOD.replace(LATEST, 'kind = "python", function = "loudest"'))
    assert scenario.rule == PythonRule("loudest")
    assert scenario.to_plain()["rule"] == {"kind": "python", "function": "loudest"}
    assert scenario_from_plain(scenario.to_plain()) == scenario


def test_states_outside_the_vocabulary(tmp_path):
    closed, open_ = load(tmp_path, GOOD), load(tmp_path, GOOD + 'vocabulary = "open"\n')
    assert (closed.knows("odd"), open_.knows("odd"), open_.knows("\n")) == (False, True, False)
    assert open_.severity("odd") == 2
    assert (open_.spec("odd").label, open_.spec("odd").colour) == ("odd", "grey")


def test_an_unknown_state_of_a_closed_vocabulary_is_worse_than_all_others(tmp_path):
    """A change of rule may leave one behind, and nobody knows what it meant."""
    assert load(tmp_path, GOOD).severity("odd") == -1


@pytest.mark.parametrize(
    ("key", "life_cycle"),
    [
        ("", False),
        ('severity = "order"', False),
        ('severity = "none"', True),
        ('vocabulary = "open"', True),
        ('vocabulary = "open"\nseverity = "none"', True),
    ],
)
def test_a_life_cycle_says_that_its_states_have_no_severity(tmp_path, key, life_cycle):
    scenario = load(tmp_path, f"{GOOD}{key}\n")
    assert scenario.life_cycle is life_cycle
    assert scenario.to_plain()["severity"] == ("none" if life_cycle else "order")


@pytest.mark.parametrize(
    ("voters", "lower", "raising", "plain"),
    [
        ("", 1, 1, 1),
        ("min_voters = 3", 3, 1, 3),
        ("min_voters = { lower = 3, raise = 2 }", 3, 2, {"lower": 3, "raise": 2}),
        ("min_voters = { lower = 3 }", 3, 1, 3),
        ("min_voters = { raise = 2 }", 1, 2, {"lower": 1, "raise": 2}),
        ("min_voters = {}", 1, 1, 1),
    ],
)
def test_min_voters_are_for_lowering_or_for_both(tmp_path, voters, lower, raising, plain):
    scenario = load(tmp_path, f"{GOOD}{voters}\n")
    assert (scenario.min_voters, scenario.raise_voters) == (lower, raising)
    assert scenario.to_plain()["min_voters"] == plain


@pytest.mark.parametrize(
    ("keys", "delay"),
    [
        ('vote_lifetime = "10s"', 900_000),
        ('vote_lifetime = "10m"', 1_800_000),
        ('vote_lifetime = "10m"\nforget_after = "10s"', 10_000),
        ('vote_lifetime = "10m"\nforget_after = "0s"', None),
        ('vote_lifetime = "10m"\nseverity = "none"', None),
        ('vote_lifetime = "10m"\nforget_after = "10s"\nseverity = "none"', None),
    ],
)
def test_silent_votes_are_kept_for_three_lifetimes_and_at_least_15_minutes(tmp_path, keys, delay):
    assert load(tmp_path, f"{BARE}{keys}\n").forget_delay == delay


@pytest.mark.parametrize(
    ("keys", "limit"),
    [
        ('severity = "none"', None),
        ('severity = "none"\nmax_report_age = "1d"', 86_400_000),
        ('vote_lifetime = "10m"', 1_800_000),
        ('vote_lifetime = "10m"\nmax_report_age = "5s"', 5_000),
        ('vote_lifetime = "10m"\nforget_after = "1h"\nmax_report_age = "1h"', 3_600_000),
        ('vote_lifetime = "10m"\nforget_after = "0s"\nmax_report_age = "1h"', 3_600_000),
        ('vote_lifetime = "10m"\nforget_after = "0s"', None),
        ('vote_lifetime = "10m"\nseverity = "none"\nmax_report_age = "1d"', 86_400_000),
    ],
)
def test_a_report_is_looked_at_for_as_long_as_a_silent_vote_is_kept(tmp_path, keys, limit):
    assert load(tmp_path, f"{BARE}{keys}\n").report_age_limit == limit


def test_a_life_cycle_may_purge_itself_in_any_state(tmp_path):
    keys = 'severity = "none"\npurge_after = { down = "1d" }\n'
    assert load(tmp_path, GOOD + keys).purge_delay("down") == 86_400_000


def test_a_file_is_of_this_fold_and_a_record_that_names_none_of_the_first(tmp_path):
    scenario = load(tmp_path, GOOD)
    plain = scenario.to_plain()
    assert (scenario.fold, plain.pop("fold")) == (FOLD, FOLD)
    assert scenario_from_plain(plain).fold == 1


def test_what_a_file_may_not_say_a_record_of_an_earlier_release_does(tmp_path):
    """The log is read as it stands."""
    plain = load(tmp_path, GOOD).to_plain()
    plain |= {"purge_after": {"down": 5}, "vote_lifetime": 1000, "max_report_age": 86_400_000}
    scenario = scenario_from_plain(plain)
    assert (scenario.purge_delay("down"), scenario.report_age_limit) == (5, 900_000)


def test_a_record_without_a_lifetime_and_with_any_task_is_read(tmp_path):
    plain = load(tmp_path, GOOD).to_plain()
    purges = {"on": "down", "after": 60_000, "do": "purge"}
    lowers = {"on": "down", "after": 60_000, "do": "set", "state": "up"}
    plain |= {"vote_lifetime": None, "tasks": [purges, lowers]}
    scenario = scenario_from_plain(plain)
    assert scenario.vote_lifetime is None
    assert [task.plain() for task in scenario.tasks] == [purges, lowers]


# ---- what time may do ----------------------------------------------------------------------

LEVELS = """
[net]
vote_lifetime = "10m"
states = [{ name = "down" }, { name = "slow" }, { name = "up" }]
rule = { kind = "latest" }
"""
PURGE = '{ on = "up", after = "30m", do = "purge" }'
EMIT = '{ on = "up", after = "30m", do = "emit" }'
SETS = '{ %s, after = "30m", do = "set", state = "%s" }'
NO_PURGE = (
    "no purge, as time alone would remove a red row: "
    "use purge_after for the mildest state, or schedule a purge by hand"
)
MILDER = "as time alone must not make a state milder: pin it by hand"
NO_END = (
    'a duration such as "10m": with severity a vote without an end would confirm a green for ever'
)


@pytest.mark.parametrize(
    ("begins", "state"),
    [
        ('on = "slow"', "slow"),
        ('on = "slow"', "down"),
        ('on = "up"', "up"),
        ('on = "down", if = "slow"', "slow"),
        ('on = "slow", if = "up"', "up"),
        ('on_report = "up"', "down"),
        ('on_report = "down", if = "slow"', "slow"),
        ('on_report = "down", if = "up"', "up"),
    ],
)
def test_a_task_sets_a_state_as_bad_as_the_one_it_runs_in_or_worse(tmp_path, begins, state):
    [task] = load(tmp_path, f"{LEVELS}tasks = [{SETS % (begins, state)}]\n").tasks
    assert task.state == state


@pytest.mark.parametrize("do", ["emit", "notify", "release"])
def test_a_task_that_hides_nothing_runs_in_any_state(tmp_path, do):
    text = f'{LEVELS}tasks = [{{ on = "down", after = "5m", do = "{do}" }}]\n'
    assert load(tmp_path, text).tasks[0].do == do


@pytest.mark.parametrize("key", ['severity = "none"', 'vocabulary = "open"'])
@pytest.mark.parametrize("task", [PURGE, SETS % ('on = "down"', "up")])
def test_a_life_cycle_has_any_task_and_votes_without_an_end(tmp_path, key, task):
    scenario = load(tmp_path, f"{BARE}{key}\ntasks = [{task}]\n")
    assert (len(scenario.tasks), scenario.vote_lifetime) == (1, None)


@pytest.mark.parametrize("fold", ["", "fold = 1\n"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{LEVELS}tasks = [{PURGE}]\n", f"net.tasks[0].do: expected {NO_PURGE}, got 'purge'"),
        (
            f"{LEVELS}tasks = [{EMIT}, {PURGE}]\n",
            f"net.tasks[1].do: expected {NO_PURGE}, got 'purge'",
        ),
        *(
            (
                f"{LEVELS}tasks = [{SETS % (begins, state)}]\n",
                f"net.tasks[0].state: expected {expected}, {MILDER}, got '{state}'",
            )
            for begins, state, expected in (
                ('on = "down"', "slow", "down"),
                ('on = "slow"', "up", "slow or a worse state"),
                ('on = "up", if = "slow"', "up", "slow or a worse state"),
                ('on_report = "up"', "slow", "down, or an if no worse than slow"),
                ('on_report = "up", if = "slow"', "up", "slow or a worse state"),
            )
        ),
        (BARE, f"net.vote_lifetime: expected {NO_END}, got None"),
    ],
)
def test_time_alone_hides_no_bad_state(tmp_path, text, message, fold):
    """Whichever version of the fold a file names, it is written now."""
    path = written(tmp_path, text + fold)
    with pytest.raises(ScenarioError) as error:
        load_scenarios(path)
    assert str(error.value) == f"{path}: {message}"


def test_the_demo_is_held_to_it_too(tmp_path):
    path = written(tmp_path, f"{GOOD}[net.demo]\ntasks = [{PURGE}]\n")
    with pytest.raises(ScenarioError, match=r"net\.tasks\[0\]\.do: expected no purge"):
        load_scenarios(path)


# ---- what is refused -----------------------------------------------------------------------

REFUSED = [
    ("", ": expected at least one scenario"),
    ("net = 5", "net: expected a table, got 5"),
    ("[net", "expected TOML in UTF-8"),
    ("[Net]\nrule = 1", "Net: expected a name of a-z, 0-9 and -"),
    ("[net]\nrule = { kind = 'latest' }", "net.states: expected a list of tables, got None"),
    ("[net]\nstates = []\nrule = { kind = 'latest' }", "net.states: expected at least one state"),
    (
        "[net]\nstates = [{ name = 'a' }, { name = 'a' }]\nrule = { kind = 'latest' }",
        "net.states: expected at least one state, each name once",
    ),
    ("[net]\nstates = [{ name = 'keep' }]", "net.states[0].name: expected a state of 1-64"),
    ("[net]\nstates = [{ label = 'A' }]", "net.states[0].name: expected a text"),
    (f"[net]\nstates = [{{ name = '{'x' * 65}' }}]", "net.states[0].name: expected a state of"),
    ('[net]\nstates = [{ name = "a\\nb" }]', "net.states[0].name: expected a state of"),
    (
        "[net]\nstates = [{ name = 'a', colour = 'pink' }]",
        "net.states[0].colour: expected one of red, orange",
    ),
    ("[net]\nstates = [{ name = 'a', icon = 'cat' }]", "net.states[0].icon: expected one of"),
    ("[net]\nstates = [{ name = 'a' }]", "net.rule: expected a table, got None"),
    (
        GOOD.replace("latest", "first"),
        "net.rule.kind: expected one of latest, quorum, python, got 'first'",
    ),
    (GOOD + "partitions = 0", "net.partitions: expected an integer from 1 to 1000, got 0"),
    (GOOD + "partitions = true", "net.partitions: expected an integer from 1 to 1000, got True"),
    (GOOD + "partitions = 4.0", "net.partitions: expected an integer from 1 to 1000, got 4.0"),
    (GOOD + "min_voters = '2'", "net.min_voters: expected an integer from 1 to 1000, got '2'"),
    (GOOD + "vocabulary = 'half'", "net.vocabulary: expected one of closed, open, got 'half'"),
    (BARE + "vote_lifetime = '5 m'", 'net.vote_lifetime: expected a duration such as "30s"'),
    (BARE + "vote_lifetime = '٣s'", "net.vote_lifetime: expected a duration"),
    (BARE + "vote_lifetime = 0", "net.vote_lifetime: expected a duration"),
    (BARE + "vote_lifetime = '367d'", "net.vote_lifetime: expected a duration"),
    (GOOD + "max_report_age = -1", "net.max_report_age: expected a duration"),
    (GOOD + "electorate = 0", "net.electorate: expected an integer from 1 to 1000000, got 0"),
    (GOOD + "min_voters = { lower = 0 }", "net.min_voters.lower: expected an integer from 1"),
    (GOOD + "min_voters = { raise = 1001 }", "net.min_voters.raise: expected an integer from 1"),
    (GOOD + "min_voters = { down = 1 }", "net.min_voters.down: expected a known key (lower, raise"),
    (GOOD + "forget_after = -1", "net.forget_after: expected a duration"),
    (GOOD + "forget_after = 'soon'", "net.forget_after: expected a duration"),
    (GOOD + "severity = 'worst'", "net.severity: expected one of order, none, got 'worst'"),
    (
        GOOD + "vocabulary = 'open'\nseverity = 'order'",
        'net.severity: expected "none", as an open vocabulary has no order, got',
    ),
    (
        GOOD + "purge_after = { down = '1d' }",
        'net.purge_after: expected only up, the mildest state, or severity = "none", got',
    ),
    (
        GOOD + "max_report_age = '1h'",
        'net.max_report_age: expected at most forget_after, which is "30m", got',
    ),
    (
        GOOD + "forget_after = '1m'\nmax_report_age = '61s'",
        'net.max_report_age: expected at most forget_after, which is "1m", got',
    ),
    (GOOD + f"fold = {FOLD + 1}", f"net.fold: expected an integer from 1 to {FOLD}, got"),
    (
        MIDDLE % ("slow", "down"),
        "net.rule.default: expected keep, or a state no worse than the threshold slow, got 'down'",
    ),
    (GOOD + "holds = 5", "net.holds: expected a table, got 5"),
    (GOOD + "holds = { odd = '1s' }", "net.holds.odd: expected one of the scenario's states"),
    (GOOD + "holds = { up = 'soon' }", "net.holds.up: expected a duration"),
    (GOOD + "reminders = { up = 0 }", "net.reminders.up: expected a duration"),
    (GOOD + "purge_after = { odd = '1d' }", "net.purge_after.odd: expected one of"),
    (GOOD + "weights = { a = -1 }", "net.weights.a: expected an integer from 0 to 1000000"),
    (GOOD + "colour = 'red'", "net.colour: expected a known key"),
    (
        GOOD.replace('kind = "latest"', 'kind = "latest", k = 1'),
        "net.rule.k: expected a known key (kind)",
    ),
    (
        GOOD.replace('name = "up"', 'name = "up", size = 1'),
        "net.states[1].size: expected a known key",
    ),
    *(
        (
            GOOD.replace(LATEST, f'kind = "python"{function}'),
            f"net.rule.function: expected {EXPECTED}, got {got}",
        )
        for function, got in (
            ("", "None"),
            (", function = 5", "5"),
            (', function = ""', "''"),
            (', function = "nowhere"', "'nowhere'"),
            (', function = "Loudest"', "'Loudest'"),
            (', function = "__init__"', "'__init__'"),
            (', function = "loudest.tally"', "'loudest.tally'"),
            (', function = "../loudest"', "'../loudest'"),
            (r', function = "loudest\n"', r"'loudest\n'"),
            (f', function = "{"x" * 41}"', f"'{'x' * 41}'"),
        )
    ),
    (
        GOOD.replace(LATEST, 'kind = "python", function = "loudest", k = 1'),
        "net.rule.k: expected a known key (function, kind)",
    ),
    (QUORUM % "", "net.rule.ladder: expected at least one threshold"),
    (QUORUM % "5", "net.rule.ladder[0]: expected a table, got 5"),
    (QUORUM % "{ at_least = 1 }", "net.rule.ladder[0].state: expected a text"),
    (
        QUORUM % "{ state = 'odd', at_least = 1 }",
        "net.rule.ladder[0].state: expected one of the scenario's states (down, up), got 'odd'",
    ),
    (QUORUM % "{ state = 'up' }", "net.rule.ladder[0]: expected either at_least or more_than"),
    (
        QUORUM % "{ state = 'up', at_least = 1, more_than = '1/2' }",
        "net.rule.ladder[0]: expected either at_least or more_than",
    ),
    (QUORUM % "{ state = 'up', at_least = 0 }", "net.rule.ladder[0].at_least: expected an integer"),
    (
        QUORUM % "{ state = 'up', at_least = 1000001 }",
        "net.rule.ladder[0].at_least: expected an integer from 1 to 1000000",
    ),
    *(
        (QUORUM % f"{{ state = 'up', {key} = {value} }}", f"net.rule.ladder[0].{key}: expected {a}")
        for key, value, a in (
            ("at_least", "'0/2'", "an integer of 1 or more, or a fraction"),
            ("at_least", "'3/2'", "an integer of 1 or more, or a fraction"),
            ("at_least", "'1/0'", "an integer of 1 or more, or a fraction"),
            ("at_least", "0.5", "an integer of 1 or more, or a fraction"),
            ("at_least", "true", "an integer of 1 or more, or a fraction"),
            ("more_than", "'1/1'", "a fraction below 1"),
            ("more_than", "1", "a fraction below 1"),
        )
    ),
    (
        (QUORUM % "{ state = 'up', at_least = 1 }").replace('default = "up"', 'default = "odd"'),
        "net.rule.default: expected one of the scenario's states",
    ),
    (GOOD + "[net.demo]\nholdz = 1", "net.holdz: expected a known key"),
    (GOOD + "demo = 5", "net.demo: expected a table, got 5"),
]


@pytest.mark.parametrize("demo", [False, True])
@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_an_error_names_file_key_and_what_was_expected(tmp_path, text, message, demo):
    path = written(tmp_path, text)
    with pytest.raises(ScenarioError) as error:
        load_scenarios(path, demo)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ScenarioError, match=r"none\.toml: cannot be read: No such file"):
        load_scenarios(tmp_path / "none.toml")


def test_a_file_that_is_not_utf8(tmp_path):
    path = tmp_path / "some.toml"
    path.write_bytes(b'[net]\ntitle = "\xff"')
    with pytest.raises(ScenarioError, match="expected TOML in UTF-8"):
        load_scenarios(path)


DETAILED = GOOD + 'details = ["kind", { key = "rate", title = "Rate of attack", unit = "/s" }]\n'


def test_details_have_a_title_and_stay_in_order(tmp_path):
    scenario = load(tmp_path, DETAILED)
    assert [(each.key, each.title, each.unit) for each in scenario.details] == [
        ("kind", "Kind", ""),
        ("rate", "Rate of attack", "/s"),
    ]
    assert scenario_from_plain(scenario.to_plain()) == scenario


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ('"kind"', "net.details: expected a list of tables or texts, got 'kind'"),
        ("[5]", "net.details[0]: expected a table, got 5"),
        ('["Kind"]', "net.details[0].key: expected a key of a-z"),
        ('["kind", "since"]', "net.details[1].key: expected a key of a-z"),
        ('["kind", "kind"]', "net.details: expected at most 4 details, each once"),
        ('["a", "b", "c", "d", "e"]', "net.details: expected at most 4 details, each once"),
        ('[{ key = "rate", per = "s" }]', "net.details[0].per: expected a known key"),
    ],
)
def test_wrong_details_are_refused_with_file_and_key(tmp_path, details, message):
    with pytest.raises(ScenarioError) as error:
        load(tmp_path, f"{GOOD}details = {details}\n")
    assert str(error.value).startswith(f"{tmp_path / 'some.toml'}: {message}")


LINKED = """links = [
    { title = "WAF", url = "https://waf.example/{scenario}?site={asset}" },
    { title = "Runbook", url = "http://wiki.example/{label:tier}/" },
]
"""


def test_a_link_is_filled_with_what_is_escaped(tmp_path):
    scenario = load(tmp_path, GOOD + LINKED)
    asset = 'a/../b?c=d&"><script>'
    assert scenario.links_of(asset, {}) == [
        {
            "title": "WAF",
            "url": "https://waf.example/net?site=a%2F..%2Fb%3Fc%3Dd%26%22%3E%3Cscript%3E",
        }
    ]
    assert (
        scenario.links_of("a", {"tier": "{asset}"})[1]["url"] == "http://wiki.example/%7Basset%7D/"
    )
    assert scenario_from_plain(scenario.to_plain()) == scenario


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("javascript:alert(1)", "net.links[0].url: expected an http or https address"),
        ("ftp://waf.example/{asset}", "net.links[0].url: expected an http or https address"),
        ("https://{asset}/", "net.links[0].url: expected an http or https address"),
        ("https://waf.example{asset}", "net.links[0].url: expected an http or https address"),
        ("https://me@waf.example/", "net.links[0].url: expected an http or https address"),
        ("https://waf.example/ {asset}", "net.links[0].url: expected an http or https address"),
        ("https://waf.example/{agent}", "net.links[0].url: expected only {asset}"),
        ("https://waf.example/{label:}", "net.links[0].url: expected only {asset}"),
    ],
)
def test_a_link_leads_to_one_host_by_http_alone(tmp_path, url, message):
    with pytest.raises(ScenarioError) as error:
        load(tmp_path, f'{GOOD}links = [{{ title = "WAF", url = "{url}" }}]\n')
    assert message in str(error.value)


def test_no_detail_takes_a_word_of_filters_or_orders():
    assert {*KEYS, *queries._KEYS} <= RESERVED


# ---- plain data ----------------------------------------------------------------------------


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(scenarios())
def test_plain_data_and_back(scenario: Scenario) -> None:
    assert scenario_from_plain(scenario.to_plain()) == scenario


@pytest.mark.parametrize("name", ["attack", "connectivity", "orders"])
def test_a_file_and_the_record_made_of_it_are_the_same_rule(name):
    scenario = load_scenarios(SHIPPED)[name]
    assert scenario_from_plain(scenario.to_plain()) == scenario


@pytest.mark.parametrize("key", ["details", "links"])
@pytest.mark.parametrize("wrong", [7, "x", [7], [{"title": "WAF"}], [{"key": "Kind"}]])
def test_wrong_details_and_links_are_ignored_in_the_log(key, wrong):
    plain = {
        "name": "net",
        "states": [{"name": "down"}, {"name": "up"}],
        "rule": {"kind": "latest"},
    }
    assert scenario_from_plain({**plain, key: wrong}) == scenario_from_plain(plain)


def test_a_scenario_names_its_incidents(tmp_path):
    assert load(tmp_path, GOOD).incident == "incident"
    own = load(tmp_path, f'{GOOD}incident = "outage"\n')
    assert own.incident == "outage"
    assert scenario_from_plain(own.to_plain()) == own
    assert own != load(tmp_path, GOOD)
    assert own.folds_like(load(tmp_path, GOOD))


@pytest.mark.parametrize("wrong", ["7", '""', '"Out age"', f'"{"a" * 25}"'])
def test_a_wrong_word_for_incidents_is_refused_in_the_file_and_ignored_in_the_log(tmp_path, wrong):
    with pytest.raises(ScenarioError, match=r"net\.incident: expected a "):
        load(tmp_path, f"{GOOD}incident = {wrong}\n")
    plain = load(tmp_path, GOOD).to_plain()
    assert scenario_from_plain({**plain, "incident": [wrong]}) == scenario_from_plain(plain)


def test_unknown_keys_are_ignored_in_the_log(tmp_path):
    """So that a newer job's record can be read by an older one's fold."""
    scenario = load(tmp_path, GOOD)
    plain = {**scenario.to_plain(), "later": 1}
    plain["rule"] = {**plain["rule"], "later": 2}
    assert scenario_from_plain(plain) == scenario


@pytest.mark.parametrize("data", [None, 5, [], {}, {"name": "net"}, {"name": 5}])
def test_what_is_no_scenario_is_refused_with_its_key(data):
    with pytest.raises(ScenarioError, match=r"^scenario[a-z.]*: expected"):
        scenario_from_plain(data)


# ---- what lies behind another -------------------------------------------------------------------

TABLE = """
[{name}]
vote_lifetime = "10m"
states = [{{ name = "down" }}, {{ name = "up" }}]
rule = {{ kind = "latest" }}
"""


def file_of(tmp_path: Path, **depends: str) -> Path:
    """A file of scenarios, each with what it depends on, if anything."""
    tables = (
        TABLE.format(name=name) + (f"depends_on = {{ {text} }}\n" if text else "")
        for name, text in depends.items()
    )
    return written(tmp_path, "".join(tables))


def test_what_a_scenario_depends_on_is_read_and_no_state_rests_on_it(tmp_path):
    path = file_of(tmp_path, site='scenario = "net", label = "network"', net="")
    assert load_dependencies(path) == {"site": DependsOn("net", "network", GRACE_MS)}
    assert load_scenarios(path) == load_scenarios(file_of(tmp_path, site="", net=""))
    path = file_of(tmp_path, site='scenario = "net", label = "network", grace = "0s"', net="")
    assert load_dependencies(path)["site"].grace == 0


def test_the_shipped_sites_lie_behind_networks():
    assert load_dependencies(SHIPPED) == {"attack": DependsOn("connectivity", "network", GRACE_MS)}


@pytest.mark.parametrize(
    ("depends", "says"),
    [
        ({"site": 'scenario = "none", label = "x"'}, "site.depends_on.scenario: expected one of"),
        ({"site": 'scenario = "site", label = "x"'}, "site.depends_on.scenario: expected one of"),
        ({"site": 'scenario = "net", label = "X"'}, "site.depends_on.label: expected a label"),
        ({"site": 'scenario = "net", label = "state"'}, "site.depends_on.label: expected a label"),
        ({"site": 'scenario = "net"'}, "site.depends_on.label: expected a text"),
        ({"site": 'scenario = "net", label = "x", grace = "y"'}, "site.depends_on.grace"),
        ({"site": 'scenario = "net", label = "x", also = 1'}, "site.depends_on"),
        (
            {
                "site": 'scenario = "net", label = "x"',
                "net": 'scenario = "rack", label = "x"',
                "rack": 'scenario = "site", label = "x"',
            },
            "net.depends_on.scenario: expected a scenario that does not depend on net itself",
        ),
    ],
)
def test_a_wrong_dependency_is_refused_with_file_and_key(tmp_path, depends, says):
    path = file_of(tmp_path, **{"net": "", "rack": ""} | depends)
    for load_file in (load_scenarios, load_dependencies):
        with pytest.raises(ScenarioError) as refused:
            load_file(path)
        assert str(refused.value).startswith(f"{path}: {says}")
