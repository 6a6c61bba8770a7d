"""An example of each rule by which a state may become less severe; names are the rules."""

from __future__ import annotations

from typing import Any

import pytest

from domain.asset import LEAST_TRACE
from domain.fold import FOLD, UnknownFoldVersion
from domain.lateness import Lateness
from domain.records import (
    MAX_VOTERS,
    DeadLetter,
    Emission,
    Leave,
    Mute,
    StateRecord,
    Tombstone,
    UnknownFold,
    Vote,
)
from domain.scenario import UNKNOWN
from support.histories.foldlog import ANY, MAJORITY, SHOP, Log, causes, only

ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def leave(log: Log, agent: str, at: int | None = None, **more: Any) -> list[Emission]:
    """Have an agent say that it reports no more on the shop."""
    return log.add(Leave(SHOP, agent, **more), at)


def vote_of(log: Log, agent: str) -> Vote:
    """An agent's vote on the shop."""
    return log.bucket.assets[SHOP].votes[agent]


def waits(log: Log) -> dict[str, int]:
    """Return what the shop waits for, since when."""
    return log.bucket.assets[SHOP].waits


# ---- silence moves nothing -----------------------------------------------------------------


def test_an_expiry_neither_moves_the_state_nor_starts_a_wait():
    log = Log(rule=ANY, vote_lifetime=1000, holds={"up": 500}, forget_after=0)
    log.report("a1", "down", 100)
    log.report("a2", "up", 600)
    record = only(log.tick(1100))
    assert (record.state, record.pending) == ("down", None)
    assert only(log.report("a2", "up", 1200)).pending


def test_silence_breaks_a_wait_down_that_has_too_few_voters_left():
    log = Log(min_voters=2, vote_lifetime=1000, holds={"up": 5000})
    log.report("a1", "down", 100)
    log.report("a1", "up", 200)
    assert only(log.report("a2", "up", 300)).pending
    record = only(log.tick(1200))
    assert (record.pending, record.unconfirmed_reason) == (None, "1 of 2 voters")


def test_silence_breaks_no_wait_up():
    log = Log(vote_lifetime=1000, holds={"slow": 5000, "down": 5000})
    log.report("a1", "up", 100)
    log.report("a1", "down", 200)
    log.tick(1200)
    record = only(log.tick(5200))
    assert (record.state, record.cause.type, record.unconfirmed) == ("down", "hold", True)


@pytest.mark.parametrize(("says", "state"), [("down", "down"), ("slow", "up"), ("up", "up")])
def test_a_report_lowers_nothing_that_it_says_or_exceeds(says, state):
    """The votes for the state are gone, and those for up are many enough in any case."""
    log = Log(rule=MAJORITY, vote_lifetime=1000, forget_after=0)
    for agent in ("a1", "a2", "a3"):
        log.report(agent, "down", 100)
    for agent in ("a4", "a5"):
        log.report(agent, "up", 900)
    log.tick(1100)
    assert log.state() == "down"
    log.report("a6", says, 1200)
    assert log.state() == state


def test_a_release_is_evidence_both_ways():
    log = Log(rule=ANY)
    log.report("a1", "up", 100)
    log.command("vote", state="down")
    assert log.state() == "down"
    assert log.command("release").cause.type == "release"
    assert log.state() == "up"


def test_a_pin_and_its_end_are_no_evidence():
    log = Log(rule=ANY, vote_lifetime=1000, forget_after=0)
    log.report("a1", "down", 100)
    log.report("a2", "up", 900)
    log.command("set", state="slow", until=2000, at=1100)
    record = [r for r in log.tick(2000) if isinstance(r, StateRecord)][-1]
    assert (record.state, record.pending) == ("down", None)


def test_agents_of_weight_0_are_listed_and_count_for_nothing():
    log = Log(weights={"test": 0})
    assert log.report("test", "down", 100) == []
    assert log.bucket.assets == {}
    log.report("a1", "up", 100)
    record = only(log.report("test", "down", 200))
    assert (record.state, record.disputed, len(record.votes)) == ("up", None, 2)


# ---- the last word of a silent agent -------------------------------------------------------


def test_an_expired_vote_is_kept_as_silent_since_its_expiry():
    log = Log(vote_lifetime=1000)
    log.report("a1", "down", 100)
    [vote] = only(log.tick(5000)).votes
    assert (vote.state, vote.silent, vote.counts, vote.live) == ("down", 1100, True, False)


def test_until_its_agent_reports():
    log = Log(vote_lifetime=1000)
    log.report("a1", "down", 100)
    log.tick(1100)
    [vote] = only(log.report("a1", "up", 2000)).votes
    assert (vote.state, vote.silent) == ("up", None)
    assert log.bucket.lateness.total("rare") == 1


def test_or_until_forget_after_has_passed():
    log = Log(vote_lifetime=1000, forget_after=5000)
    log.report("a1", "down", 100)
    expiry, forgotten = log.tick(6100)
    assert isinstance(forgotten, StateRecord)
    assert causes([expiry, forgotten]) == [("vote-expiry", 1100), ("vote-forgotten", 6100)]
    assert (forgotten.cause.agent, forgotten.votes, forgotten.state) == ("a1", (), "down")


def test_0s_keeps_none():
    log = Log(vote_lifetime=1000, forget_after=0)
    log.report("a1", "down", 100)
    assert only(log.tick(1100)).votes == ()


def test_an_operators_is_not_kept():
    log = Log(vote_lifetime=1000)
    log.command("vote", state="down", at=100)
    assert only(log.tick(1100)).votes == ()


def test_a_leave_withdraws_a_vote_and_moves_nothing():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    record = only(leave(log, "a1", 200))
    assert (record.state, record.cause.type, record.cause.agent) == ("down", "leave", "a1")
    assert [vote.agent for vote in record.votes] == ["a2"]
    assert record.unconfirmed_reason == "nobody says it is this bad"
    assert only(log.report("a2", "up", 30_300)).state == "up"


def test_a_leave_withdraws_a_silent_vote_too():
    log = Log(vote_lifetime=1000)
    log.report("a1", "down", 100)
    log.tick(1100)
    assert only(leave(log, "a1")).votes == ()


def test_a_leave_that_is_older_than_the_agents_newest_vote_changes_nothing():
    log = Log()
    log.report("a1", "down", 100)
    assert leave(log, "a1", 200, reported_at=99) == []
    assert leave(log, "a2", 200) == []
    assert list(log.bucket.lateness.by_agent.values()) == [Lateness("a1", late=1)]
    assert only(leave(log, "a1", 200, reported_at=100)).votes == ()


def crowd(log: Log, *states: str) -> None:
    """As many agents as one asset takes; the first ones say these states, the others down."""
    for number in range(MAX_VOTERS):
        state = states[number] if number < len(states) else "down"
        log.report(f"a{number}", state, 100 + number)


@pytest.mark.parametrize(
    ("states", "says", "gone"),
    [
        (("slow", "up", "up"), "down", "a1"),
        (("slow", "up", "up"), "slow", "a1"),
        (("slow", "slow"), "slow", "a0"),
        (("slow", "up"), "up", "a1"),
        (("slow",), "up", None),
        ((), "down", "a0"),
    ],
)
def test_a_newcomer_evicts_the_mildest_then_the_oldest_none_worse_than_its_own(states, says, gone):
    log = Log()
    crowd(log, *states)
    emissions = log.report("new", says, 400)
    if gone is None:
        assert emissions == [DeadLetter("too-many-agents")]
        return
    left = {f"a{n}" for n in range(MAX_VOTERS)} - {vote.agent for vote in only(emissions).votes}
    assert left == {gone}


def test_a_newcomer_evicts_a_silent_vote_before_a_live_one():
    log = Log(vote_lifetime=1000)
    crowd(log, "up", "down", "up")
    log.report("a0", "up", 150)
    log.report("a2", "up", 1050)
    log.tick(1101)  # a1 said down and is silent; a0 and a2 say up and live
    assert vote_of(log, "a1").silent
    log.report("new", "down")
    assert "a1" not in log.bucket.assets[SHOP].votes


def test_a_silent_newcomer_evicts_no_live_vote():
    log = Log(vote_lifetime=1000)
    crowd(log)
    assert log.report("new", "down", 310, reported_at=-900) == [DeadLetter("too-many-agents")]


# ---- two tallies ---------------------------------------------------------------------------


def test_a_state_is_lowered_as_far_as_a_live_vote_bears_witness():
    """A default alone is none."""
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    assert only(log.report("a1", "slow", 200)).state == "slow"
    assert only(log.report("a1", "up", 300)).state == "up"


def test_a_silent_vote_counts_against_what_is_milder_than_it():
    log = Log(rule=MAJORITY, vote_lifetime=1000)
    for agent in ("a1", "a2"):
        log.report(agent, "down", 100)
    log.report("a3", "up", 1000)
    log.report("a4", "up", 1000)
    log.tick(1100)
    assert log.report("a4", "up", 1200) == []
    assert log.state() == "down"
    assert only(log.report("a5", "up", 1200)).state == "up"


def test_and_never_for_it():
    log = Log(rule=MAJORITY, vote_lifetime=1000)
    for agent in ("a1", "a2", "a3"):
        log.report(agent, "up", 100)
    log.tick(1100)
    assert only(log.report("a4", "down", 1200)).state == "down"
    assert only(log.report("a5", "up", 1300)).state == "down"


def test_latest_is_lowered_only_where_the_newest_by_time_says_so_too():
    log = Log()
    log.report("a1", "down", 1000, reported_at=1000)
    assert only(log.report("a2", "up", 1001, reported_at=500)).state == "down"
    assert only(log.report("a2", "up", 1002, reported_at=1002)).state == "up"


def test_a_named_electorate_is_the_whole_in_both():
    rule = {"kind": "quorum", "ladder": [{"state": "up", "more_than": "1/2"}], "default": "down"}
    log = Log(rule=rule, electorate=5)
    for agent in ("a1", "a2"):
        log.report(agent, "up", 100)
    assert log.state() == "down"
    assert only(log.report("a3", "up", 200)).state == "up"


# ---- voters --------------------------------------------------------------------------------


def test_min_voters_is_for_lowering():
    log = Log(min_voters=2)
    assert only(log.report("a1", "up", 100)).unconfirmed_reason == "1 of 2 voters"
    assert only(log.report("a1", "down", 200)).state == "down"
    assert only(log.report("a1", "up", 300)).state == "down"
    assert only(log.report("a2", "up", 400)).state == "up"


def test_or_for_both():
    log = Log(min_voters={"lower": 3, "raise": 2})
    log.report("a1", "up", 100)
    record = only(log.report("a1", "down", 200))
    assert (record.state, record.disputed) == ("up", "down")
    assert only(log.report("a2", "down", 300)).state == "down"


def test_unconfirmed_nobody_says_it_is_this_good():
    """Two say worse than the state, and a raise takes three."""
    log = Log(min_voters={"lower": 2, "raise": 3})
    log.report("a1", "up", 100)
    log.report("a1", "slow", 200)
    record = only(log.report("a2", "slow", 200))
    assert (record.state, record.unconfirmed) == ("up", True)
    assert record.unconfirmed_reason == "nobody says it is this good"


def test_unconfirmed_nobody_says_it_is_this_bad_but_while_a_wait_down_runs():
    log = Log(holds={"up": 500})
    log.report("a1", "down", 100)
    assert not only(log.report("a1", "up", 200)).unconfirmed
    log.report("a2", "down", 300)
    record = only(leave(log, "a2"))
    assert record.unconfirmed_reason == "nobody says it is this bad"


# ---- waits ---------------------------------------------------------------------------------


def test_up_each_state_that_is_worse_waits_by_itself():
    log = Log(holds={"slow": 1000, "down": 3000})
    log.report("a1", "up", 0)
    log.report("a1", "down", 100)
    assert waits(log) == {"slow": 100, "down": 100}
    assert only(log.tick(1100)).state == "slow"
    assert only(log.tick(3100)).state == "down"


def test_a_milder_report_breaks_the_waits_for_what_is_worse_than_it():
    log = Log(holds={"slow": 1000, "down": 3000})
    log.report("a1", "up", 0)
    log.report("a1", "down", 100)
    log.report("a1", "slow", 200)
    assert waits(log) == {"slow": 100}
    assert only(log.tick(1100)).state == "slow"


def test_a_move_up_ends_all_waits_down():
    log = Log(holds={"up": 5000})
    log.report("a1", "slow", 0)
    log.report("a1", "up", 100)
    record = only(log.report("a1", "down", 200))
    assert (record.state, waits(log)) == ("down", {})


def test_down_several_states_wait_and_the_one_that_ends_first_is_pending():
    log = Log(holds={"slow": 5000, "up": 1000})
    log.report("a1", "down", 0)
    log.report("a1", "slow", 100)
    pending = only(log.report("a1", "up", 200)).pending
    assert pending
    assert (pending.state, pending.due) == ("up", 1200)
    assert waits(log) == {"slow": 100, "up": 200}
    record = only(log.tick(1200))
    assert (record.state, record.pending) == ("up", None)


def test_of_several_due_the_mildest():
    log = Log(holds={"slow": 1100, "up": 1000})
    log.report("a1", "down", 0)
    log.report("a1", "slow", 100)
    log.report("a1", "up", 200)
    assert [r.state for r in log.tick(1200) if isinstance(r, StateRecord)] == ["up"]


# ---- the first state, and what is disputed -------------------------------------------------


def test_a_ladder_that_keeps_takes_the_vote_of_a_new_asset():
    assert only(Log(rule=MAJORITY, electorate=9).report("a1", "slow", 100)).state == "slow"


@pytest.mark.parametrize("pinned", [False, True])
def test_an_asset_of_which_nothing_is_known_or_said_any_more_is_gone(pinned):
    log = Log(vote_lifetime=1000)
    log.report("a1", "down", 5000, reported_at=3000)
    if pinned:
        log.command("set", state="up")
    [record] = log.tick(10**7)
    assert isinstance(record, StateRecord if pinned else Tombstone)
    assert record.cause.type == "vote-forgotten"
    log = Log(vote_lifetime=1000)
    log.report("a1", "down", 5000, reported_at=3000)
    [gone] = leave(log, "a1")
    assert isinstance(gone, Tombstone)


def test_a_first_report_out_of_a_spool_makes_an_asset_of_which_nothing_is_known():
    log = Log(vote_lifetime=1000)
    record = only(log.report("a1", "down", 5000, reported_at=3000))
    assert (record.state, record.unconfirmed_reason) == (UNKNOWN, "0 of 1 voters")
    record = only(log.report("a2", "up", 5100))
    assert (record.state, record.disputed) == ("up", "down")


@pytest.mark.parametrize("silent", [False, True])
def test_disputed_by_the_worst_state_that_a_vote_says_live_or_silent(silent):
    log = Log(rule=MAJORITY, vote_lifetime=1000)
    for agent in ("a1", "a2", "a3"):
        log.report(agent, "up", 100)
    log.report("a4", "slow", 100)
    assert only(log.report("a5", "down", 100)).disputed == "down"
    if silent:
        log.tick(1100)
    assert log.bucket.assets[SHOP].disputed == "down"
    leave(log, "a5", 1200)
    assert log.bucket.assets[SHOP].disputed == "slow"


def test_a_pin_is_disputed_too():
    log = Log()
    log.report("a1", "slow", 100)
    answer = log.command("set", state="up")
    assert isinstance(answer, StateRecord)
    assert answer.disputed == "slow"
    assert only(log.report("a1", "up", 200)).disputed is None


def test_what_is_disputed_does_not_purge_itself():
    log = Log(rule=MAJORITY, purge_after={"up": 1000})
    log.report("a1", "up", 0)
    log.report("a2", "down", 500)
    assert log.tick(5000) == []
    record, tombstone = log.report("a2", "up", 6000), log.tick(6000)
    assert only(record).disputed is None
    assert causes(tombstone) == [("purge-after", 6000)]


# ---- order and age -------------------------------------------------------------------------


def test_an_agents_clock_makes_nothing_later_than_its_append_time():
    log = Log()
    log.report("a1", "up", 1000, reported_at=200_000)
    assert only(log.report("a1", "down", 1001, reported_at=1001)).state == "down"


def test_without_a_time_of_its_own_a_report_is_as_new_as_its_place_in_the_log():
    log = Log()
    log.report("a1", "up", 2000)
    assert only(log.report("a1", "down", 1000)).state == "down"
    assert log.bucket.lateness.total("late") == 0


def test_a_vote_lives_its_lifetime_less_its_age():
    log = Log(vote_lifetime=1000)
    log.report("a1", "up", 5000, reported_at=4300)
    assert (vote_of(log, "a1").age, vote_of(log, "a1").expires) == (700, 5300)


def test_age_goes_by_the_records_own_append_time():
    log = Log(vote_lifetime=1000, max_report_age=2000)
    log.tick(90_000)
    log.report("a1", "up", 5000, reported_at=4300)
    assert (vote_of(log, "a1").age, vote_of(log, "a1").expires) == (700, 90_300)


@pytest.mark.parametrize(
    ("age", "kind", "kept"),
    [(999, None, True), (1000, "silent", True), (3000, "silent", True), (3001, "stale", False)],
)
def test_a_report_older_than_a_lifetime_arrives_silent_and_one_much_older_not_at_all(
    age, kind, kept
):
    log = Log(vote_lifetime=1000, forget_after=3000)
    log.report("a0", "down", 10_000)
    log.report("a1", "up", 10_000, reported_at=10_000 - age)
    assert ("a1" in log.bucket.assets[SHOP].votes) is kept
    counted = {each: log.bucket.lateness.total(each) for each in ("stale", "late", "silent")}
    assert counted == {each: int(each == kind) for each in counted}


def test_a_silent_report_is_its_agents_last_word_and_no_evidence():
    log = Log(rule=ANY, vote_lifetime=1000)
    log.report("a1", "up", 10_000)
    record = only(log.report("a2", "down", 10_000, reported_at=8000))
    assert (record.state, record.disputed, record.votes[1].silent) == ("up", "down", 9000)
    assert list(log.bucket.lateness.by_agent.values()) == [Lateness("a2", silent=1, age=2000)]


def test_a_report_older_than_the_assets_purge_changes_nothing():
    log = Log()
    log.report("a1", "up", 100)
    log.command("purge", at=200)
    assert log.report("a2", "down", 300, reported_at=199) == []
    assert (log.state(), log.bucket.lateness.total("late")) == (None, 1)
    assert only(log.report("a2", "down", 300, reported_at=200)).state == "down"


def test_an_asset_that_purged_itself_is_remembered_for_an_hour():
    log = Log(purge_after={"up": 1000})
    log.report("a1", "up", 0)
    log.tick(1000)
    assert log.report("a2", "down", 2000, reported_at=999) == []
    log.tick(1000 + LEAST_TRACE)
    assert log.bucket.assets == {}


# ---- a change of rule ----------------------------------------------------------------------


def test_a_change_of_rule_is_evidence_over_the_votes_before_it():
    log = Log(rule=ANY, holds={"up": 500})
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    log.report("a3", "up", 100)
    record = only(log.switch(200, rule=MAJORITY, holds={"up": 500}))
    assert (record.state, record.pending and record.pending.since) == ("down", 200)


def test_only_then_do_lifetimes_count_anew_as_silence():
    log = Log(rule=MAJORITY, vote_lifetime=9000)
    for agent in ("a1", "a2", "a3"):
        log.report(agent, "down", 100)
    log.report("a4", "up", 2000)
    record = only(log.switch(2500, rule=MAJORITY, vote_lifetime=1000))
    assert record.state == "down"
    assert [vote.silent for vote in record.votes] == [2500, 2500, 2500, None]


def test_silent_stays_silent():
    log = Log(vote_lifetime=1000)
    log.report("a1", "down", 100)
    log.tick(1100)
    log.switch(1200, vote_lifetime=9000)
    assert vote_of(log, "a1").silent == 1100


FOUR = [{"name": name} for name in ("worst", "down", "slow", "up")]
"""States of which a change of rule takes away the worst."""


def test_an_unknown_state_is_left_as_any_state_is():
    """However many votes for it go with it."""
    rule: dict[str, Any] = {"rule": MAJORITY, "min_voters": 2, "holds": {"slow": 900, "up": 500}}
    log = Log(states=FOUR, **rule, fold=FOLD)
    ladder = [{"state": "worst", "more_than": "1/2"}, *MAJORITY["ladder"]]
    log.switch(50, states=FOUR, **{**rule, "rule": {**MAJORITY, "ladder": ladder}})
    for agent in ("a1", "a2", "a3"):
        log.report(agent, "worst", 100)
    log.report("a4", "up", 100)
    record = only(log.switch(200, **rule))
    assert (record.state, record.pending, record.unconfirmed) == ("worst", None, True)
    pending = only(log.report("a5", "up", 300)).pending
    assert pending
    assert (pending.state, pending.due) == ("up", 800)
    assert only(log.tick(800)).state == "up"


def test_without_live_votes_it_stays_and_nothing_is_awaited():
    states = [{"name": name} for name in ("worst", "down", "odd", "up")]
    log = Log(states=states, holds={"down": 500, "odd": 900, "up": 900})
    log.report("a1", "worst", 100)
    log.report("a1", "odd", 200)
    log.report("a1", "down", 300)
    assert waits(log) == {"down": 200}
    log.report("a1", "odd", 400)
    log.switch(450, holds={"down": 500})
    assert (log.state(), waits(log)) == ("worst", {})
    assert log.tick(10_000) == []
    assert only(log.report("a1", "up", 10_100)).state == "up"


@pytest.mark.parametrize("says", ["down", "slow"])
def test_nothing_is_worse_than_an_unknown_state(says):
    log = Log(states=FOUR, holds={"down": 500, "slow": 500, "up": 500})
    log.report("a1", "worst", 100)
    log.switch(200, holds={"down": 500, "slow": 500, "up": 500})
    record = only(log.report("a1", says, 300))
    assert (record.state, waits(log)) == ("worst", {says: 300})


def test_a_later_fold_stops_whoever_folds_the_log():
    log = Log()
    log.report("a1", "up", 100)
    with pytest.raises(UnknownFoldVersion, match=r"needs version 7 of the fold, .* knows 6"):
        log.add(UnknownFold("net", FOLD + 1))
    assert log.add(UnknownFold("another", FOLD + 1)) == [DeadLetter("bad-scenario")]


def test_what_boards_alone_read_is_no_change_of_rule():
    log = Log()
    log.report("a1", "up", 100)
    links = ({"title": "WAF", "url": "https://waf.example/{asset}"},)
    assert log.switch(200, details=["kind"], links=links, incident="outage") == []


def test_the_first_scenario_record_of_this_fold_is_a_change_of_rule():
    log = Log(vote_lifetime=1000, rule=ANY)
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    leave(log, "a1", 200)
    assert log.state() == "down"
    changed, held = log.switch(300, vote_lifetime=1000, rule=ANY, fold=FOLD)
    assert isinstance(changed, StateRecord)
    assert isinstance(held, StateRecord)
    assert (changed.cause.type, changed.state) == ("scenario", "down")
    assert (held.cause.type, held.state) == ("hold", "up")


# ---- at equal times ------------------------------------------------------------------------


def test_at_equal_times_expiries_forgettings_mute_ends_each_of_which_is_judged_by_itself():
    """Where a wait is over at that time too, evidence ends it as its own due would."""
    log = Log(rule=MAJORITY, vote_lifetime=1000, forget_after=1000, holds={"up": 1500})
    log.report("old", "down", 0)
    log.add(Mute("muted", 2000, "olga", "", ID), 400)
    log.report("a1", "up", 500)
    log.report("a2", "up", 500)
    log.report("a3", "up", 1000)
    log.report("muted", "up", 1100)
    for agent in ("a1", "a2"):
        log.report(agent, "up", 1400)
    emissions = log.tick(2000)
    assert causes(emissions) == [
        ("vote-expiry", 2000),
        ("vote-forgotten", 2000),
        ("mute-end", 2000),
    ]
    states = [record.state for record in emissions if isinstance(record, StateRecord)]
    assert states == ["down", "down", "up"]


def test_all_expiries_of_one_instant_are_one_event_that_names_one_agent_at_most():
    log = Log(vote_lifetime=1000)
    for agent in ("a1", "a2"):
        log.report(agent, "up", 100)
    record = only(log.tick(1100))
    assert (record.cause.type, record.cause.agent) == ("vote-expiry", None)
    assert record.version.step == 1
