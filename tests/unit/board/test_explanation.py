"""Why an asset is in its state: the words, and that what is said to change it does."""

from __future__ import annotations

import random
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.board.assets.explanation import (
    Dispute,
    Silence,
    dissenters,
    explain,
    flip_text,
    freed_text,
    names,
    need,
)
from dashboard.board.assets.forecast import Flip, Freed, TaskRun, aim_of, current_of
from dashboard.core.common.times import exact_span
from domain.asset import Asset
from domain.fold import Bucket
from domain.records import (
    MAX_AHEAD,
    Cause,
    Command,
    Leave,
    Mute,
    Muted,
    RefusedReport,
    Report,
    ScenarioChange,
    Schedule,
    StateRecord,
    Tick,
    Tombstone,
)
from domain.scenario import FOLD, PythonRule, Scenario, Threshold
from domain.scenario_parser import scenario_from_plain
from support.histories.histories import PROFILE, History, every_history, play, restored_whole
from support.run.selection import examples

STATES = ("bad", "meh", "good")
MAJORITY = [{"state": state, "more_than": "1/2"} for state in STATES]
CAUSE = Cause("report", 0, 0, 0)
MINUTE = 60_000
MEMORY = 15 * MINUTE
"""How long silent votes are kept: three lifetimes, at least 15 minutes."""


def scenario(**more: Any) -> Scenario:
    plain = {
        "name": "watch",
        "states": [{"name": state, "label": state.capitalize()} for state in STATES],
        "rule": {"kind": "quorum", "ladder": MAJORITY},
    }
    return scenario_from_plain(plain | more)


def record(bucket: Bucket, name: str = "a") -> StateRecord:
    made = bucket.assets[name].record(name, bucket.scenario, bucket.epoch, CAUSE, None)
    assert isinstance(made, StateRecord)
    return made


class Log:
    """One asset's log, a second from record to record unless told."""

    def __init__(self, **rule: Any) -> None:
        self.rule = scenario(**rule)
        self.bucket = Bucket(self.rule, 0, 1)
        self.clock = -1_000

    def add(self, entry: Any, at: int | None = None) -> Log:
        self.clock = self.clock + 1_000 if at is None else at
        self.bucket.apply(entry, self.bucket.offset + 1, self.clock)
        return self

    def say(self, *said: tuple[str, str]) -> Log:
        """Agents report, one after the other."""
        for agent, state in said:
            self.add(Report("a", agent, state))
        return self

    def until(self, at: int) -> Log:
        """Time passes, to `at` ms."""
        return self.add(Tick(), at)

    def now(self) -> StateRecord:
        return record(self.bucket)

    def why(self) -> Any:
        return explain(self.rule, self.now())

    def flip(self, state: str) -> Flip:
        flips: list[Flip] = [flip for flip in self.why().flips if flip.state == state]
        assert len(flips) == 1
        return flips[0]


def reported(rule: Scenario, *said: tuple[str, str]) -> StateRecord:
    """Return what the fold makes of one report after the other, a second apart."""
    bucket = Bucket(rule, 0, 1)
    for at, (agent, state) in enumerate(said):
        bucket.apply(Report("a", agent, state), at, 1_000 * at)
    return record(bucket)


def votes(bad: int, good: int) -> list[tuple[str, str]]:
    said = [(f"g{n}", "good") for n in range(good)] + [(f"b{n}", "bad") for n in range(bad)]
    return sorted(said)


# ---- what it rests on -----------------------------------------------------------------------


def test_a_majority_says_how_many_and_what_would_flip_it() -> None:
    log = Log(rule={"kind": "quorum", "ladder": MAJORITY[:1], "default": "good"})
    log.say(*votes(bad=3, good=2))
    assert log.why().headline == "Bad: 3 of 5 live votes; one more Good vote flips it."
    assert log.flip("good") == Flip("good", 1, ("b0", "b1", "b2"), (), (), 0, False)
    assert flip_text(log.flip("good")) == "with one more vote, or when b0, b1 or b2 says so"


def test_a_threshold_counts_the_votes_for_its_state_or_worse() -> None:
    log = Log().say(("a", "good"), ("b", "meh"), ("c", "meh"), ("d", "bad"))
    why = log.why()
    assert why.headline.startswith("Meh: 3 of 4 live votes, for it or worse; ")
    steps = [(s.state, s.votes, s.weight, s.need, s.decides, s.exact) for s in why.steps]
    assert steps == [
        ("bad", 1, 1, 3, False, True),
        ("meh", 3, 3, 3, True, False),
        ("good", 1, 1, 3, False, True),
    ]


def test_several_that_must_agree_are_named_together() -> None:
    good = Log().say(*votes(bad=4, good=0)).flip("good")
    assert (good.more, good.changed, good.together) == (5, (), ("b0", "b1", "b2"))
    assert flip_text(good) == "with 5 more votes, or when b0, b1 and b2 all say so"


def test_weights_are_told_where_they_count() -> None:
    log = Log(weights={"s*": 3}).say(("w", "good"), ("s", "bad"))
    assert log.why().headline.startswith("Bad: 1 of 2 live votes, weight 3 of 4; ")
    assert (log.flip("good").more, log.flip("good").changed) == (3, ("s",))


def test_an_electorate_is_what_a_fraction_is_of() -> None:
    why = Log(electorate=5).say(*votes(bad=3, good=0)).why()
    assert why.headline.startswith("Bad: 3 live votes of weight 3, of an electorate of 5")
    assert why.steps[0].terms == "more than 1/2 of an electorate of 5"
    assert why.steps[0].percent == 60


@pytest.mark.parametrize(
    ("default", "words"),
    [("keep", "no threshold is met, so it stays"), ("good", "no threshold is met")],
)
def test_a_ladder_that_is_not_met_says_what_holds_then(default: str, words: str) -> None:
    ladder = [{"state": "bad", "at_least": 2}]
    log = Log(rule={"kind": "quorum", "ladder": ladder, "default": default})
    why = log.say(("a", "good"), ("b", "good")).why()
    assert f"Good: {words}" in why.headline
    assert not any(step.decides for step in why.steps)


def test_the_latest_report_is_named() -> None:
    log = Log(rule={"kind": "latest"}).say(("w1", "bad"), ("w2", "good"))
    assert log.why().headline == "Good: w2 said so last, of 2 votes; one more Bad vote flips it."
    alone = Log(rule={"kind": "latest"}).say(("w1", "bad")).why()
    assert alone.headline.startswith("Bad: w1 said so last, the only live vote;")


def test_a_function_is_named_and_tried() -> None:
    log = Log(rule={"kind": "python", "function": "loudest"}).say(*votes(bad=2, good=1))
    why = log.why()
    assert why.headline.startswith("Bad: that is what the function loudest makes of 3 live votes")
    assert log.flip("good").more == 1
    assert why.rest == "The function loudest decides, in Python."


def test_votes_of_muted_agents_are_named_and_left_out() -> None:
    log = Log().say(*votes(bad=2, good=1), ("loud", "good"))
    why = log.add(Mute("loud", 90_000, "olga", "wild", "id"), 9_000).why()
    assert why.headline.startswith("Bad: 2 of 3 live votes; ")
    assert [(vote.agent, vote.muted) for vote in why.muted] == [("loud", Muted(90_000, "olga"))]
    assert [(step.state, step.votes) for step in why.steps] == [("bad", 2), ("meh", 2), ("good", 1)]
    assert all("loud" not in (*flip.changed, *flip.again, *flip.together) for flip in why.flips)


def test_an_asset_whose_agents_are_all_muted_says_that_no_vote_counts() -> None:
    log = Log().say(("loud", "bad")).add(Mute("loud", None, "olga", "wild", "id"))
    assert log.why().headline.startswith(
        "Bad: no vote that is live counts, so it keeps its last state; one more Meh vote"
    )


# ---- why it is not lowered ------------------------------------------------------------------


def test_silent_agents_keep_a_state_from_being_lowered_and_are_named() -> None:
    log = Log(vote_lifetime=5 * MINUTE, holds={"good": MINUTE})
    log.say(("w3", "bad"), ("w4", "bad"))
    log.add(Report("a", "w1", "good"), 6 * MINUTE)
    why = log.why()
    assert why.headline.startswith(
        "Bad: the live votes give Good, but w3 and w4 fell silent saying Bad; "
    )
    since = 1_000 + 5 * MINUTE
    assert why.silences == (Silence("bad", ("w3", "w4"), since, since + MEMORY, bars=True),)
    assert (why.freed.agents, why.freed.at) == (("w3", "w4"), since + MEMORY)
    assert why.freed.state == "good"
    assert why.dispute is None
    good = log.flip("good")
    assert (good.more, good.changed, good.together) == (2, ("w3", "w4"), ())


def test_silent_votes_that_bar_nothing_are_told_and_not_blamed() -> None:
    log = Log(vote_lifetime=5 * MINUTE).say(("w3", "good"), ("w4", "bad"), ("w5", "bad"))
    log.add(Report("a", "w4", "bad"), 6 * MINUTE)
    why = log.why()
    assert [(one.state, one.bars) for one in why.silences] == [("bad", False), ("good", False)]
    assert why.freed is None


def test_too_few_voters_cannot_lower_it() -> None:
    log = Log(min_voters=3).say(("a", "bad"), ("a", "good"), ("b", "good"))
    why = log.why()
    assert why.headline == (
        "Bad: the live votes give Good, but 3 voters are needed to lower it, 2 are live; "
        "one more Good vote flips it."
    )
    assert log.now().unconfirmed_reason == "2 of 3 voters"


def test_too_few_voters_cannot_raise_it() -> None:
    log = Log(min_voters={"lower": 1, "raise": 2}).say(("a", "good"), ("a", "bad"))
    assert log.why().headline.startswith(
        "Good: the live votes give Bad, but 2 voters are needed to raise it, 1 is live; "
    )
    assert log.flip("bad").more == 1


def test_a_milder_state_by_default_needs_somebody_who_says_so() -> None:
    ladder = [{"state": "bad", "at_least": 2}]
    log = Log(rule={"kind": "quorum", "ladder": ladder, "default": "good"})
    log.say(("a", "bad"), ("b", "bad")).add(Leave("a", "b")).say(("a", "bad"))
    assert log.now().state == "bad"
    assert "but no live vote says Good" in log.why().headline


def test_silence_alone_lowers_nothing_until_somebody_says_it_again() -> None:
    log = Log(vote_lifetime=5 * MINUTE).say(("b1", "bad"), ("b2", "bad"), ("g", "good"))
    for minute in range(4, 24, 4):
        log.add(Report("a", "g", "good"), minute * MINUTE)
    for agent in ("b1", "b2"):
        log.add(Leave("a", agent))
    assert log.now().state == "bad"
    why = log.why()
    assert why.headline == (
        "Bad: the live votes give Good, but silence alone changes no state: the next report that "
        "says so counts; g saying the same again flips it."
    )
    assert log.flip("good").again == ("g",)
    assert flip_text(log.flip("good")).startswith("when g says the same again, or with one more")


def test_a_newer_word_by_the_agents_own_time_stands_against_the_latest() -> None:
    log = Log(rule={"kind": "latest"}, max_report_age=MINUTE)
    log.add(Report("a", "w1", "bad", 9_000), 10_000)
    log.add(Report("a", "w2", "good", 5_000), 11_000)
    assert log.now().state == "bad"
    assert "but w1 said Bad later, by its own time" in log.why().headline


def test_no_vote_at_all_keeps_it_too() -> None:
    log = Log(vote_lifetime=5_000).say(("w", "good")).until(10_000)
    why = log.why()
    assert why.headline.startswith(
        "Good: no vote is live, so it keeps its last state; w fell silent saying Good; "
    )
    assert why.lapse is None


# ---- in doubt -------------------------------------------------------------------------------


def doubting(**rule: Any) -> Log:
    """A log by the rule of today, in which votes live for five minutes."""
    return Log(fold=FOLD, vote_lifetime=5 * MINUTE, **rule)


def test_a_clock_that_is_ahead_gives_no_all_clear_until_it_is_right() -> None:
    log = doubting().say(("w1", "bad")).add(Report("a", "w1", "good", ahead=MAX_AHEAD + 1))
    why = log.why()
    assert log.now().unconfirmed_reason == "0 of 1 voters"
    assert why.headline == (
        "Bad: the live votes give Good, but 1 voter is needed to lower it, 0 are live without "
        "doubt, and w1 is in doubt; one more Good vote flips it."
    )
    assert [(one.agent, one.until, one.voteless) for one in why.doubted] == [("w1", None, False)]
    assert log.flip("good") == Flip("good", 1, (), (), (), 0, back=False)
    assert why.freed is None  # its next report ends it, not time


def test_votes_in_doubt_do_not_outvote_those_without() -> None:
    log = doubting().say(("w1", "good"), ("w2", "good"), ("w3", "bad"))
    for agent in ("w1", "w2"):
        log.add(RefusedReport("a", agent, "odd", "unknown-state"))
    assert log.why().headline == (
        "Good: the live votes without doubt give Bad, but silence alone changes no state: the next "
        "report that says so counts; w3 saying the same again flips it."
    )
    why = log.say(("w3", "bad")).why()
    assert why.headline == "Bad: 1 of 1 live vote without doubt; w3 saying Meh flips it."
    assert (why.steps[0].state, why.steps[0].weight, why.steps[0].whole) == ("bad", 1, 1)
    assert why.rest.endswith("Votes in doubt are left out: those without make worse.")
    assert why.dispute == Dispute("odd", (), (), doubted=("w1", "w2"))
    until = 4_000 + 5 * MINUTE
    assert why.freed == Freed((), until, "good", ("w1", "w2"))
    assert freed_text(why.freed) == "the doubt about w1 and w2 ends"


def test_a_doubt_that_ends_makes_voters_enough() -> None:
    log = doubting(min_voters=2).say(("w1", "bad"), ("w2", "bad"))
    log.add(RefusedReport("a", "w1", "bad", "bad-time")).say(("w1", "good"), ("w2", "good"))
    why = log.why()
    assert why.headline.startswith(
        "Bad: the live votes give Good, but 2 voters are needed to lower it, 1 is live without "
        "doubt; "
    )
    assert why.freed == Freed((), 2_000 + 5 * MINUTE, "good", ("w1",))


def test_what_is_not_needed_is_not_said_to_end() -> None:
    log = doubting().say(("w1", "bad"), ("s", "good"))
    log.add(RefusedReport("a", "w1", None, "bad-field"), 6 * MINUTE).say(("w1", "good"))
    why = log.why()
    assert [one.state for one in why.silences] == ["good"]
    assert (why.freed.agents, why.freed.trusted) == ((), ("w1",))


def test_who_disputes_it_goes_to_and_fro_or_is_in_doubt() -> None:
    log = doubting().say(*(("w1", state) for state in ("good", "meh", "good", "bad", "good")))
    log.say(("w2", "good")).add(RefusedReport("a", "w9", "bad", "bad-time"))
    assert log.why().dispute == Dispute("bad", (), (), ("w1",), ("w9",))
    log.add(RefusedReport("a", "w9", None, "bad-field"))
    assert log.why().dispute == Dispute("unreadable", (), (), (), ("w9",))


def test_an_asset_of_doubts_alone_says_that_no_report_counts() -> None:
    log = doubting().add(Command("set", "a", "c", "olga", "", "good", until=5_000))
    log.add(RefusedReport("a", "w1", "odd", "unknown-state")).until(6_000)
    assert log.now().state == "unknown"
    assert log.why().headline.startswith("unknown: no report of it counts; its first report ")


def test_what_was_tried_in_doubt_is_said_only_if_it_holds_without() -> None:
    log = doubting().say(("w1", "good")).add(Report("a", "w1", "good", ahead=MAX_AHEAD + 1))
    assert log.flip("bad").changed == ("w1",)
    log.add(Report("a", "w1", "bad", ahead=MAX_AHEAD + 1))
    assert log.now().state == "bad"
    assert log.flip("good").changed == ()


# ---- disputed, unknown ----------------------------------------------------------------------


def test_who_disputes_it_is_named_live_or_silent() -> None:
    log = Log(vote_lifetime=5 * MINUTE).say(("s", "bad"))
    log.add(Command("purge", "a", "c0", "olga"))
    log.say(("s", "bad"), ("l", "bad"), ("x", "good"), ("y", "good"), ("z", "good"))
    log.add(Command("set", "a", "c", "olga", "seen", "good"))
    log.add(Report("a", "l", "bad"), 5 * MINUTE + 3_000)
    assert log.now().state == "good"
    assert log.why().dispute == Dispute("bad", ("l",), ("s",))


def test_a_state_that_nothing_has_reported_says_so() -> None:
    log = Log().add(Command("set", "a", "c", "olga", "", "good", until=5_000)).until(6_000)
    assert log.now().state == "unknown"
    assert log.why().headline == ("unknown: no report yet; its first report makes its state.")
    assert log.flip("good").more == 1
    held = Log(holds={"good": 60_000}).add(Command("set", "a", "c", "olga", "", "bad", until=5_000))
    assert held.until(6_000).flip("good").hold == 0


# ---- waits ----------------------------------------------------------------------------------


def test_what_waits_is_said_with_what_stops_it() -> None:
    log = Log(holds={"good": 20_000}).say(*votes(bad=2, good=0))
    log.say(("g0", "good"), ("g1", "good"), ("g2", "good"))
    why = log.why()
    assert why.headline.startswith("Bad, and Good waits with 3 of 5 live votes; ")
    assert why.headline.endswith(" stops that.")
    back = next(flip for flip in why.flips if flip.back)
    assert back.state == "bad"
    assert flip_text(back).endswith(", which stops what waits")


def test_what_waits_behind_a_wait_is_named() -> None:
    log = Log(holds={"meh": 20_000, "good": 60_000}).say(("a", "bad"), ("a", "meh"), ("a", "good"))
    pending = log.now().pending
    assert pending is not None
    assert (pending.state, log.why().then) == ("meh", "good")


def test_a_worse_wait_counts_the_votes_for_it_or_worse() -> None:
    log = Log(holds={"meh": 20_000}).say(("a", "good"), ("b", "good"), ("c", "good"))
    log.say(("a", "meh"), ("b", "meh"))
    assert log.why().headline.startswith("Good, and Meh waits with 2 of 3 live votes; ")


def test_a_hold_is_part_of_the_flip() -> None:
    log = Log(holds={"good": 300_000}).say(*votes(bad=2, good=1))
    assert flip_text(log.flip("good")) == (
        "with 2 more votes, or when b0 or b1 says so; it must then last 5 m"
    )
    alone = Log(holds={"meh": 60_000, "good": 300_000}).say(("w", "bad")).why()
    assert alone.headline == ("Bad: 1 of 1 live vote; one more Meh vote starts its hold of 1 m.")


def test_a_pin_is_above_the_votes_which_go_on_beneath() -> None:
    log = Log().say(*((f"w{n}", "bad") for n in range(3)))
    state_record = log.add(Command("set", "a", "c", "olga", "seen", "good")).now()
    headline = log.why().headline
    assert headline.startswith("Good: pinned by olga; under it the votes give Bad; ")
    assert headline.endswith(" flips it under the pin.")
    assert log.why().dispute == Dispute("bad", ("w0", "w1", "w2"), ())
    assert dissenters(state_record) == {"w0", "w1", "w2"}
    unvoted = Log().add(Command("set", "a", "c", "olga", "seen", "good"))
    assert "no vote has counted yet" in unvoted.why().headline


def test_a_users_vote_goes_by_the_users_name() -> None:
    log = Log(rule={"kind": "latest"}).add(Command("vote", "a", "c", "olga", "", "bad"))
    assert log.why().headline.startswith("Bad: olga said so last")


# ---- what time brings -----------------------------------------------------------------------


def test_the_first_silence_that_matters_is_told() -> None:
    log = Log(min_voters=2, vote_lifetime=60_000).say(("a", "bad"), ("b", "bad"), ("c", "bad"))
    lapse = log.why().lapse
    assert (lapse.agents, lapse.at) == (("b",), 61_000)
    assert (lapse.reason, lapse.stops, lapse.state) == ("1 of 2 voters", None, None)


def test_a_silence_that_stops_a_wait_is_told() -> None:
    log = Log(min_voters=2, vote_lifetime=60_000, holds={"good": 300_000})
    log.say(("a", "bad"), ("b", "good"), ("a", "good"))
    lapse = log.why().lapse
    assert (lapse.agents, lapse.at, lapse.stops) == (("b",), 61_000, "good")
    assert lapse.reason == "1 of 2 voters"


def tasked(do: Any, state: str | None = None, **more: Any) -> Log:
    """An asset that is bad, and has a task of olga's in five seconds."""
    log = Log().say(("a", "bad"), ("b", "bad"))
    order = Schedule(do, after=5_000, **more)
    return log.add(Command("schedule", "a", "c", "olga", "later", state, schedule=order))


@pytest.mark.parametrize(
    ("log", "run"),
    [
        (tasked("set", "good"), TaskRun("set", "olga", 7_000, "good")),
        (tasked("purge"), TaskRun("purge", "olga", 7_000, None)),
        (tasked("purge", condition="good"), None),
        (tasked("notify"), None),
        (tasked("release"), None),
        (
            tasked("release").add(Command("set", "a", "p", "omar", "seen", "good")),
            TaskRun("release", "olga", 7_000, "bad"),
        ),
        (
            tasked("set", "good", every=1_000, condition="meh").add(
                Command("set", "a", "p", "omar", "seen", "meh")
            ),
            TaskRun("set", "olga", 7_000, "good"),
        ),
    ],
)
def test_the_first_run_of_a_task_that_changes_it_is_told(log: Log, run: TaskRun | None) -> None:
    assert log.why().task_run == run


def test_a_silence_after_a_tasks_run_is_not_foretold() -> None:
    log = Log(min_voters=2, vote_lifetime=60_000).say(("a", "bad"), ("b", "bad"))
    assert log.why().lapse is not None
    order = Schedule("purge", after=5_000)
    log.add(Command("schedule", "a", "c", "olga", "later", schedule=order))
    assert log.why().lapse is None


def test_agents_that_fall_silent_at_one_time_are_told_together() -> None:
    log = Log(min_voters=2, vote_lifetime=60_000)
    log.add(Report("a", "b", "bad"), 0).add(Report("a", "a", "bad"), 0)
    assert log.why().lapse.agents == ("a", "b")


def test_in_a_life_cycle_only_a_states_own_votes_count_and_nothing_bars_it() -> None:
    log = Log(severity="none", vote_lifetime=60_000, rule={"kind": "latest"})
    log.say(("a", "bad"), ("b", "good"))
    why = log.why()
    assert why.headline.startswith("Good: b said so last, of 2 votes; ")
    assert (why.silences, why.freed, why.dispute, why.then) == ((), None, None, None)
    assert why.lapse is not None
    assert (why.lapse.agents, why.lapse.state) == (("b",), None)
    few = Log(severity="none", min_voters=3).say(("a", "good")).why()
    assert few.headline.startswith(
        "Good: 1 of the 3 votes that it takes is live, so it keeps its last state; "
    )
    assert not any(step.decides for step in few.steps)
    assert all(step.exact for step in few.steps)


def test_a_record_of_another_rule_is_doubted() -> None:
    state_record = reported(scenario(), *votes(bad=3, good=2))
    assert (
        "these votes give another state" in explain(scenario(min_voters=9), state_record).mismatch
    )
    assert explain(scenario(), state_record).mismatch == ""


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        (["a"], "a"),
        (["a", "b"], "a or b"),
        (["a", "user:olga", "c"], "a, olga or c"),
        (list("abcdef"), "a, b, c, d or 2 more"),
    ],
)
def test_agents_in_words(agents: list[str], words: str) -> None:
    assert names(agents, "or") == words


@pytest.mark.parametrize(
    ("ms", "words"), [(250, "250 ms"), (20_000, "20 s"), (90_000, "1 m 30 s"), (3_600_000, "1 h")]
)
def test_spans_in_words(ms: int, words: str) -> None:
    assert exact_span(ms) == words


THRESHOLDS = st.one_of(
    st.builds(Threshold, st.just("bad"), st.integers(1, 50)),
    st.builds(
        lambda q, p, strict: Threshold("bad", p % q if strict else 1 + p % q, q, strict),
        st.integers(1, 9), st.integers(0, 99), st.booleans(),
    ),
)  # fmt: skip


@given(THRESHOLDS, st.integers(0, 200))
def test_a_threshold_needs_the_least_weight_that_meets_it(threshold: Threshold, whole: int) -> None:
    least = need(threshold, whole)
    assert threshold.met(least, whole)
    assert least == 0 or not threshold.met(least - 1, whole)


# ---- what is said to change it, does --------------------------------------------------------


def aims_at(bucket: Bucket, asset: Asset) -> str | None:
    """Return what the votes have made, whether it waits out its hold or not."""
    return aim_of(bucket.scenario, asset.state, asset.waits)


def after_votes(bucket: Bucket, name: str, state: str, count: int) -> str | None:
    """Return what the asset aims at once `count` users who did not vote before have voted."""
    trial = restored_whole(bucket)
    for n in range(count):
        vote = Command("vote", name, f"trial-{n}", f":{n}", "", state)
        trial.apply(vote, trial.offset + 1, trial.clock)
    return aims_at(trial, trial.assets[name])


def after_saying(
    bucket: Bucket, name: str, agents: tuple[str, ...], state: str, ahead: frozenset[str]
) -> str | None:
    """Return what the asset aims at once these agents have said `state`, one after the other.

    ahead: agents whose clocks are.
    """
    trial = restored_whole(bucket)
    for n, agent in enumerate(agents):
        vote: Any = Report(name, agent, state, ahead=(MAX_AHEAD + 1) * (agent in ahead))
        if agent.startswith("user:"):
            vote = Command("vote", name, f"trial-{n}", agent.removeprefix("user:"), "", state)
        trial.apply(vote, trial.offset + 1, trial.clock)
    return aims_at(trial, trial.assets[name])


def explained(history: History) -> Any:
    """Every asset of a history that is there at its end, with why."""
    bucket = history.bucket()
    play(bucket, history.entries)
    for name, asset in bucket.assets.items():
        if asset.shown is not None:
            state_record = record(bucket, name)
            yield bucket, name, state_record, explain(bucket.scenario, state_record)


most_histories = partial(
    every_history,
    seeds=400,
    profile=settings(PROFILE, max_examples=examples(60), derandomize=False),
)
"""Many plain seeds, and some that are new in every run."""


@most_histories
def test_what_is_said_to_flip_it_flips_it_and_less_does_not(
    history: History, rng: random.Random
) -> None:
    for bucket, name, state_record, why in explained(history):
        said = {vote.agent: vote.state for vote in state_record.votes}
        unsure = frozenset(vote.agent for vote in state_record.votes if vote.doubt is not None)
        for flip, ahead in product(why.flips, {frozenset[str](), unsure}):
            saying = partial(after_saying, bucket, name, ahead=ahead)
            if flip.more is not None:
                assert after_votes(bucket, name, flip.state, flip.more) == flip.state
            for agent in flip.changed:
                assert saying((agent,), flip.state) == flip.state
            for agent in flip.again:
                assert saying((agent,), said[agent]) == flip.state
            if flip.together:
                assert saying(flip.together, flip.state) == flip.state
            if flip.more is not None and state_record.pending is None:
                assert after_votes(bucket, name, flip.state, flip.more - 1) != flip.state


@most_histories
def test_a_record_of_this_rule_is_never_doubted(history: History, rng: random.Random) -> None:
    for bucket, name, state_record, why in explained(history):
        assert why.mismatch == "", (name, bucket.scenario.rule)
        decides = [step.state for step in why.steps if step.decides]
        if decides and bucket.scenario.life_cycle and len(state_record.votes):
            waits = (
                state_record.pending.state
                if state_record.pending
                else current_of(bucket.scenario, state_record)
            )
            assert decides == [waits] or isinstance(bucket.scenario.rule, PythonRule)


def test_a_state_of_a_rule_before_is_not_doubted_while_it_waits_to_go():
    states = [{"name": state} for state in STATES]
    plain: dict[str, Any] = {"partitions": 1, "states": states, "rule": {"kind": "latest"}}
    before = scenario_from_plain({"name": "watch", **plain, "vocabulary": "open"})
    ladder = {"kind": "quorum", "ladder": [{"state": "bad", "at_least": 1}]}
    after = scenario_from_plain({"name": "watch", **plain, "rule": ladder, "holds": {"bad": 1000}})
    bucket = Bucket(before, 0, 1)
    bucket.apply(Report("a", "w1", "odd"), 0, 1000)
    bucket.apply(ScenarioChange(after), 1, 1000)
    bucket.apply(Report("a", "w1", "bad"), 2, 1000)
    state_record = record(bucket, "a")
    assert (state_record.state, state_record.pending and state_record.pending.state) == (
        "odd",
        "bad",
    )
    assert explain(after, state_record).mismatch == ""


@most_histories
def test_the_silence_that_is_foretold_comes(history: History, rng: random.Random) -> None:
    for bucket, name, state_record, why in explained(history):
        if why.lapse is None:
            continue
        trial = restored_whole(bucket)
        emitted = trial.apply(Tick(), trial.offset + 1, why.lapse.at)
        came = [one for one in emitted if isinstance(one, StateRecord) and one.asset == name]
        (one,) = (r for r in came if (r.cause.type, r.cause.time) == ("vote-expiry", why.lapse.at))
        assert one.cause.agent in (*why.lapse.agents, None)
        if why.lapse.reason is not None:
            assert one.unconfirmed_reason == why.lapse.reason
        if why.lapse.stops is not None:
            assert one.pending is None or one.pending.state != why.lapse.stops
        if why.lapse.state is not None:
            made = one.pending.state if one.pending else current_of(bucket.scenario, one)
            assert made == why.lapse.state
        assert current_of(bucket.scenario, one) == current_of(bucket.scenario, state_record) or (
            bucket.scenario.life_cycle
        )


@most_histories
def test_the_run_of_a_task_that_is_foretold_comes(history: History, rng: random.Random) -> None:
    for bucket, name, state_record, why in explained(history):
        run = why.task_run
        if run is None:
            continue
        trial = restored_whole(bucket)
        emitted = trial.apply(Tick(), trial.offset + 1, run.at)
        # A task may begin on the way, with the state in which it runs.
        shown = [one for one in emitted if isinstance(one, StateRecord) and one.asset == name]
        tasks = [task for one in (state_record, *shown) for task in one.tasks]
        owned = {task.id for task in tasks if (task.do, task.user) == (run.do, run.user)}
        came = [
            one
            for one in emitted
            if isinstance(one, StateRecord | Tombstone)
            and one.asset == name
            and (one.cause.type, one.cause.time) == ("schedule", run.at)
            and one.cause.command in owned
            and (one.state if isinstance(one, StateRecord) else None) == run.state
        ]
        assert came  # of several at one time each may show the same
        assert (run.state is None) == isinstance(came[0], Tombstone)


@most_histories
def test_silence_is_blamed_only_where_hearing_it_no_more_would_free_the_state(
    history: History, rng: random.Random
) -> None:
    for bucket, name, state_record, why in explained(history):
        blamed = {agent for one in why.silences if one.bars for agent in one.agents}
        silent = {
            vote.agent for vote in state_record.votes if vote.counts and vote.silent is not None
        }
        assert blamed <= silent
        assert {agent for one in why.silences for agent in one.agents} == silent
        if why.freed is not None:
            trusted = set(why.freed.trusted)
            assert set(why.freed.agents) <= silent
            assert trusted <= {doubt.agent for doubt in state_record.doubts if doubt.counts}
            assert trusted or blamed & set(why.freed.agents)
            assert bucket.assets[name].state is not None
