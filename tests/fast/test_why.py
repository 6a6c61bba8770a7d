"""Why an asset is in its state: the words, and that what is said to change it does."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from histories import FOUND, History, every_history, play, restored_whole
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.board.why import (
    Flip,
    current_of,
    dissenters,
    explain,
    flip_text,
    names,
    need,
    span,
)
from domain.asset import Asset
from domain.fold import Bucket
from domain.records import Cause, Command, Mute, Muted, Report, StateRecord, Tick
from domain.scenario import PythonRule, Rung, Scenario

STATES = ("bad", "meh", "good")
MAJORITY = [{"state": state, "more_than": "1/2"} for state in STATES]
CAUSE = Cause("report", 0, 0, 0)


def scenario(**more: Any) -> Scenario:
    plain = {
        "name": "watch",
        "states": [{"name": state, "label": state.capitalize()} for state in STATES],
        "rule": {"kind": "quorum", "ladder": MAJORITY},
    }
    return Scenario.from_plain(plain | more)


def record(bucket: Bucket, name: str = "a") -> StateRecord:
    made = bucket._emission(name, bucket.assets[name], CAUSE, None)
    assert isinstance(made, StateRecord)
    return made


def reported(rule: Scenario, *said: tuple[str, str]) -> StateRecord:
    """What the fold makes of one report after the other, a second apart."""
    bucket = Bucket(rule, 0, 1)
    for at, (agent, state) in enumerate(said):
        bucket.apply(Report("a", agent, state), at, 1_000 * at)
    return record(bucket)


def votes(bad: int, good: int) -> list[tuple[str, str]]:
    said = [(f"g{n}", "good") for n in range(good)] + [(f"b{n}", "bad") for n in range(bad)]
    return sorted(said, reverse=True)


def test_a_majority_says_how_many_and_what_would_flip_it():
    rule = scenario(rule={"kind": "quorum", "ladder": MAJORITY[:1], "default": "good"})
    why = explain(rule, reported(rule, *votes(bad=3, good=2)))
    assert why.headline == "Bad: 3 of 5 live votes; one more Good vote flips it."
    (good,) = (flip for flip in why.flips if flip.state == "good")
    assert good == Flip("good", 1, ("b0", "b1", "b2"), (), 0, False)
    assert flip_text(good) == "with one more vote, or when b0, b1 or b2 says so"


def test_a_rung_that_needs_more_votes_counts_them():
    why = explain(scenario(), reported(scenario(), *votes(bad=3, good=2)))
    good = next(flip for flip in why.flips if flip.state == "good")
    assert (good.more, good.changed) == (2, ("b0", "b1", "b2"))
    assert why.headline == "Bad: 3 of 5 live votes; b0, b1 or b2 saying Good flips it."
    steps = [(s.state, s.weight, s.need, s.whole, s.met, s.decides) for s in why.steps]
    assert steps == [
        ("bad", 3, 3, 5, True, True),
        ("meh", 0, 3, 5, False, False),
        ("good", 2, 3, 5, False, False),
    ]


def test_several_that_must_agree_are_named_together():
    why = explain(scenario(), reported(scenario(), *votes(bad=4, good=0)))
    good = next(flip for flip in why.flips if flip.state == "good")
    assert (good.more, good.changed, good.together) == (5, (), ("b0", "b1", "b2"))
    assert flip_text(good) == "with 5 more votes, or when b0, b1 and b2 all say so"


def test_weights_are_told_where_they_count():
    rule = scenario(weights={"s*": 3})
    why = explain(rule, reported(rule, ("w", "good"), ("s", "bad")))
    assert why.headline.startswith("Bad: 1 of 2 live votes, weight 3 of 4; ")
    good = next(flip for flip in why.flips if flip.state == "good")
    assert (good.more, good.changed) == (3, ("s",))


def test_an_electorate_is_what_a_fraction_is_of():
    rule = scenario(electorate=5)
    why = explain(rule, reported(rule, *votes(bad=3, good=0)))
    assert why.headline.startswith("Bad: 3 live votes of weight 3, of an electorate of 5")
    assert why.steps[0].terms == "more than 1/2 of an electorate of 5"
    assert why.steps[0].percent == 60


@pytest.mark.parametrize(
    ("default", "words"),
    [("keep", "no rung is met, so it stays"), ("good", "no rung is met")],
)
def test_a_ladder_that_is_not_met_says_what_holds_then(default: str, words: str):
    rule = scenario(rule={"kind": "quorum", "ladder": MAJORITY, "default": default})
    why = explain(rule, reported(rule, ("a", "good"), ("b", "bad")))
    assert f"Good: {words}" in why.headline
    assert not any(step.decides for step in why.steps)


def test_the_latest_report_is_named():
    rule = scenario(rule={"kind": "latest"})
    why = explain(rule, reported(rule, ("w1", "bad"), ("w2", "good")))
    assert why.headline == "Good: w2 said so last, of 2 votes; one more Bad vote flips it."
    alone = explain(rule, reported(rule, ("w1", "bad")))
    assert alone.headline.startswith("Bad: w1 said so last, the only live vote;")


def test_a_function_is_named_and_tried():
    rule = scenario(rule={"kind": "python", "function": "loudest"})
    why = explain(rule, reported(rule, *votes(bad=2, good=1)))
    assert why.headline.startswith("Bad: that is what the function loudest makes of 3 live votes")
    good = next(flip for flip in why.flips if flip.state == "good")
    assert good.more == 1
    assert why.rest == "The function loudest decides, in Python."


def test_votes_of_muted_agents_are_named_and_left_out():
    bucket = Bucket(scenario(), 0, 1)
    for at, (agent, state) in enumerate([*votes(bad=2, good=1), ("loud", "good")]):
        bucket.apply(Report("a", agent, state), at, 1_000 * at)
    bucket.apply(Mute("loud", 90_000, "olga", "wild", "id"), 9, 9_000)
    why = explain(scenario(), record(bucket))
    assert why.headline.startswith("Bad: 2 of 3 live votes; ")
    assert [(vote.agent, vote.muted) for vote in why.muted] == [("loud", Muted(90_000, "olga"))]
    assert [(step.state, step.votes) for step in why.steps] == [("bad", 2), ("meh", 0), ("good", 1)]
    assert all("loud" not in (*flip.changed, *flip.together) for flip in why.flips)


def test_an_asset_whose_agents_are_all_muted_says_that_no_vote_counts():
    bucket = Bucket(scenario(), 0, 1)
    bucket.apply(Report("a", "loud", "bad"), 0, 1_000)
    bucket.apply(Mute("loud", None, "olga", "wild", "id"), 1, 2_000)
    why = explain(scenario(), record(bucket))
    assert why.headline.startswith(
        "Bad: no vote that is live counts, so it keeps its last state; 1 more agent must"
    )


def test_too_few_votes_keep_the_state():
    rule = scenario(min_voters=3)
    why = explain(rule, reported(rule, ("a", "good")))
    assert why.headline == (
        "Good: 1 of the 3 votes that it takes is live, so it keeps its last state; "
        "2 more agents must report before votes count."
    )
    assert why.confirm == 2
    assert not any(step.decides for step in why.steps)
    bad = next(flip for flip in why.flips if flip.state == "bad")
    assert bad.more == 2


def test_no_vote_at_all_keeps_it_too():
    rule = scenario(vote_lifetime=5_000)
    bucket = Bucket(rule, 0, 1)
    bucket.apply(Report("a", "w", "good"), 0, 0)
    bucket.apply(Tick(), 1, 10_000)
    why = explain(rule, record(bucket))
    assert why.headline.startswith("Good: no vote is live, so it keeps its last state")
    assert why.lapse is None


def test_what_waits_is_said_with_what_stops_it():
    rule = scenario(holds={"good": 20_000})
    why = explain(rule, reported(rule, *votes(bad=2, good=0), ("g0", "good"), ("g1", "good"),
                                 ("g2", "good")))  # fmt: skip
    assert why.headline.startswith("Bad, and Good waits with 3 of 5 live votes; ")
    assert why.headline.endswith(" stops that.")
    back = next(flip for flip in why.flips if flip.back)
    assert back.state == "bad"
    assert flip_text(back).endswith(", which stops what waits")


def test_a_hold_is_part_of_the_flip():
    rule = scenario(holds={"good": 300_000})
    why = explain(rule, reported(rule, *votes(bad=2, good=1)))
    assert why.headline.endswith("b0 or b1 saying Good starts its hold of 5 m.")
    good = next(flip for flip in why.flips if flip.state == "good")
    assert flip_text(good).endswith("; it must then last 5 m")


def test_a_pin_is_above_the_votes_which_go_on_beneath():
    bucket = Bucket(scenario(), 0, 1)
    for at in range(3):
        bucket.apply(Report("a", f"w{at}", "bad"), at, at)
    bucket.apply(Command("set", "a", "c", "olga", "seen", "good"), 3, 3)
    found = record(bucket)
    why = explain(scenario(), found)
    assert why.headline.startswith("Good: pinned by olga; beneath it the votes make Bad; ")
    assert why.headline.endswith(" flips it beneath the pin.")
    assert dissenters(found) == {"w0", "w1", "w2"}
    unvoted = Bucket(scenario(), 0, 1)
    unvoted.apply(Command("set", "a", "c", "olga", "seen", "good"), 0, 0)
    assert "no vote has counted yet" in explain(scenario(), record(unvoted)).headline


def test_a_users_vote_goes_by_the_users_name():
    rule = scenario(rule={"kind": "latest"})
    bucket = Bucket(rule, 0, 1)
    bucket.apply(Command("vote", "a", "c", "olga", "", "bad"), 0, 0)
    assert explain(rule, record(bucket)).headline.startswith("Bad: olga said so last")


def test_the_first_expiry_that_matters_is_told():
    rule = scenario(min_voters=2, vote_lifetime=60_000)
    lapse = explain(rule, reported(rule, ("a", "bad"), ("b", "bad"), ("c", "bad"))).lapse
    assert lapse is not None
    assert (lapse.agent, lapse.at, lapse.state) == ("b", 61_000, None)


def test_a_record_of_another_rule_is_doubted():
    found = reported(scenario(), *votes(bad=3, good=2))
    other = scenario(rule={"kind": "quorum", "ladder": [{"state": "good", "at_least": 1}]})
    assert "these votes make Good" in explain(other, found).doubt
    assert explain(scenario(), found).doubt == ""


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        (["a"], "a"),
        (["a", "b"], "a or b"),
        (["a", "user:olga", "c"], "a, olga or c"),
        (list("abcdef"), "a, b, c, d or 2 more"),
    ],
)
def test_agents_in_words(agents: list[str], words: str):
    assert names(agents, "or") == words


@pytest.mark.parametrize(
    ("ms", "words"), [(250, "250 ms"), (20_000, "20 s"), (90_000, "1 m 30 s"), (3_600_000, "1 h")]
)
def test_spans_in_words(ms: int, words: str):
    assert span(ms) == words


RUNGS = st.one_of(
    st.builds(Rung, st.just("bad"), st.integers(1, 50)),
    st.builds(
        lambda q, p, strict: Rung("bad", p % q if strict else 1 + p % q, q, strict),
        st.integers(1, 9), st.integers(0, 99), st.booleans(),
    ),
)  # fmt: skip


@given(RUNGS, st.integers(0, 200))
def test_what_a_rung_needs_is_the_least_that_meets_it(rung: Rung, whole: int):
    least = need(rung, whole)
    assert rung.met(least, whole)
    assert least == 0 or not rung.met(least - 1, whole)


# ---- what is said to change it, does --------------------------------------------------------


def aims_at(asset: Asset) -> str | None:
    """What the votes have made, whether it waits out its hold or not."""
    return asset.pending.state if asset.pending else asset.state


def after_votes(bucket: Bucket, name: str, state: str, count: int) -> Asset:
    """The asset once `count` users who did not vote before have voted."""
    trial = restored_whole(bucket)
    for n in range(count):
        vote = Command("vote", name, f"trial-{n}", f":{n}", "", state)
        trial.apply(vote, trial.offset + 1, trial.clock)
    return trial.assets[name]


def after_saying(bucket: Bucket, name: str, agents: tuple[str, ...], state: str) -> Asset:
    """The asset once these agents have said `state`, one after the other."""
    trial = restored_whole(bucket)
    for n, agent in enumerate(agents):
        vote: Any = Report(name, agent, state, max(trial.clock, 2**50))
        if agent.startswith("user:"):
            vote = Command("vote", name, f"trial-{n}", agent.removeprefix("user:"), "", state)
        trial.apply(vote, trial.offset + 1, trial.clock)
    return trial.assets[name]


def explained(history: History) -> Any:
    """Every asset of a history that is there at its end, with why."""
    bucket = history.bucket()
    play(bucket, history.entries)
    for name, asset in bucket.assets.items():
        if asset.shown is not None:
            found = record(bucket, name)
            yield bucket, name, found, explain(bucket.scenario, found)


most_histories = partial(
    every_history, seeds=400, found=settings(FOUND, max_examples=60, derandomize=False)
)
"""Many plain seeds, and some that are new in every run."""


@most_histories
def test_what_is_said_to_flip_it_flips_it_and_less_does_not(history: History, rng: random.Random):
    for bucket, name, _, why in explained(history):
        for flip in why.flips:
            if flip.more is not None:
                assert aims_at(after_votes(bucket, name, flip.state, flip.more)) == flip.state
                less = after_votes(bucket, name, flip.state, flip.more - 1)
                assert aims_at(less) != flip.state
            for agent in flip.changed:
                assert aims_at(after_saying(bucket, name, (agent,), flip.state)) == flip.state
            if flip.together:
                assert aims_at(after_saying(bucket, name, flip.together, flip.state)) == flip.state


@most_histories
def test_a_record_of_this_rule_is_never_doubted(history: History, rng: random.Random):
    for bucket, name, found, why in explained(history):
        assert why.doubt == "", (name, bucket.scenario.rule)
        waits = found.pending.state if found.pending else current_of(found)
        decides = [step.state for step in why.steps if step.decides]
        if decides and not isinstance(bucket.scenario.rule, PythonRule):
            assert decides == [waits]


@most_histories
def test_the_expiry_that_is_foretold_comes(history: History, rng: random.Random):
    for bucket, name, _, why in explained(history):
        if why.lapse is None or bucket.scenario.purge_after:
            continue
        trial = restored_whole(bucket)
        emitted = trial.apply(Tick(), trial.offset + 1, why.lapse.at)
        found = [
            one
            for one in emitted
            if isinstance(one, StateRecord)
            and (one.asset, one.cause.type) == (name, "vote-expiry")
            and one.cause.agent == why.lapse.agent
        ]
        assert len(found) == 1
        (one,) = found
        assert one.cause.time == why.lapse.at
        if why.lapse.state is None:
            assert one.unconfirmed
        else:
            made = one.pending.state if one.pending else current_of(one)
            assert made == why.lapse.state
