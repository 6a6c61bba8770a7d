"""What a living agent said last is on its row, over all histories of a few steps.

Each rule that sees to it is needed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from domain import doubts, fold, votes
from domain.asset import Asset
from domain.fold import Bucket
from domain.records import STALE, Doubt, Report, Vote
from domain.scenario import CLAIM_FOLD, Scenario
from support.histories.false_green import Board, Example
from support.histories.last_words import kept_words, last_words
from support.histories.standing_words import (
    BAD,
    GOOD,
    MEH,
    SMALL,
    WIDE,
    Act,
    History,
    faulty,
    histories,
)
from support.run.selection import is_whole


def some(one_in: int, alphabet: tuple[Act, ...], length: int) -> Iterator[History]:
    """Yield one in so many histories of so many steps, the same ones each time."""
    chosen = random.Random(length)
    return (each for each in histories(alphabet, length) if chosen.random() * one_in < 1)


def test_no_history_of_three_steps_hides_what_was_said_last() -> None:
    share = 1 if is_whole() else 40
    assert list(faulty(some(share, SMALL, 3))) == []


def test_no_history_of_three_steps_of_all_kinds_hides_what_was_said_last() -> None:
    share = 20 if is_whole() else 1000
    assert list(faulty(some(share, WIDE, 3))) == []


FOUND = (
    (1, 6, (), (Act("say", GOOD, 2), Act("leave"), Act("say", BAD, -30), Act("again"))),
    (2, 1, (), (Act("say", GOOD, 6), Act("rename", GOOD), Act("say", MEH), Act("rename", BAD))),
    (
        2, 6, (Act("say", GOOD),),
        (Act("say", BAD, -30), Act("leave"), Act("say", BAD, -30), Act("again")),
    ),
)  # fmt: skip
"""Of four steps, in which a silent report or a late one once took a worse word back."""


@pytest.mark.parametrize("history", FOUND)
def test_what_four_steps_have_found_stays_right(history: Any) -> None:
    assert list(faulty(iter([History(*history)]))) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_history_of_four_steps_hides_what_was_said_last() -> None:
    assert list(faulty(some(4, SMALL, 4))) == []
    assert list(faulty(some(400, WIDE, 4))) == []


def test_the_fold_of_version_5_hides_what_was_said_last() -> None:
    duplicate = (Act("say", GOOD, 2), Act("say", BAD), Act("again"))
    [(_, faults)] = faulty(iter([History(0, 1, (), duplicate)]), CLAIM_FOLD - 1)
    assert faults


# ---- faults that must be found ----------------------------------------------------------------

Fault = Callable[[pytest.MonkeyPatch], None]


def order_time_orders_an_agents_reports(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bucket, "_precedes", lambda _self, former, _claimed, order: order < former.order)


def a_milder_word_of_the_same_time_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bucket, "_repeats", lambda *_: False)


def a_silent_votes_claim_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    kept = Vote.claim.fget  # type: ignore[attr-defined]
    patch.setattr(Vote, "claim", property(lambda v: 0 if v.silent is not None else kept(v)))


def a_silent_votes_claim_lasts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Vote, "claim", property(lambda vote: vote.claimed))


def a_clock_that_went_back_is_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bucket, "_went_back", lambda *_: False)


def the_former_claim_is_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "_keep_claim", lambda _former, vote: vote)


def to_say_it_again_says_nothing(patch: pytest.MonkeyPatch) -> None:
    doubt = Bucket._doubt

    def deaf(self: Bucket, name: str, agent: str, reason: str, said: str | None) -> None:
        if reason != STALE or agent not in self.assets[name].votes:
            doubt(self, name, agent, reason, said)

    patch.setattr(Bucket, "_doubt", deaf)


def any_report_ends_a_stale_doubt(patch: pytest.MonkeyPatch) -> None:
    end = doubts.end_doubt

    def hasty(scenario: Scenario, asset: Asset, vote: Vote) -> None:
        end(scenario, asset, replace(vote, claimed=10**15))

    patch.setattr(doubts, "end_doubt", hasty)


def a_leave_takes_the_doubt(patch: pytest.MonkeyPatch) -> None:
    def withdraw(_: Scenario, asset: Asset, agent: str) -> None:
        asset.votes = {name: vote for name, vote in asset.votes.items() if name != agent}
        asset.doubts = {name: each for name, each in asset.doubts.items() if name != agent}

    patch.setattr(votes, "withdraw", withdraw)


def a_rename_takes_the_vote(patch: pytest.MonkeyPatch) -> None:
    def rename(rule: Scenario, _mutes: object, asset: Asset, _at: int) -> None:
        asset.votes = {name: vote for name, vote in asset.votes.items() if rule.knows(vote.state)}

    patch.setattr(doubts, "rename", rename)


def a_word_that_is_learnt_hides_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(doubts, "_said", lambda _rule, _former, doubt: doubt.said)


def the_mildest_doubt_makes_way(patch: pytest.MonkeyPatch) -> None:
    def least(scenario: Scenario, some: list[Doubt]) -> str:
        rank = doubts.severity
        return min(some, key=lambda each: (each.counts, -rank(scenario, each), each.until)).agent

    patch.setattr(doubts, "_least_needed", least)


def a_record_that_breaks_off_leaves_no_doubt(patch: pytest.MonkeyPatch) -> None:
    refuse = Bucket._doubt

    def deaf(self: Bucket, name: str, agent: str, reason: str, said: str | None) -> None:
        if reason != "not-json":
            refuse(self, name, agent, reason, said)

    patch.setattr(Bucket, "_doubt", deaf)


def a_detail_sinks_its_report(patch: pytest.MonkeyPatch) -> None:
    report = Bucket._report

    def strict(self: Bucket, given: Report) -> None:
        if given.sunk is None:
            report(self, given)

    patch.setattr(Bucket, "_report", strict)


FAULTS: tuple[Fault, ...] = (
    order_time_orders_an_agents_reports,
    a_milder_word_of_the_same_time_counts,
    a_silent_votes_claim_is_forgotten,
    a_silent_votes_claim_lasts,
    a_clock_that_went_back_is_late,
    the_former_claim_is_dropped,
    to_say_it_again_says_nothing,
    any_report_ends_a_stale_doubt,
    a_leave_takes_the_doubt,
    a_rename_takes_the_vote,
    a_word_that_is_learnt_hides_another,
    the_mildest_doubt_makes_way,
    a_record_that_breaks_off_leaves_no_doubt,
    a_detail_sinks_its_report,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fold_with_a_fault_hides_a_last_word(
    monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    fault(monkeypatch)
    assert any(_is_wrong(example) for example in (*last_words(), *kept_words()))


def _is_wrong(example: Example) -> bool:
    bucket = Bucket(example.scenario, example.partition, 1)
    out = [
        each for offset, at, record in example.lines for each in bucket.apply(record, offset, at)
    ]
    try:
        example.check(Board(out))
    except AssertionError:
        return True
    return False
