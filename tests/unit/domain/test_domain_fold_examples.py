"""An example of each sentence of the vocabulary and its fine print; names are the sentences."""

from __future__ import annotations

import pytest

from domain.asset import ANSWERS_KEPT, LEAST_TRACE
from domain.fold import REFRESH_AFTER
from domain.names import MAX_NAME, name_ok
from domain.records import (
    MAX_VOTERS,
    Answer,
    DeadLetter,
    Refusal,
    StateRecord,
    Tombstone,
    Unreadable,
)
from domain.scenario import UNKNOWN
from domain.version import Version
from support.histories.foldlog import ANY, MAJORITY, SHOP, Log, causes, only, scenario

# ---- vocabulary ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("a", True),
        ("10.0.0.0/8", True),
        ("ü" * MAX_NAME, True),
        ("😀" * MAX_NAME, True),
        ("", False),
        ("x" * (MAX_NAME + 1), False),
        ("a\nb", False),
        ("a\x00", False),
    ],
)
def test_asset_is_named_by_1_to_255_unicode_code_points(name, good):
    """Named by 1-255 Unicode code points."""
    assert name_ok(name) is good


def test_a_report_is_one_agents_claim_about_one_assets_state():
    log = Log()
    log.report("a1", "down", 100)
    log.report("a1", "up", 100, asset="other")
    assert {name: asset.shown for name, asset in log.bucket.assets.items()} == {
        SHOP: "down",
        "other": "up",
    }


def test_a_vote_is_an_agents_latest_report_on_an_asset():
    log = Log()
    log.report("a1", "down", 100)
    record = only(log.report("a1", "up", 200, detail='{"ms": 7}'))
    [vote] = record.votes
    assert (vote.agent, vote.state, vote.time, vote.offset) == ("a1", "up", 200, 1)
    assert (vote.reported_at, vote.expires, vote.detail) == (200, None, '{"ms": 7}')


def test_a_vote_lives_until_it_expires():
    log = Log(vote_lifetime=1000)
    log.report("a1", "down", 100)
    assert log.tick(1099) == []
    record = only(log.tick(1100))
    assert [vote.live for vote in record.votes] == [False]
    assert record.cause.type == "vote-expiry"
    assert record.cause.agent == "a1"


def test_latest_takes_the_latest_report():
    log = Log()
    log.report("a1", "down", 100)
    assert only(log.report("a2", "up", 100)).state == "up"


def test_the_ladder_is_read_from_the_most_severe_down():
    """However it is written in the file."""
    ladder = [{"state": "up", "at_least": 1}, {"state": "down", "at_least": 1}]
    log = Log(rule={"kind": "quorum", "ladder": ladder})
    log.report("a1", "up", 100)
    assert only(log.report("a2", "down", 100)).state == "down"


def test_the_ladder_ends_in_a_default_state():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    assert only(log.report("a1", "up", 100)).state == "up"


def test_the_ladder_ends_in_keep():
    log = Log(rule=MAJORITY)
    log.report("a1", "down", 100)
    assert only(log.report("a2", "up", 100)).state == "down"


def test_a_threshold_sums_the_integer_weights_of_the_live_votes_for_its_state_or_a_worse_one():
    ladder = [{"state": "down", "at_least": 3}, {"state": "slow", "at_least": 3}]
    rule = {"kind": "quorum", "ladder": ladder, "default": "up"}
    log = Log(rule=rule, weights={"big": 2})
    log.report("big", "down", 100)
    assert log.state() == "up"
    assert only(log.report("a1", "slow", 100)).state == "slow"
    assert only(log.report("a2", "down", 100)).state == "down"


def test_the_mildest_states_threshold_sums_the_votes_for_exactly_it():
    log = Log(rule=MAJORITY)
    log.report("a1", "down", 100)
    assert only(log.report("a2", "up", 100)).state == "down"
    assert only(log.report("a3", "up", 100)).state == "up"


def test_weights_go_by_name_then_by_the_longest_prefix_and_are_else_one():
    rule = scenario(weights={"s*": 2, "s-big*": 5, "s-big-7": 9, "w": 0})
    agents = ("s-1", "s-big-1", "s-big-7", "w", "w2", "user:s-1")
    assert [rule.weight(agent) for agent in agents] == [2, 5, 9, 0, 1, 1]


def test_k_is_a_weight():
    rule = {"kind": "quorum", "ladder": [{"state": "down", "at_least": 2}], "default": "up"}
    log = Log(rule=rule, weights={"big": 2})
    assert only(log.report("a1", "down", 100)).state == "up"
    assert only(log.report("big", "down", 100)).state == "down"


@pytest.mark.parametrize(
    ("threshold", "for_it", "against", "met"),
    [
        ({"at_least": "1/2"}, 1, 1, True),
        ({"more_than": "1/2"}, 1, 1, False),
        ({"more_than": "1/2"}, 2, 1, True),
        ({"at_least": "2/3"}, 2, 1, True),
        ({"at_least": "2/3"}, 3, 2, False),
        ({"at_least": "1/1"}, 3, 0, True),
        ({"more_than": "0/1"}, 1, 9, True),
    ],
)
def test_fractions_are_of_the_weight_of_all_live_votes(threshold, for_it, against, met):
    rule = {"kind": "quorum", "ladder": [{"state": "down", **threshold}], "default": "up"}
    log = Log(rule=rule)
    for number in range(against):
        log.report(f"n{number}", "slow", 100)
    for number in range(for_it):
        log.report(f"y{number}", "down", 100)
    assert log.state() == ("down" if met else "up")


def test_fractions_are_of_the_electorate_where_the_scenario_names_one():
    log = Log(rule={**MAJORITY, "default": "up"}, electorate=5)
    assert only(log.report("a1", "down", 100)).state == "up"
    assert only(log.report("a2", "down", 100)).state == "up"
    assert only(log.report("a3", "down", 100)).state == "down"


def test_at_least_one_is_a_quorum():
    log = Log(rule=ANY)
    for number in range(4):
        log.report(f"a{number}", "up", 100)
    assert only(log.report("a9", "down", 100)).state == "down"


def test_majority_is_a_quorum():
    log = Log(rule=MAJORITY)
    states = [only(log.report(f"a{n}", "down" if n else "up", 100)).state for n in range(3)]
    assert states == ["up", "up", "down"]


def test_unconfirmed_no_live_vote_is_left():
    """Nothing is tallied, the asset keeps its state; silence never reads as all-clear."""
    log = Log(rule=ANY, vote_lifetime=1000)
    assert not only(log.report("a1", "down", 100)).unconfirmed
    record = only(log.tick(5000))
    assert (record.state, record.unconfirmed, record.since) == ("down", True, 100)


def test_unconfirmed_fewer_than_min_voters():
    log = Log(rule=ANY, min_voters=2, vote_lifetime=1000)
    log.report("a1", "down", 100)
    assert not only(log.report("a2", "up", 200)).unconfirmed
    record = only(log.tick(1100))
    assert (record.state, record.unconfirmed_reason) == ("down", "1 of 2 voters")
    assert [vote.agent for vote in record.votes if vote.live] == ["a2"]


def test_unconfirmed_a_pending_is_cancelled():
    log = Log(min_voters=2, vote_lifetime=1000, holds={"up": 5000})
    log.report("a1", "down", 100)
    log.report("a2", "down", 200)
    assert only(log.report("a2", "up", 300)).pending
    record = only(log.tick(1100))
    assert (record.pending, record.state, record.unconfirmed) == (None, "down", True)


def test_a_first_report_sets_the_state_all_the_same_unconfirmed():
    record = only(Log(min_voters=2).report("a1", "down", 100))
    assert (record.state, record.previous, record.unconfirmed) == ("down", None, True)


def test_hold_is_how_long_a_new_tally_must_last_before_it_becomes_the_state():
    log = Log(holds={"up": 5000})
    log.report("a1", "down", 100)
    assert only(log.report("a1", "up", 200)).state == "down"
    assert log.tick(5199) == []
    assert only(log.tick(5200)).state == "up"


def test_hold_is_per_target_state():
    """So that an attack may show at once and an all-clear after five minutes."""
    log = Log(holds={"up": 5000})
    log.report("a1", "up", 100)
    assert only(log.report("a1", "down", 200)).state == "down"
    assert only(log.report("a1", "up", 300)).state == "down"


def test_pending_tells_the_state_it_would_become_and_when():
    log = Log(holds={"up": 5000})
    log.report("a1", "down", 100)
    pending = only(log.report("a1", "up", 200)).pending
    assert pending
    assert (pending.state, pending.since, pending.due) == ("up", 200, 5200)


def test_an_override_wins_over_the_tally_which_goes_on_underneath():
    log = Log()
    log.report("a1", "up", 100)
    log.command("set", state="down", reason="seen", at=200)
    record = only(log.report("a1", "slow", 300))
    assert record.state == "down"
    assert record.override
    assert (record.override.underlying, record.override.user) == ("slow", "olga")
    assert (record.override.reason, record.override.command) == ("seen", "id-1")
    assert log.command("release", at=400).cause.type == "release"
    assert log.state() == "slow"


def test_an_override_has_an_optional_end():
    log = Log()
    log.report("a1", "up", 100)
    log.command("set", state="down", until=1000, at=200)
    assert log.tick(999) == []
    assert only(log.tick(1000)).state == "up"
    log.command("set", state="down", at=1000)
    assert log.tick(10**9) == []


def test_a_reminder_is_a_record_repeated_every_so_often_while_an_asset_stays_in_a_state():
    log = Log(reminders={"down": 1000})
    log.report("a1", "down", 100)
    first, second = only(log.tick(1100)), only(log.tick(2100))
    assert (first.cause.type, first.cause.time, second.cause.time) == ("reminder", 1100, 2100)
    assert (first.state, first.since) == ("down", 100)
    log.report("a1", "up", 2200)
    assert log.tick(10_000) == []


def test_purge_after_is_how_long_an_asset_may_stay_in_a_state_before_it_purges_itself():
    log = Log(purge_after={"up": 1000})
    log.report("a1", "up", 100)
    log.report("a1", "up", 600)
    assert log.tick(1099) == []
    [tombstone] = log.tick(1100)
    assert isinstance(tombstone, Tombstone)
    assert (tombstone.asset, tombstone.cause.type) == (SHOP, "purge-after")
    assert log.state() is None


def test_a_set_pins_an_override():
    log = Log()
    log.report("a1", "up", 100)
    answer = log.command("set", state="down", at=200)
    assert isinstance(answer, StateRecord)
    assert (answer.state, answer.previous, answer.since) == ("down", "up", 200)
    assert answer.answer == Answer("id-1", "applied")
    assert (answer.cause.type, answer.cause.user, answer.cause.command) == ("set", "olga", "id-1")


def test_a_vote_counts_as_one_more_agent():
    log = Log(rule=MAJORITY)
    log.report("a1", "up", 100)
    log.report("a2", "down", 100)
    log.command("vote", state="down", at=200)
    assert log.state() == "down"


def test_a_transition_is_a_change_of_an_assets_state():
    """The record tells the state before, and since when the new one holds."""
    log = Log()
    log.report("a1", "up", 100)
    record = only(log.report("a1", "down", 200))
    assert (record.previous, record.state, record.since) == ("up", "down", 200)
    record = only(log.report("a2", "down", 300))
    assert (record.previous, record.state, record.since) == ("up", "down", 200)


def test_a_bucket_is_all_assets_of_one_source_partition():
    log = Log()
    for number in range(5):
        record = only(log.report("a1", "up", 100, asset=f"asset-{number}"))
        assert record.cause.partition == 3
    assert log.bucket.live == len(log.bucket.assets) == 5


# ---- a record is emitted -------------------------------------------------------------------


def test_emitted_when_the_state_changes():
    log = Log()
    log.report("a1", "up", 100)
    assert only(log.report("a1", "down", 101)).state == "down"


def test_emitted_when_pending_changes():
    log = Log(holds={"up": 500}, vote_lifetime=1000, min_voters=1)
    log.report("a1", "down", 100)
    assert only(log.report("a1", "up", 200)).pending
    assert not only(log.report("a1", "down", 300)).pending


def test_emitted_when_the_override_changes():
    log = Log()
    log.report("a1", "up", 100)
    log.command("set", state="up", until=1000)
    assert only(log.tick(1000)).override is None


def test_emitted_when_the_unconfirmed_mark_changes():
    log = Log()
    log.report("a1", "up", 100)
    record = only(log.switch(200, min_voters=2))
    assert (record.unconfirmed, record.cause.type) == (True, "scenario")


def test_emitted_when_some_votes_agent_state_or_weight_changes():
    log = Log(rule=ANY)
    log.report("a1", "up", 100)
    assert only(log.report("a2", "up", 100))
    assert only(log.report("a2", "slow", 100))
    record = only(log.switch(200, rule=ANY, weights={"a2": 4}))
    assert [vote.weight for vote in record.votes] == [1, 4]


def test_emitted_for_a_command_and_a_reminder():
    log = Log(reminders={"up": 1000})
    log.report("a1", "up", 100)
    assert log.outcome("release", 200) == "no-change"
    assert only(log.tick(1100)).cause.type == "reminder"


def test_not_emitted_otherwise():
    log = Log()
    log.report("a1", "up", 100)
    assert log.report("a1", "up", 200, detail='{"ms": 9}') == []
    assert log.tick(300) == []
    assert log.switch(400, holds={"up": 1000}) == []


def test_emitted_to_refresh_ages_on_a_report_30_s_or_more_after_the_last_emission():
    log = Log()
    log.report("a1", "up", 100)
    assert log.report("a1", "up", 99 + REFRESH_AFTER) == []
    record = only(log.report("a1", "up", 100 + REFRESH_AFTER))
    assert record.votes[0].time == 100 + REFRESH_AFTER == 30_100
    assert log.report("a1", "up", 200 + REFRESH_AFTER) == []


def test_the_last_emission_is_as_old_as_what_it_tells_of_not_as_its_noticing():
    log = Log(reminders={"up": 1000 * 1000})
    log.report("a1", "up", 0)
    assert causes(log.tick(1_029_000)) == [("reminder", 1_000_000)]
    assert causes(log.report("a1", "up", 1_030_000)) == [("report", 1_030_000)]


def test_the_votes_of_a_record_stand_in_order_of_agent():
    log = Log()
    for agent in ("b", "c", "a"):
        record = log.report(agent, "up", 100)[0]
    assert isinstance(record, StateRecord)
    assert [vote.agent for vote in record.votes] == ["a", "b", "c"]


# ---- time ----------------------------------------------------------------------------------


def test_a_buckets_clock_is_the_highest_append_time_so_far():
    log = Log()
    log.report("a1", "up", 500)
    record = only(log.report("a1", "down", 300))
    assert (log.bucket.clock, record.since, record.cause.time) == (500, 500, 500)


def test_never_an_agents_clock():
    log = Log(vote_lifetime=1000)
    record = only(log.report("a1", "up", 500, reported_at=90_000))
    assert (log.bucket.clock, record.votes[0].expires) == (500, 1500)


def test_before_a_record_is_applied_all_that_is_due_at_or_before_its_time_is_applied():
    log = Log(holds={"up": 1000})
    log.report("a1", "down", 100)
    log.report("a1", "up", 200)
    emissions = log.report("a1", "down", 1200)
    assert causes(emissions) == [("hold", 1200), ("report", 1200)]


def test_in_order_of_due_time():
    log = Log(holds={"up": 1000}, reminders={"down": 700, "up": 500})
    log.report("a1", "down", 0)
    log.report("a1", "up", 100)
    log.command("set", state="up", until=900)
    assert causes(log.tick(1600)) == [
        ("reminder", 600),
        ("override-end", 900),
        ("hold", 1100),
        ("reminder", 1600),
    ]


def test_at_equal_times_override_end_then_all_expiries_at_once_then_hold():
    log = Log(holds={"up": 1000}, vote_lifetime=1000)
    log.report("a0", "down", 0, reported_at=0)
    log.report("z", "up", 1)
    log.report("b", "up", 1)
    log.report("k", "up", 900)
    log.command("set", state="up", until=1001, at=1)
    emissions = log.tick(1001)
    timers = [(e.cause.type, e.cause.agent) for e in emissions if isinstance(e, StateRecord)]
    assert timers == [
        ("vote-expiry", "a0"),
        ("override-end", None),
        ("vote-expiry", None),
        ("hold", None),
    ]


def test_at_equal_times_a_reminder_comes_before_purge_after():
    log = Log(reminders={"up": 1000}, purge_after={"up": 1000})
    log.report("a1", "up", 0)
    assert causes(log.tick(1000)) == [("reminder", 1000), ("purge-after", 1000)]


def test_at_equal_times_a_hold_comes_before_a_reminder():
    log = Log(holds={"up": 1000}, reminders={"down": 500})
    log.report("a1", "down", 0)
    log.report("a1", "up", 0)
    assert causes(log.tick(1000)) == [("reminder", 500), ("hold", 1000)]


def test_what_time_causes_happens_at_its_due_time_not_when_it_was_noticed():
    log = Log(holds={"up": 1000})
    log.report("a1", "down", 100)
    log.report("a1", "up", 200)
    record = only(log.tick(60_000))
    assert (record.since, record.cause.time) == (1200, 1200)


def test_lag_delays_a_timer_and_never_changes_its_outcome():
    late, prompt = Log(holds={"up": 1000}), Log(holds={"up": 1000})
    for log in (late, prompt):
        log.report("a1", "down", 100)
        log.report("a1", "up", 200)
    noticed = only(prompt.tick(1200))
    assert only(late.tick(90_000)) == noticed


def test_several_reminders_missed_become_one_record_which_raises_the_step_by_their_number():
    log = Log(reminders={"down": 1000})
    log.report("a1", "down", 0)
    record = only(log.tick(4500))
    assert (record.version, record.cause.time) == (Version(1, 0, 4), 4000)
    assert only(log.tick(5000)).version == Version(1, 0, 5)


def test_missed_reminders_end_where_something_else_is_due():
    log = Log(reminders={"down": 1000}, vote_lifetime=2500)
    log.report("a1", "down", 0)
    emissions = log.tick(4500)
    assert causes(emissions) == [("reminder", 2000), ("vote-expiry", 2500), ("reminder", 4000)]
    assert [e.version.step for e in emissions if isinstance(e, StateRecord)] == [2, 3, 5]


# ---- rules are in the log ------------------------------------------------------------------


def test_the_fold_switches_at_that_offset_and_tallies_every_asset_anew():
    log = Log()
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    log.report("a1", "down", 100, asset="other")
    record = only(log.switch(200, rule=ANY))
    assert (record.asset, record.state, record.since) == (SHOP, "down", 200)
    assert (record.cause.type, record.version) == ("scenario", Version(1, 3, 0))


def test_the_same_rule_again_changes_nothing():
    log = Log()
    log.report("a1", "down", 100)
    assert log.switch(200) == []
    assert log.now().version.offset == log.offset + 1


def test_timers_are_computed_again_from_their_starts():
    log = Log(vote_lifetime=5000)
    log.report("a1", "down", 1000)
    log.switch(1500, vote_lifetime=2000)
    assert causes(log.tick(9000)) == [("vote-expiry", 3000)]


def test_a_pending_goes_on_with_the_new_hold_from_its_start():
    log = Log(holds={"up": 5000})
    log.report("a1", "down", 0)
    log.report("a1", "up", 1000)
    pending = only(log.switch(1500, holds={"up": 3000})).pending
    assert pending
    assert (pending.since, pending.due) == (1000, 4000)


def test_timers_already_past_fire_at_that_records_time():
    log = Log()
    log.report("a1", "up", 1000)
    [tombstone] = log.switch(9000, purge_after={"up": 2000})
    assert isinstance(tombstone, Tombstone)
    assert (tombstone.cause.type, tombstone.cause.time) == ("purge-after", 9000)
    assert tombstone.version == Version(1, 1, 1)


def test_reminders_already_past_are_one_record_at_that_records_time():
    log = Log()
    log.report("a1", "down", 0)
    record = only(log.switch(4500, reminders={"down": 1000}))
    assert (record.cause.type, record.cause.time) == ("reminder", 4500)
    assert causes(log.tick(5000)) == [("reminder", 5000)]


def test_votes_for_a_state_that_the_new_rule_does_not_have_are_dropped():
    log = Log(vocabulary="open")
    log.report("a1", "up", 0)
    log.report("a2", "odd", 0)
    record = only(log.switch(100))
    assert (record.state, [vote.agent for vote in record.votes]) == ("up", ["a1"])


# ---- version -------------------------------------------------------------------------------


def test_a_version_is_epoch_offset_step():
    """The source offset of the last record applied to the asset, a step for what time caused."""
    log = Log(epoch=7, vote_lifetime=1000, reminders={"up": 600})
    log.report("a1", "down", 0, asset="other")
    log.report("a1", "up", 0)
    assert [e.version for e in log.tick(1000) if isinstance(e, StateRecord)] == [
        Version(7, 1, 1),
        Version(7, 0, 1),
        Version(7, 1, 2),
    ]


def test_a_record_that_changes_nothing_visible_still_counts_as_applied():
    log = Log(vote_lifetime=1000)
    log.report("a1", "up", 0)
    assert log.report("a1", "up", 10) == []
    assert only(log.tick(1010)).version == Version(1, 1, 1)


def test_versions_compare_as_three_integers_and_are_stored_so_that_they_sort():
    low, high = Version.parse("1.9.10"), Version.parse("1.10.2")
    assert low < high < Version.parse("2.0.0")
    assert low.sortable() < high.sortable() < Version(2, 0, 0).sortable()
    assert Version.parse(low.sortable()) == low
    assert len(high.sortable()) == 40


@pytest.mark.parametrize("text", ["", "1.2", "1.2.3.4", "1.-2.3", "1.2.x", "a", "1.٢.3", " 1.2.3"])
def test_what_is_no_version_is_not_read(text):
    with pytest.raises(ValueError, match=r"expected epoch\.offset\.step"):
        Version.parse(text)


def test_a_version_rises_strictly_through_purge_and_re_creation():
    log = Log(purge_after={"up": 1000})
    emissions = [*log.report("a1", "up", 0), *log.tick(1000), *log.report("a1", "up", 1000)]
    emissions += [log.command("purge"), *log.report("a1", "up")]
    versions = [e.version for e in emissions if not isinstance(e, DeadLetter)]
    assert versions == sorted(set(versions))
    assert len(versions) == 5


def test_if_version_compares_with_the_version_at_which_the_state_last_changed():
    log = Log()
    log.report("a1", "up", 100)
    seen = only(log.report("a1", "down", 200)).version
    stale = Version(seen.epoch, seen.offset - 1, 0)
    assert log.outcome("set", state="up", if_version=stale) == "refused: the state has moved on"
    assert log.outcome("set", state="up", if_version=seen) == "applied"


def test_if_version_does_not_let_busy_votes_refuse_an_operator():
    log = Log(rule=ANY)
    seen = only(log.report("a1", "down", 100)).version
    for number in range(5):
        log.report(f"b{number}", "up", 200)
    assert log.outcome("set", state="up", if_version=seen) == "applied"


def test_if_version_counts_a_change_of_pending_and_of_override():
    log = Log(holds={"up": 1000})
    seen = only(log.report("a1", "down", 100)).version
    pending = only(log.report("a1", "up", 100)).version
    assert log.outcome("vote", state="up", if_version=seen) == "refused: the state has moved on"
    assert log.outcome("set", state="down", if_version=pending) == "applied"
    assert log.outcome("release", if_version=pending) == "refused: the state has moved on"


def test_if_version_counts_what_time_changed():
    log = Log(holds={"up": 1000})
    log.report("a1", "down", 0)
    pending = only(log.report("a1", "up", 0)).version
    shown = only(log.tick(1000)).version
    assert log.outcome("purge", if_version=pending) == "refused: the state has moved on"
    assert log.outcome("purge", if_version=shown) == "applied"


def test_if_version_leaves_the_epoch_out():
    log = Log(epoch=4)
    seen = only(log.report("a1", "up", 0)).version
    assert log.outcome("set", state="down", if_version=seen._replace(epoch=3)) == "applied"


def test_if_version_of_an_asset_that_is_gone_is_refused():
    log = Log()
    seen = only(log.report("a1", "up", 0)).version
    log.command("purge")
    refused = "refused: no such asset any more"
    assert log.outcome("set", state="up", if_version=seen) == refused


# ---- commands are answered -----------------------------------------------------------------


def test_every_command_is_answered_also_on_an_asset_that_is_not_there():
    log = Log()
    answer = log.command("release", 100)
    assert isinstance(answer, Tombstone)
    assert answer.answer == Answer("id-1", "no-change")
    assert log.bucket.live == 0


def test_a_repeated_command_is_answered_with_its_first_answer():
    log = Log()
    log.report("a1", "up", 100)
    log.command("set", state="down", id="one")
    log.command("release", id="two")
    again = log.command("set", state="down", id="one")
    assert again.answer == Answer("one", "applied")
    assert log.state() == "up"


def test_a_repeated_refusal_stays_refused():
    log = Log()
    log.report("a1", "up", 100)
    refused = "refused: the end is in the past"
    assert log.outcome("set", state="down", until=50, id="one") == refused
    assert log.outcome("set", state="down", id="one") == refused


def test_the_last_16_ids_per_asset_are_kept():
    log = Log()
    log.report("a1", "up", 100)
    log.command("set", state="down", id="one")
    for _ in range(ANSWERS_KEPT - 1):
        log.command("release")
    assert ANSWERS_KEPT == 16
    assert log.outcome("set", state="down", id="one") == "applied"
    assert log.state() == "up"
    log.command("release")
    log.command("set", state="down", id="one")
    assert log.state() == "down"


def test_answers_outlive_a_purge_for_an_hour():
    log = Log()
    log.report("a1", "up", 0)
    log.command("purge", id="one")
    assert log.outcome("purge", LEAST_TRACE - 1, id="one") == "applied"
    assert SHOP in log.bucket.assets
    log.tick(2 * LEAST_TRACE)
    assert dict(log.bucket.assets) == {}
    assert log.outcome("purge", id="one") == "no-change"


# ---- fine print ----------------------------------------------------------------------------


def test_first_report_its_tally_becomes_the_state_at_once():
    record = only(Log(holds={"down": 5000}).report("a1", "down", 100))
    assert (record.state, record.pending, record.since) == ("down", None, 100)
    assert only(Log(rule=ANY).report("a1", "slow", 100)).state == "up"


def test_first_report_where_the_ladder_keeps_its_own_state_is_taken():
    log = Log(rule=MAJORITY, electorate=9)
    assert only(log.report("a1", "slow", 100)).state == "slow"


def test_a_pending_tally_that_returns_to_the_current_state_is_cancelled():
    log = Log(holds={"up": 1000})
    log.report("a1", "down", 0)
    log.report("a1", "up", 100)
    assert only(log.report("a1", "down", 200)).pending is None
    assert log.tick(9000) == []


def test_another_target_starts_its_own_hold():
    log = Log(holds={"up": 1000, "slow": 3000})
    log.report("a1", "down", 0)
    log.report("a1", "slow", 100)
    pending = only(log.report("a1", "up", 200)).pending
    assert pending
    assert (pending.state, pending.since, pending.due) == ("up", 200, 1200)


def test_a_worse_target_waits_since_the_milder_one_did():
    log = Log(holds={"up": 1000, "slow": 3000})
    log.report("a1", "down", 0)
    log.report("a1", "up", 100)
    pending = only(log.report("a1", "slow", 200)).pending
    assert pending
    assert (pending.state, pending.since, pending.due) == ("slow", 100, 3100)


def test_the_same_target_goes_on():
    log = Log(holds={"up": 1000})
    log.report("a1", "down", 0)
    log.report("a1", "up", 100)
    pending = only(log.report("a2", "up", 200)).pending
    assert pending
    assert (pending.since, pending.due) == (100, 1100)


def test_latest_whose_vote_expires_keeps_its_state():
    log = Log(vote_lifetime=1000)
    log.report("a2", "slow", 100)
    log.report("a1", "down", 100, reported_at=50)
    record = only(log.tick(1050))
    assert (record.cause.agent, record.state) == ("a1", "down")


def test_in_a_life_cycle_latest_whose_vote_expires_the_next_latest_live_one():
    log = Log(vote_lifetime=1000, severity="none")
    log.report("a2", "slow", 100)
    log.report("a1", "down", 100, reported_at=50)
    record = only(log.tick(1050))
    assert (record.cause.agent, record.state) == ("a1", "slow")
    assert [vote.agent for vote in record.votes] == ["a2"]


def test_latest_whose_vote_is_withdrawn_the_next_latest_live_one():
    log = Log()
    log.report("a1", "slow", 100)
    log.report("a2", "up", 200)
    log.command("vote", state="down")
    log.command("release")
    assert log.state() == "up"


def test_overrides_until_in_the_past_refused():
    log = Log()
    log.report("a1", "up", 1000)
    for until in (999, 1000):
        answer = log.command("set", state="down", until=until)
        assert answer.answer
        assert answer.answer.outcome == "refused: the end is in the past"
        assert answer.cause.type == "refused"
    assert log.outcome("set", state="down", until=1001) == "applied"


def test_at_its_end_the_underlying_state_shows_at_once():
    log = Log(holds={"slow": 500, "up": 500})
    log.report("a1", "up", 0)
    log.command("set", state="down", until=1000)
    log.report("a1", "slow", 100)
    record = log.tick(1000)[-1]
    assert isinstance(record, StateRecord)
    assert (record.state, record.previous, record.since) == ("slow", "down", 1000)
    assert (record.cause.user, record.cause.command) == ("olga", "id-1")


def test_an_override_over_nothing_leaves_an_asset_of_which_nothing_is_known():
    log = Log()
    answer = log.command("set", state="down", until=1000, at=100)
    assert isinstance(answer, StateRecord)
    assert (answer.state, answer.unconfirmed, answer.previous) == ("down", True, None)
    record = only(log.tick(1000))
    assert (record.state, record.unconfirmed, record.since) == (UNKNOWN, True, 1000)
    assert only(log.report("a1", "up", 1100)).state == "up"


def test_a_first_report_under_an_override_over_nothing_is_the_underlying_state():
    log = Log(holds={"up": 5000})
    log.command("set", state="down", at=100)
    record = only(log.report("a1", "up", 200))
    assert record.override
    assert (record.state, record.override.underlying, record.unconfirmed) == ("down", "up", False)


def test_an_operators_vote_is_agent_user_name_weight_1_normal_lifetime():
    log = Log(vote_lifetime=1000, weights={"user*": 9})
    answer = log.command("vote", state="down", at=100)
    assert isinstance(answer, StateRecord)
    [vote] = answer.votes
    assert (vote.agent, vote.weight, vote.expires) == ("user:olga", 1, 1100)
    assert causes(log.tick(1100)) == [("vote-expiry", 1100)]


def test_release_ends_the_override_and_withdraws_that_vote():
    log = Log()
    log.report("a1", "up", 100)
    log.command("vote", state="slow", user="ed")
    log.command("vote", state="down")
    log.command("set", state="down")
    answer = log.command("release")
    assert isinstance(answer, StateRecord)
    assert answer.answer == Answer("id-4", "applied")
    assert (answer.state, answer.override) == ("slow", None)
    assert [vote.agent for vote in answer.votes] == ["a1", "user:ed"]
    assert log.outcome("release") == "no-change"


def test_the_same_override_again_is_no_change():
    log = Log()
    log.report("a1", "up", 100)
    assert log.outcome("set", state="down", until=900) == "applied"
    assert log.outcome("set", state="down", until=900, at=200) == "no-change"
    assert log.outcome("set", state="down", until=950) == "applied"


def test_purge_removes_votes_timers_and_override_the_next_report_starts_afresh():
    log = Log(vote_lifetime=1000, holds={"up": 500}, reminders={"down": 300})
    log.report("a1", "down", 0)
    log.report("a1", "up", 0)
    log.command("set", state="down", until=700)
    assert isinstance(log.command("purge", 100), Tombstone)
    assert log.tick(5000) == []
    record = only(log.report("a2", "up", 5000))
    assert (record.state, record.previous, record.since) == ("up", None, 5000)
    assert (record.pending, record.override, len(record.votes)) == (None, None, 1)


def test_a_purge_of_nothing_is_no_change():
    assert Log().outcome("purge") == "no-change"


def test_since_of_what_time_caused_is_the_due_time():
    log = Log(vote_lifetime=1000, holds={"up": 500})
    log.report("a1", "down", 0)
    log.report("a2", "up", 600)
    expiry, hold = log.tick(1599)
    assert isinstance(expiry, StateRecord)
    assert isinstance(hold, StateRecord)
    assert [vote.silent for vote in expiry.votes] == [1000, None]
    assert (hold.state, hold.since) == ("up", 1100)


def test_open_vocabulary_unknown_states_rank_least_severe():
    rule = scenario(vocabulary="open")
    assert [rule.severity(state) for state in ("down", "up", "odd")] == [0, 2, 3]
    assert only(Log(vocabulary="open").report("a1", "odd", 100)).state == "odd"


def test_reported_at_orders_that_agents_own_reports_on_one_asset():
    """A spool that empties late changes nothing newer."""
    log = Log()
    log.report("a1", "up", 1000, reported_at=900)
    assert log.report("a1", "down", 1001, reported_at=899) == []
    assert log.bucket.lateness.total("late") == 1
    assert only(log.report("a2", "down", 1002, reported_at=1)).state == "down"
    assert only(log.report("a1", "down", 1003, reported_at=1, asset="other")).state == "down"


def test_a_late_report_is_not_applied_to_the_asset():
    log = Log(vote_lifetime=1000)
    log.report("a1", "up", 1000, reported_at=900)
    log.report("a1", "down", 1001, reported_at=899)
    assert only(log.tick(2000)).version == Version(1, 0, 1)


def test_at_equal_times_the_later_offset_wins():
    log = Log()
    log.report("a1", "up", 1000, reported_at=900)
    assert only(log.report("a1", "down", 1001, reported_at=900)).state == "down"


def test_a_report_older_than_max_report_age_is_counted_and_changes_no_vote():
    log = Log(max_report_age=500)
    assert log.report("a1", "up", 1000, reported_at=499) == []
    assert (log.bucket.lateness.total("stale"), log.state()) == (1, None)
    assert only(log.report("a1", "up", 1000, reported_at=500)).state == "up"
    assert log.report("a1", "down", 2000, reported_at=1499) == []
    assert log.bucket.lateness.total("stale") == 2


# ---- bad input -----------------------------------------------------------------------------


def test_unknown_state_is_a_dead_letter_and_the_fold_goes_on():
    log = Log()
    assert log.report("a1", "odd", 100) == [DeadLetter("unknown-state")]
    assert log.bucket.assets == {}
    assert only(log.report("a1", "up", 100)).state == "up"


def test_what_could_not_be_read_is_a_dead_letter_with_its_reason_and_time_passes():
    log = Log(vote_lifetime=1000)
    log.report("a1", "up", 0)
    expiry, dead = log.add(Unreadable("not-json"), 1000)
    assert isinstance(expiry, StateRecord)
    assert dead == DeadLetter("not-json")


def test_a_command_whose_id_and_asset_can_be_read_is_answered_refused_instead():
    log = Log()
    log.report("a1", "up", 0)
    record = only(log.add(Refusal(SHOP, "one", "olga", "until: expected Unix milliseconds")))
    assert record.answer == Answer("one", "refused: until: expected Unix milliseconds")
    assert (record.state, record.cause.type, record.cause.user) == ("up", "refused", "olga")


@pytest.mark.parametrize("kind", ["set", "vote"])
def test_a_command_for_an_unknown_state_is_answered_refused(kind):
    log = Log()
    log.report("a1", "up", 0)
    assert log.outcome(kind, state="odd") == "refused: unknown state"
    assert log.state() == "up"


def test_too_many_agents_on_one_asset_are_refused():
    """None of those that say something worse makes way."""
    log = Log()
    for number in range(MAX_VOTERS):
        log.report(f"a{number}", "down", 0)
    assert log.report("one-more", "up", 0) == [DeadLetter("too-many-agents")]
    assert log.outcome("vote", state="up") == "refused: too many agents"
    assert log.report("a7", "down", 0) == []
    assert log.outcome("set", state="up") == "applied"
