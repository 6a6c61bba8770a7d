"""An example of each sentence about mutes; names are the sentences."""

from __future__ import annotations

from typing import Any

import pytest

from domain.records import (
    MAX_MUTED,
    MAX_VOTERS,
    DeadLetter,
    Emission,
    Mute,
    Muted,
    StateRecord,
    Unmute,
    Vote,
)
from support.histories.foldlog import ANY, MAJORITY, SHOP, Log, causes, only

ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def mute(
    log: Log, agent: str, until: int | None = None, at: int | None = None, **more: str
) -> list[Emission]:
    """Mute an agent; ed does, unless told."""
    fields: dict[str, Any] = {"user": "ed", "reason": "wild", "id": ID, **more}
    return log.add(Mute(agent, until, **fields), at)


def unmute(log: Log, agent: str, at: int | None = None) -> list[Emission]:
    """Let an agent be heard again."""
    return log.add(Unmute(agent, "olga", "mended", ID), at)


def vote_of(log: Log, agent: str) -> Vote:
    """An agent's vote on the shop."""
    return log.bucket.assets[SHOP].votes[agent]


def states(emissions: list[Emission]) -> list[str]:
    """The state in each record."""
    return [e.state for e in emissions if isinstance(e, StateRecord)]


def test_the_vote_of_a_muted_agent_is_kept_and_shown_with_its_expiry():
    log = Log(rule=ANY, vote_lifetime=1000)
    log.report("a1", "down", 100)
    record = only(mute(log, "a1", 900, at=200))
    [vote] = record.votes
    assert (vote.agent, vote.state, vote.time, vote.expires) == ("a1", "down", 100, 1100)
    assert (vote.weight, vote.muted) == (0, Muted(900, "ed"))


def test_its_reports_are_still_taken_as_votes():
    log = Log(rule=ANY)
    log.report("a1", "up", 100)
    log.report("a2", "up", 100)
    mute(log, "a1")
    record = only(log.report("a1", "down", 300))
    assert (record.state, record.votes[0].state, record.votes[0].muted) == (
        "up",
        "down",
        Muted(None, "ed"),
    )


def test_the_votes_of_a_muted_agent_are_in_no_sum():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    mute(log, "a1", at=200)
    assert only(log.report("a2", "up", 30_200)).state == "up"


def test_a_mute_lowers_no_state_it_only_makes_it_unconfirmed():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    record = only(mute(log, "a1", at=200))
    assert (record.state, record.cause.type, record.since) == ("down", "mute", 100)
    assert record.unconfirmed_reason == "nobody says it is this bad"


def test_a_mute_may_raise_a_state():
    log = Log(rule=MAJORITY)
    for agent, state in (("a1", "up"), ("a2", "down")):
        log.report(agent, state, 100)
    record = only(mute(log, "a1", at=200))
    assert (record.state, record.cause.type, record.since) == ("down", "mute", 200)


def test_what_a_silent_agent_said_last_goes_once_it_is_muted():
    log = Log(rule=ANY, vote_lifetime=1000)
    log.report("a1", "down", 100)
    log.tick(1100)
    record = only(mute(log, "a1"))
    assert (record.votes, record.state) == ((), "down")


def test_the_vote_of_a_muted_agent_that_expires_is_gone():
    log = Log(rule=ANY, vote_lifetime=1000)
    log.report("a1", "down", 100)
    mute(log, "a1")
    assert only(log.tick(1100)).votes == ()


def test_fractions_are_of_the_weight_of_all_live_votes_but_the_muted():
    log = Log(rule=MAJORITY)
    for agent, state in (("a1", "up"), ("a2", "up"), ("a3", "down"), ("a4", "up")):
        log.report(agent, state, 100)
    mute(log, "a1")
    mute(log, "a2")
    assert log.state() == "up"  # one of two is not more than a half
    assert only(log.report("a4", "down", 200)).state == "down"


def test_an_electorate_stays_as_the_scenario_names_it():
    """A muted agent is as good as silent, and silence makes no quorum easier either."""
    log = Log(rule={**MAJORITY, "default": "up"}, electorate=3)
    mute(log, "a1")
    log.report("a2", "up", 100)
    log.report("a1", "down", 100)
    assert only(log.report("a2", "down", 200)).state == "up"
    assert only(log.report("a3", "down", 200)).state == "down"


def test_a_muted_agent_is_none_of_min_voters():
    log = Log(rule=ANY, min_voters=2)
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    record = only(mute(log, "a2"))
    assert (record.state, record.unconfirmed) == ("down", True)


def test_latest_takes_the_latest_vote_that_is_not_muted():
    log = Log()
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    assert only(mute(log, "a2")).state == "down"
    assert only(log.report("a2", "slow", 200)).state == "down"


def test_an_asset_whose_agents_are_all_muted_keeps_its_state_unconfirmed():
    log = Log(rule=ANY, holds={"up": 500})
    log.report("a1", "down", 100)
    log.report("a1", "up", 200)
    record = only(mute(log, "a1", at=300))
    assert (record.state, record.unconfirmed, record.pending) == ("down", True, None)


def test_a_muted_agents_report_on_an_asset_that_there_is_not_makes_none():
    log = Log()
    mute(log, "a1")
    assert log.report("a1", "down", 100) == []
    assert log.bucket.assets == {}
    log.command("purge", 200)
    assert log.report("a1", "down", 300) == []
    assert log.state() is None


def test_under_an_override_over_nothing_a_muted_vote_sets_no_state():
    log = Log()
    mute(log, "a1")
    log.command("set", state="down", at=100)
    record = only(log.report("a1", "up", 200))
    assert record.override
    assert (record.override.underlying, record.unconfirmed) == (None, True)
    heard = only(unmute(log, "a1")).override
    assert heard
    assert heard.underlying == "up"


def test_a_mute_tallies_every_asset_of_the_bucket_on_which_the_agent_votes_and_no_other():
    log = Log(rule=ANY)
    for asset in ("one", "two"):
        log.report("a1", "down", 100, asset=asset)
    log.report("a2", "down", 100, asset="three")
    emissions = mute(log, "a1", at=200)
    assert [e.asset for e in emissions if isinstance(e, StateRecord)] == ["one", "two"]
    cause = only(emissions[:1]).cause
    assert (cause.agent, cause.user, cause.command, cause.offset) == ("a1", "ed", ID, 3)
    assert log.bucket.assets["three"].offset == 2


def test_holds_decide_after_a_mute_too():
    log = Log(holds={"down": 500, "slow": 900})
    log.report("a1", "up", 100)
    log.report("a2", "down", 100)
    log.report("a1", "up", 150)
    record = only(mute(log, "a1", at=200))
    assert (record.state, record.pending and record.pending.due) == ("up", 700)
    assert states(log.tick(700)) == ["down"]


def test_a_mute_ends_at_its_time_not_when_that_was_noticed():
    log = Log(rule=ANY)
    mute(log, "a1", 1000, at=100)
    log.report("a2", "up", 200)
    assert only(log.report("a1", "down", 200)).state == "up"
    assert log.tick(999) == []
    record = only(log.tick(5000))
    assert (record.state, record.since, record.cause.time) == ("down", 1000, 1000)
    assert (record.cause.type, record.cause.agent, record.cause.user) == ("mute-end", "a1", "ed")
    assert (record.votes[0].weight, record.votes[0].muted) == (1, None)
    assert log.bucket.mutes == {}


def test_a_mute_without_end_is_taken_back():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    log.report("a2", "up", 100)
    mute(log, "a1")
    assert log.tick(10**9) == []
    record = only(unmute(log, "a1"))
    assert (record.state, record.cause.type, record.cause.user) == ("down", "unmute", "olga")
    assert unmute(log, "a1") == []


def test_at_equal_times_a_mute_ends_after_vote_expiry_and_before_hold():
    """A vote that expires then never counts again; a hold that passes then is asked first."""
    log = Log(rule=ANY, vote_lifetime=1000, holds={"up": 600})
    log.report("a1", "down", 100)
    mute(log, "a1", 1100)
    log.report("a2", "up", 500)  # up is pending until 1100, when the vote of a1 expires
    emissions = log.tick(1100)
    assert causes(emissions) == [("vote-expiry", 1100), ("hold", 1100)]
    assert log.state() == "up"


def test_at_equal_times_a_mute_that_ends_cancels_a_pending_before_its_hold_has_passed():
    log = Log(rule=ANY, holds={"up": 600})
    log.report("a1", "down", 100)
    mute(log, "a1", 1100)
    assert only(log.report("a2", "up", 500)).pending
    assert causes(log.tick(1100)) == [("mute-end", 1100)]
    assert log.state() == "down"


def test_mutes_that_end_at_one_time_end_at_once():
    log = Log(rule=ANY)
    mute(log, "b", 1000)
    mute(log, "a", 1000)
    log.report("c", "up", 100)
    for agent in ("b", "a"):
        log.report(agent, "down", 100)
    record = only(log.tick(1000))
    assert (record.state, record.cause.type, record.cause.agent) == ("down", "mute-end", None)


def test_a_mute_is_idempotent():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    assert len(mute(log, "a1", 1000)) == 1
    assert mute(log, "a1", 1000, at=200) == []


def test_a_repeated_mute_with_another_end_replaces_it():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    mute(log, "a1", 1000)
    assert only(mute(log, "a1", 3000)).votes[0].muted == Muted(3000, "ed")
    assert log.tick(2999) == []
    assert causes(log.tick(3000)) == [("mute-end", 3000)]


def test_a_mute_that_is_repeated_without_end_has_none():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    mute(log, "a1", 1000)
    mute(log, "a1", None)
    assert log.tick(5000) == []
    assert vote_of(log, "a1").muted == Muted(None, "ed")


def test_a_vote_of_weight_zero_is_marked_too():
    log = Log(weights={"a1": 0})
    log.report("a2", "up", 100)
    log.report("a1", "down", 100)
    assert only(mute(log, "a1")).state == "up"


def test_a_change_of_rule_leaves_a_mute_in_force():
    log = Log(rule=ANY)
    log.report("a1", "down", 100)
    mute(log, "a1", 1000)
    log.switch(200, rule=ANY, weights={"a1": 7})
    assert (vote_of(log, "a1").weight, vote_of(log, "a1").muted) == (0, Muted(1000, "ed"))
    log.tick(1000)
    assert vote_of(log, "a1").weight == 7


def test_a_muted_agents_vote_is_one_of_those_that_an_asset_takes_and_the_first_to_make_way():
    log = Log()
    for number in range(MAX_VOTERS):
        log.report(f"a{number}", "down", 0)
    assert log.report("one-more", "up") == [DeadLetter("too-many-agents")]
    mute(log, "a7")
    record = only(log.report("one-more", "up"))
    assert {"a7", "one-more"} & {vote.agent for vote in record.votes} == {"one-more"}


@pytest.mark.parametrize("until", [0, 199, 200])
def test_an_end_in_the_past_is_a_dead_letter(until):
    log = Log()
    log.report("a1", "down", 100)
    assert mute(log, "a1", until, at=200) == [DeadLetter("bad-time")]
    assert log.bucket.mutes == {}


def test_more_muted_agents_than_a_scenario_takes_are_dead_letters():
    log = Log()
    for number in range(MAX_MUTED):
        assert mute(log, f"a{number}", 1000) == []
    assert mute(log, "one-more") == [DeadLetter("too-many-mutes")]
    assert mute(log, "a7", 2000) == []
    unmute(log, "a8")
    assert mute(log, "one-more") == []
    log.tick(1000)
    assert set(log.bucket.mutes) == {"a7", "one-more"}
