"""What the fold promises about green, over generated histories; and that each promise is looked at.

The observer of `safety` works out anew what may move a state. A fold with a fault in it must be
found out by it, or nothing would be said by its silence.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import settings

from domain import adoption, doubts, fold, tally, transitions, votes
from domain import asset as asset_module
from domain.asset import Asset
from domain.fold import Bucket
from domain.mutes import Mutes
from domain.records import Doubt, Vote
from domain.scenario import Scenario
from domain.tally import Voices
from support.histories.histories import PROFILE, SECOND, History, every_history, seeded
from support.histories.safety import PROMISES, Breach, broken, look_for, with_loudest
from support.run.selection import examples

SEEDS = examples(120)
MOST_SEEDS = 1500
"""So many are looked at until one of them finds a fault out."""


@cache
def breaches_of(seed: int, python: bool) -> list[Breach]:
    """Return what the history of this seed breaks; python: with a rule in Python for `latest`."""
    return broken(with_loudest(seeded(seed)) if python else seeded(seed))


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("promise", PROMISES)
def test_the_promise_holds(promise: str, python: bool) -> None:
    breaches = [
        b for seed in range(SEEDS) for b in breaches_of(seed, python) if b.promise == promise
    ]
    assert breaches == []


def test_all_promises_hold_for_whatever_hypothesis_finds() -> None:
    def check(history: History, rng: random.Random) -> None:
        assert broken(with_loudest(history) if rng.random() < 0.3 else history) == []

    every_history(check, seeds=0, profile=settings(PROFILE, max_examples=examples(60)))()


# ---- faults that must be found ----------------------------------------------------------------

Fault = Callable[[pytest.MonkeyPatch], None]


def silence_is_evidence(patch: pytest.MonkeyPatch) -> None:
    judge = transitions.judge

    def loud(scenario: Scenario, asset: Asset, at: int, **_: bool) -> None:
        judge(scenario, asset, at, up=True, down=True)

    patch.setattr(transitions, "judge", loud)


def every_report_is_evidence_downwards(patch: pytest.MonkeyPatch) -> None:
    judge = transitions.judge

    def loud(
        scenario: Scenario,
        asset: Asset,
        at: int,
        *,
        up: bool = False,
        down: bool = False,
        ends: bool = True,
    ) -> None:
        judge(scenario, asset, at, up=up, down=down or up, ends=ends)

    patch.setattr(transitions, "judge", loud)


def silent_votes_are_forgotten_in_lowering(patch: pytest.MonkeyPatch) -> None:
    lowered = tally.lowered

    def deaf(scenario: Scenario, voices: Voices, *rest: str) -> str:
        return lowered(scenario, voices._replace(quiet=[]), *rest)

    patch.setattr(transitions, "lowered", deaf)


def what_raises_lowers_too(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transitions, "lowered", lambda *given: given[-1])


def two_voters_are_as_good_as_three(patch: pytest.MonkeyPatch) -> None:
    weigh = transitions._weigh

    def lax(rule: Scenario, *given: Any, **how: Any) -> None:
        weigh(replace(rule, min_voters=min(rule.min_voters, 2)), *given, **how)

    patch.setattr(transitions, "_weigh", lax)


def weightless_agents_are_voters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Vote, "live", property(lambda vote: vote.silent is None and vote.muted is None))


def silence_breaks_a_wait_up(patch: pytest.MonkeyPatch) -> None:
    weigh = transitions._weigh

    def flapping(
        rule: Scenario, asset: Asset, state: str, voices: Voices, *rest: Any, **how: Any
    ) -> None:
        if len(voices.live) < rule.min_voters:
            asset.waits = {}
        weigh(rule, asset, state, voices, *rest, **how)

    patch.setattr(transitions, "_weigh", flapping)


def a_wait_down_is_dated_back(patch: pytest.MonkeyPatch) -> None:
    fall = transitions._fall

    def early(
        rule: Scenario, falling: Any, low: str, here: int, at: int, **how: Any
    ) -> dict[str, int]:
        return fall(rule, falling, low, here, at - SECOND, **how)

    patch.setattr(transitions, "_fall", early)


def a_wait_down_goes_on_whatever_is_said(patch: pytest.MonkeyPatch) -> None:
    fall = transitions._fall

    def kept(rule: Scenario, falling: dict[str, int], *given: Any, begin: bool) -> dict[str, int]:
        return {**falling, **fall(rule, falling, *given, begin=begin)}

    patch.setattr(transitions, "_fall", kept)


def holds_are_shorter(patch: pytest.MonkeyPatch) -> None:
    ended = transitions._ended
    patch.setattr(transitions, "_ended", lambda rule, asset, at: ended(rule, asset, at + SECOND))


def old_reports_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bucket, "_late_kind", staticmethod(lambda *_: None))


def a_pin_hides_what_votes_say(patch: pytest.MonkeyPatch) -> None:
    mark = tally.mark

    def hiding(rule: Scenario, asset: Asset) -> None:
        mark(rule, asset)
        if asset.override is not None:
            asset.disputed = None

    patch.setattr(tally, "mark", hiding)


def silent_votes_dispute_nothing(patch: pytest.MonkeyPatch) -> None:
    disputed = tally.disputed

    def deaf(
        scenario: Scenario, votes: Iterable[Vote], shown: str | None, doubts: Iterable[Doubt]
    ) -> str | None:
        return disputed(scenario, [vote for vote in votes if vote.silent is None], shown, doubts)

    patch.setattr(tally, "disputed", deaf)


def enough_voters_confirm_anything(patch: pytest.MonkeyPatch) -> None:
    reason = tally.unconfirmed_reason

    def counting(*given: Any, **how: Any) -> str | None:
        why = reason(*given, **how)
        return why if why and "voters" in why else None

    patch.setattr(tally, "unconfirmed_reason", counting)


def the_last_name_is_the_latest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tally, "newest", lambda votes: max(votes, key=lambda vote: vote.agent))


def the_first_name_is_evicted(patch: pytest.MonkeyPatch) -> None:
    least = votes._least_needed

    def by_name(rule: Scenario, asset: Asset, newcomer: Vote) -> str | None:
        needed = least(rule, asset, newcomer)
        return None if needed is None else min(asset.votes)

    patch.setattr(votes, "_least_needed", by_name)


def lifetimes_change_first(patch: pytest.MonkeyPatch) -> None:
    adopt = adoption.adopt

    def hasty(rule: Scenario, former: Scenario, mutes: Mutes, asset: Asset, at: int) -> None:
        votes.age(rule, asset)
        votes.expire(rule, asset, at, at)
        adopt(rule, former, mutes, asset, at)

    patch.setattr(fold, "adopt", hasty)


def silent_votes_are_never_forgotten(patch: pytest.MonkeyPatch) -> None:
    delay = Scenario.__dict__["forget_delay"].func
    patch.setattr(Scenario, "forget_delay", property(lambda s: (d := delay(s)) and 100 * d))


def a_raise_takes_more_voters_than_there_are(patch: pytest.MonkeyPatch) -> None:
    weigh = transitions._weigh

    def strict(rule: Scenario, *given: Any, **how: Any) -> None:
        weigh(replace(rule, raise_voters=1000), *given, **how)

    patch.setattr(transitions, "_weigh", strict)


def doubt_is_no_matter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tally, "trusted", lambda votes, _: list(votes))


def the_doubted_are_not_heard(patch: pytest.MonkeyPatch) -> None:
    of = Voices.of.__func__  # type: ignore[attr-defined]

    def deaf(
        cls: type[Voices], rule: Scenario, votes: Iterable[Vote], doubts: Container[str]
    ) -> Voices:
        voices: Voices = of(cls, rule, votes, doubts)
        return voices._replace(live=voices.sure)

    patch.setattr(Voices, "of", classmethod(deaf))


def what_is_refused_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bucket, "_doubt", lambda *_: None)


def doubts_never_end(patch: pytest.MonkeyPatch) -> None:
    put = doubts.put

    def lasting(scenario: Scenario, asset: Asset, doubt: Doubt) -> None:
        put(scenario, asset, replace(doubt, until=doubt.until + 10_000 * SECOND))

    patch.setattr(doubts, "put", lasting)


def a_purge_goes_by_what_is_shown(patch: pytest.MonkeyPatch) -> None:
    def due(asset: Asset, shown: str, scenario: Scenario) -> int | None:
        delay = scenario.purge_delay(shown)
        return None if delay is None else max(asset.since + delay, asset.emitted_at)

    patch.setattr(asset_module, "_purge_time", due)


FAULTS: tuple[tuple[Fault, str], ...] = (
    (silence_is_evidence, "silence moves nothing"),
    (every_report_is_evidence_downwards, "no report lowers what it says"),
    (silent_votes_are_forgotten_in_lowering, "a lowering lasts"),
    (what_raises_lowers_too, "a lowering has a witness"),
    (two_voters_are_as_good_as_three, "a lowering has voters"),
    (weightless_agents_are_voters, "confirmed means confirmed"),
    (silence_breaks_a_wait_up, "a raise comes"),
    (a_wait_down_is_dated_back, "a lowering lasts"),
    (a_wait_down_goes_on_whatever_is_said, "a lowering lasts"),
    (holds_are_shorter, "a raise waits"),
    (old_reports_are_taken, "an older report lowers nothing"),
    (doubt_is_no_matter, "confirmed means confirmed"),
    (doubt_is_no_matter, "a lowering has voters"),
    (the_doubted_are_not_heard, "a raise comes"),
    (what_is_refused_is_forgotten, "what was said worse is on the row"),
    (doubts_never_end, "no doubt outlives a lifetime"),
    (a_purge_goes_by_what_is_shown, "time takes no red row"),
    (a_pin_hides_what_votes_say, "no worse vote without the mark"),
    (silent_votes_dispute_nothing, "no worse vote without the mark"),
    (enough_voters_confirm_anything, "no green without a vote for it"),
    (the_last_name_is_the_latest, "names decide nothing"),
    (the_first_name_is_evicted, "names decide nothing"),
    (lifetimes_change_first, "a changed lifetime lowers nothing"),
    (silent_votes_are_never_forgotten, "the all-clear comes"),
    (a_raise_takes_more_voters_than_there_are, "the alarm comes"),
)


@pytest.mark.parametrize(("fault", "promise"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
@pytest.mark.spread(5)
def test_a_fold_with_a_fault_breaks_the_promise(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, promise: str
) -> None:
    fault(monkeypatch)
    assert any(look_for(promise, seeded(seed)) for seed in range(MOST_SEEDS))


def test_every_promise_can_be_broken() -> None:
    assert {promise for _, promise in FAULTS} == set(PROMISES)
