"""The machine of notifications: what it sends, and what it never does, on generated histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.common.scenarios import scenarios
from domain.notifications.events import BEGUN, CHANGED, ENDED, MARKED, WITHDRAWN, Ack, Event
from domain.notifications.group import (
    ESCALATED,
    MORE,
    OPENED,
    REMINDER,
    RESOLVED,
    group_from_plain,
    plain_group,
)
from domain.notifications.hours import Hours
from domain.notifications.machine import (
    BEHIND,
    LIMIT,
    MAINTENANCE,
    OUTSIDE,
    QUIET,
    TOO_SHORT,
    Close,
    Hold,
    RuleState,
    Send,
    Summary,
    World,
    advance,
)
from domain.notifications.rehearsal import Played, Rehearsal
from domain.notifications.rule import Quiet, Rule, Stage, reaches

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
MONDAY = 1_790_553_600_000 - 1_790_553_600_000 % (24 * HOUR)
"""Midnight of a day, UTC."""
NOON = MONDAY + 12 * HOUR
WORLD = World(scenarios())
ALL_DAYS = frozenset(range(7))
NIGHT = Hours("UTC", ALL_DAYS, 22 * 60, 6 * 60)
OFFICE = Hours("UTC", ALL_DAYS, 8 * 60, 18 * 60)
STAGES = (Stage(0, (1,)), Stage(10 * MINUTE, (2,)), Stage(20 * MINUTE, (3,)))
PLAIN = Rule(stages=STAGES[:1])
STAGED = Rule(stages=STAGES)


def rehearse(rule: Rule, world: World, events: list[Event], until: int) -> list[Played]:
    """What a rule would have done by events, in their order, until a time."""
    return Rehearsal(rule, world).play(events, until)


def event(
    kind: str, at: int, asset: str = "shop", state: str = "under-attack", **more: Any
) -> Event:
    """An event of the first incident of an asset."""
    return Event(
        kind, "attack", asset, at, place=more.pop("place", f"{asset}-1"), state=state, **more
    )


def attack(at: int, asset: str = "shop", minutes: float | None = None, **more: Any) -> list[Event]:
    """An attack that begins, and ends after so many minutes, or never."""
    events = [event(BEGUN, at, asset, **more)]
    if minutes is not None:
        events.append(event(ENDED, at + int(minutes * MINUTE), asset, "clear"))
    return events


def ack(at: int, asset: str = "shop", until: int | None = None) -> Event:
    """An acknowledgement of an attack; by default for an hour."""
    return event(MARKED, at, asset, ack=Ack(until or at + HOUR, 0))


def sends(played: list[Played]) -> Iterator[tuple[int, Send]]:
    """The messages about groups, those of a summary one by one, with their times."""
    for at, action in played:
        parts = action.parts if isinstance(action, Summary) else (action,)
        yield from ((at, part) for part in parts if isinstance(part, Send))


def kinds(played: list[Played]) -> list[tuple[float, str]]:
    """The kinds of the messages, with the minutes since noon."""
    return [((at - NOON) / MINUTE, send.kind) for at, send in sends(played)]


def play(rule: Rule, *events: Event, until: int = NOON + HOUR, world: World = WORLD):
    """What a rule does by events."""
    return rehearse(rule, world, sorted(events, key=lambda each: each.at), until)


def test_an_attack_on_300_sites_is_one_message():
    began = [event(BEGUN, NOON + n * 10, f"site-{n}") for n in range(300)]
    [(at, send)] = sends(play(PLAIN, *began))
    assert at == NOON + 30 * SECOND
    assert len(send.members) == 300


AGENTS = Rule(stages=STAGES[:1], agents=("agent-refused", "agent-silent"))


def finding(
    at: int, agent: str = "waf-1", state: str = "agent-refused", minutes: float | None = None
) -> list[Event]:
    """Something wrong with an agent that begins, and ends after so many minutes, or never."""
    place, words = f"agent/{agent}-{state}", "Its reports are refused"
    events = [event(BEGUN, at, agent, state, place=place, finding=words)]
    if minutes is not None:
        end = at + int(minutes * MINUTE)
        events.append(event(ENDED, end, agent, state, place=place, finding=words))
    return events


def test_what_is_wrong_with_agents_is_told_of_together_and_apart_from_incidents():
    events = [*attack(NOON, "a", 20), *finding(NOON, "waf-1", minutes=9)]
    events += finding(NOON + SECOND, "waf-2", "agent-silent", minutes=9)
    messages = list(sends(play(AGENTS, *events)))
    assert [(send.key, send.kind, len(send.members)) for _, send in messages] == [
        ("agents of attack", OPENED, 2),
        ("scenario=attack", OPENED, 1),
        ("agents of attack", RESOLVED, 2),
        ("scenario=attack", RESOLVED, 1),
    ]
    assert {member.finding for member in messages[0][1].members} == {"Its reports are refused"}


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({}, {"agents of attack"}),
        ({"group_by": ("asset",)}, {"agent attack/waf-1"}),
        ({"labels": (("customer", "acme"),), "at_least": "under-attack"}, {"agents of attack"}),
        ({"agents": ("agent-late",)}, set()),
        ({"agents": ()}, set()),
        ({"scenarios": ("connectivity",)}, set()),
        ({"after_ms": HOUR}, set()),
    ],
)
def test_a_rule_tells_of_the_agents_that_it_names(change: dict[str, Any], keys: set[str]):
    messages = sends(play(replace(AGENTS, **change), *finding(NOON, minutes=20)))
    assert {send.key for _, send in messages} == keys


def test_a_rule_may_tell_of_agents_alone():
    rule = replace(AGENTS, incidents=False)
    messages = sends(play(rule, *attack(NOON), *finding(NOON)))
    assert {send.key for _, send in messages} == {"agents of attack"}


def test_messages_about_agents_are_bounded_as_others_are():
    rule = replace(AGENTS, group_by=("asset",), most=2, window_ms=0)
    events = [each for n in range(5) for each in finding(NOON + n * SECOND, f"waf-{n}")]
    played = play(rule, *events, until=NOON + 59 * MINUTE)
    assert len([each for each in played if isinstance(each.action, Send | Summary)]) == 2
    assert LIMIT in {each.action.reason for each in played if isinstance(each.action, Hold)}


def test_quiet_hours_hold_agents_back_whatever_is_exempt():
    rule = replace(AGENTS, quiet=Quiet(OFFICE, exempt="suspicious"))
    assert kinds(play(rule, *finding(NOON), until=NOON + 12 * HOUR)) == [(6 * 60, OPENED)]


def test_an_asset_of_an_agents_name_changes_nothing_for_the_agent():
    world = World(scenarios(), lambda _scenario, _asset, _at: MAINTENANCE)
    staged = replace(STAGED, agents=AGENTS.agents)
    played = play(staged, *finding(NOON), ack(NOON + MINUTE, "waf-1"), world=world)
    assert kinds(played) == [(0.5, OPENED), (10.5, ESCALATED), (20.5, ESCALATED)]


def test_groups_of_agents_are_kept_as_data():
    state = advance(AGENTS, RuleState({}), NOON, WORLD, finding(NOON))[0]
    for group in state.groups.values():
        assert group_from_plain(plain_group(group)) == group


def test_more_sites_are_told_after_another_window_and_the_end_once():
    events = [*attack(NOON, "a", 20), *attack(NOON + 5 * MINUTE, "b", 5)]
    assert kinds(play(PLAIN, *events)) == [(0.5, OPENED), (5.5, MORE), (20, RESOLVED)]


def test_groups_are_by_scenario_label_or_asset():
    events = [
        *attack(NOON, "a", labels={"customer": "acme"}),
        *attack(NOON, "b", labels={"customer": "acme"}),
        *attack(NOON, "c"),
    ]
    for by, n in ((("customer",), 2), (("asset",), 3), ((), 1), (("scenario", "customer"), 2)):
        assert len(kinds(play(replace(PLAIN, group_by=by), *events))) == n


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ({}, True),
        ({"scenarios": ("connectivity",)}, False),
        ({"scenarios": ("connectivity", "attack")}, True),
        ({"states": ("suspicious",)}, False),
        ({"states": ("suspicious", "under-attack")}, True),
        ({"at_least": "suspicious"}, True),
        ({"at_least": "down"}, False),
        ({"labels": (("customer", "acme"),)}, True),
        ({"labels": (("customer", "other"), ("tier", "1"))}, True),
        ({"labels": (("customer", "other"),)}, False),
    ],
)
def test_a_rule_tells_of_what_it_names(rule: dict[str, Any], named: bool):
    labels = {"customer": "acme", "tier": "1"}
    played = play(replace(PLAIN, **rule), *attack(NOON, labels=labels))
    assert bool(played) is named


def test_a_state_milder_than_the_rule_names_is_the_end_for_it():
    rule = replace(PLAIN, at_least="under-attack")
    milder = event(CHANGED, NOON + 9 * MINUTE, state="suspicious")
    assert kinds(play(rule, *attack(NOON), milder)) == [(0.5, OPENED), (9, RESOLVED)]


def test_a_worse_state_is_told_and_a_milder_one_is_not():
    events = [
        event(BEGUN, NOON, state="suspicious"),
        event(CHANGED, NOON + 5 * MINUTE),
        event(CHANGED, NOON + 9 * MINUTE, state="suspicious"),
    ]
    assert kinds(play(PLAIN, *events)) == [(0.5, OPENED), (5.5, MORE)]


def test_what_is_too_short_is_not_told_and_says_so():
    rule = replace(PLAIN, after_ms=5 * MINUTE)
    assert play(rule, *attack(NOON, minutes=4)) == [
        Played(NOON + 4 * MINUTE, Close("scenario=attack", NOON, TOO_SHORT))
    ]
    assert kinds(play(rule, *attack(NOON, minutes=6))) == [(5.5, OPENED), (6, RESOLVED)]


def test_what_ends_while_its_message_waits_is_told_once_with_its_end():
    played = play(PLAIN, *attack(NOON, minutes=0.2))
    assert kinds(played) == [(0.5, OPENED)]
    assert played[-1].action == Close("scenario=attack", NOON, "")


def test_stages_follow_until_somebody_has_it_in_hand():
    assert kinds(play(STAGED, *attack(NOON)))[1:] == [(10.5, ESCALATED), (20.5, ESCALATED)]
    played = play(STAGED, *attack(NOON), ack(NOON + 15 * MINUTE))
    assert kinds(played)[1:] == [(10.5, ESCALATED)]


def test_stages_begin_anew_where_an_acknowledgement_ends():
    taken_back = event(MARKED, NOON + 5 * MINUTE)
    played = play(STAGED, *attack(NOON), ack(NOON + MINUTE), taken_back)
    assert kinds(played)[1:] == [(15, ESCALATED), (25, ESCALATED)]
    expired = play(STAGED, *attack(NOON), ack(NOON + MINUTE, until=NOON + 6 * MINUTE))
    assert kinds(expired)[1:] == [(16, ESCALATED), (26, ESCALATED)]


def test_a_worse_state_ends_the_acknowledgement_of_a_milder_one():
    events = [
        event(BEGUN, NOON, state="suspicious"),
        event(MARKED, NOON + MINUTE, ack=Ack(NOON + 9 * HOUR, 1)),
        event(CHANGED, NOON + 5 * MINUTE),
    ]
    assert kinds(play(STAGED, *events))[1:] == [
        (5.5, MORE),
        (15, ESCALATED),
        (25, ESCALATED),
    ]


def test_the_end_goes_to_the_stages_that_were_told():
    *_, (_, last) = sends(play(STAGED, *attack(NOON, minutes=12)))
    assert (last.kind, last.stages) == (RESOLVED, (0, 1))


def test_reminders_come_until_somebody_has_it_in_hand():
    rule = replace(PLAIN, repeat_ms=15 * MINUTE)
    played = play(rule, *attack(NOON), ack(NOON + 40 * MINUTE))
    assert kinds(played) == [(0.5, OPENED), (15.5, REMINDER), (30.5, REMINDER)]


def test_a_stage_and_a_reminder_of_one_time_are_one_message():
    rule = replace(STAGED, repeat_ms=10 * MINUTE)
    played = play(rule, *attack(NOON), until=NOON + 41 * MINUTE)
    assert [((at - NOON) / MINUTE, send.kind, send.stages) for at, send in sends(played)] == [
        (0.5, OPENED, (0,)),
        (10.5, ESCALATED, (0, 1)),
        (20.5, ESCALATED, (0, 1, 2)),
        (30.5, REMINDER, (0, 1, 2)),
        (40.5, REMINDER, (0, 1, 2)),
    ]


def test_stages_that_begin_anew_are_reached_once_with_the_reminder():
    rule = replace(STAGED, repeat_ms=40 * MINUTE)
    until = NOON + 50 * MINUTE + 30 * SECOND
    played = play(rule, *attack(NOON), ack(NOON + 25 * MINUTE, until=until))
    again = [send for at, send in sends(play(rule, *attack(NOON), ack(NOON + 25 * MINUTE,
             until=until), until=NOON + 2 * HOUR)) if at > until]  # fmt: skip
    assert kinds(played)[-1] == (50.5, REMINDER)
    assert [(send.kind, send.stages) for send in again] == [
        (ESCALATED, (1,)), (ESCALATED, (2,)), (REMINDER, (0, 1, 2)),
    ]  # fmt: skip


def test_what_waits_is_renewed_where_a_milder_state_ends():
    rule = replace(PLAIN, at_least="under-attack", quiet=Quiet(NIGHT))
    late = MONDAY + 23 * HOUR
    milder = event(CHANGED, late + 10 * MINUTE, state="suspicious")
    played = play(rule, *attack(late, minutes=20), milder, until=late + HOUR)
    holds = [action for _, action in played if isinstance(action, Hold)]
    assert [hold.members[0].left for hold in holds] == ["", "suspicious", ""]


def test_what_waits_is_renewed_where_its_words_change():
    rule = replace(STAGED, quiet=Quiet(NIGHT))
    late = MONDAY + 23 * HOUR
    events = [*attack(late, "a", 60), *attack(late + 20 * MINUTE, "b")]
    played = play(rule, *events, until=late + 3 * HOUR)
    holds = [action for _, action in played if isinstance(action, Hold)]
    assert [(hold.renewed, len(hold.members)) for hold in holds] == [
        (False, 1), (True, 2), (True, 2),
    ]  # fmt: skip
    assert [member.active for member in holds[-1].members] == [False, True]


def test_quiet_hours_hold_messages_until_they_end():
    rule = replace(STAGED, quiet=Quiet(NIGHT))
    late = MONDAY + 23 * HOUR
    events = [*attack(late, "a"), *attack(late, "b", 30)]
    played = play(rule, *events, until=late + 12 * HOUR)
    morning = MONDAY + 30 * HOUR
    assert played[0] == Played(
        late + 30 * SECOND, Hold("scenario=attack", late, OPENED, QUIET, morning)
    )
    [(at, first), *_] = sends(played)
    assert (at, first.kind, len(first.members)) == (morning, OPENED, 2)


def test_quiet_hours_let_the_worst_through():
    rule = replace(STAGED, quiet=Quiet(NIGHT, "under-attack"))
    late = MONDAY + 23 * HOUR
    milder = event(BEGUN, late, "a", "suspicious")
    played = play(rule, milder, event(BEGUN, late + HOUR, "b"), until=late + 2 * HOUR)
    assert [at for at, _ in sends(played)][:1] == [late + HOUR]


def test_what_is_outside_the_rules_hours_is_told_when_they_begin_if_it_still_goes_on():
    rule = replace(PLAIN, hours=OFFICE)
    early = MONDAY + 6 * HOUR
    played = play(rule, *attack(early, "a"), *attack(early, "b", 30))
    [(at, send)] = sends(played)
    assert at == MONDAY + 8 * HOUR + 30 * SECOND
    assert [member.asset for member in send.members] == ["a"]
    alone = play(rule, *attack(early, "b", 30))
    assert alone == [Played(early + 30 * MINUTE, Close("scenario=attack", early, OUTSIDE))]


@pytest.mark.parametrize("reason", [MAINTENANCE, BEHIND])
def test_a_hold_keeps_back_what_goes_on_and_drops_what_ends_in_it(reason: str):
    def why(_scenario: str, asset: str, at: int) -> str:
        return reason if asset != "c" and NOON <= at < NOON + 20 * MINUTE else ""

    world = World(scenarios(), why)
    events = [*attack(NOON, "a"), *attack(NOON, "b", 9), *attack(NOON, "c", 9)]
    messages = [
        ((at - NOON) / MINUTE, send.kind, [member.asset for member in send.members])
        for at, send in sends(play(PLAIN, *events, world=world))
    ]
    assert messages == [(0.5, OPENED, ["c"]), (9, RESOLVED, ["c"]), (20.5, OPENED, ["a"])]
    dropped = play(PLAIN, *attack(NOON, "b", 9), world=world)
    assert dropped[-1].action == Close("scenario=attack", NOON, reason)


@pytest.mark.parametrize("reason", [MAINTENANCE, BEHIND])
def test_what_got_worse_during_a_hold_is_told_when_it_ends(reason: str):
    def why(_scenario: str, _asset: str, at: int) -> str:
        return reason if NOON + 5 * MINUTE <= at < NOON + 20 * MINUTE else ""

    milder, worse = event(BEGUN, NOON, state="suspicious"), event(CHANGED, NOON + 10 * MINUTE)
    played = play(PLAIN, milder, worse, world=World(scenarios(), why))
    assert kinds(played) == [(0.5, OPENED), (20.5, MORE)]


def test_over_the_limit_one_summary_tells_of_all_that_waited():
    rule = replace(PLAIN, most=3, group_by=("asset",), resolved=False)
    events = [event(BEGUN, NOON + n, f"site-{n:02}") for n in range(10)]
    played = play(rule, *events, until=NOON + 3 * HOUR)
    out = [(at, action) for at, action in played if isinstance(action, Send | Summary)]
    assert [type(action) for _, action in out] == [Send, Send, Send, Summary]
    (held_at, _), (at, summary) = out[0], out[-1]
    assert at == held_at + HOUR
    assert isinstance(summary, Summary)
    assert len(summary.parts) == 7
    holds = [action for _, action in played if isinstance(action, Hold)]
    assert {hold.reason for hold in holds} == {LIMIT}
    assert len(holds) == 7


def test_what_a_rebuild_does_not_find_again_ends():
    gone = event(WITHDRAWN, NOON + 5 * MINUTE, state="")
    assert kinds(play(PLAIN, *attack(NOON), gone)) == [(0.5, OPENED), (5, RESOLVED)]


def test_what_began_and_ended_since_is_told_with_the_end():
    events = [*attack(NOON, "a", 10), *attack(NOON + 594 * SECOND, "b", 0.05)]
    *_, (_, last) = sends(play(PLAIN, *events))
    assert (last.kind, len(last.members)) == (RESOLVED, 2)


def test_a_rehearsal_of_too_much_is_cut():
    rehearsal = Rehearsal(replace(PLAIN, hours=OFFICE), WORLD, most_steps=5)
    rehearsal.play(attack(MONDAY), MONDAY + 24 * HOUR)
    assert rehearsal.is_cut


# ---- on generated histories ---------------------------------------------------------------------

ASSETS = ("a", "b", "c", "d")
steps = st.lists(
    st.tuples(
        st.integers(1, 40 * MINUTE),
        st.sampled_from(ASSETS),
        st.sampled_from(("under-attack", "suspicious", "clear", "clear", "ack", "unack")),
    ),
    max_size=40,
)
rules = st.builds(
    Rule,
    stages=st.sampled_from((STAGES, STAGES[:1])),
    at_least=st.sampled_from(("", "under-attack")),
    after_ms=st.sampled_from((0, 5 * MINUTE)),
    hours=st.sampled_from((None, OFFICE)),
    quiet=st.sampled_from((None, Quiet(NIGHT), Quiet(NIGHT, "under-attack"))),
    group_by=st.sampled_from(((), ("scenario",), ("asset",))),
    window_ms=st.sampled_from((0, 30 * SECOND)),
    repeat_ms=st.sampled_from((None, HOUR)),
    resolved=st.booleans(),
    most=st.sampled_from((1, 3, 1000)),
)


def history(raw: list[tuple[int, str, str]]) -> list[Event]:
    """Turn generated steps into a possible history."""
    events: list[Event] = []
    at, states, numbers = NOON, dict.fromkeys(ASSETS, "clear"), dict.fromkeys(ASSETS, 0)
    for wait, asset, what in raw:
        at += wait
        was = states[asset]
        if what in ("ack", "unack"):
            given = Ack(at + HOUR, scenarios()["attack"].severity(was)) if what == "ack" else None
            if was != "clear":
                events.append(Event(MARKED, "attack", asset, at, ack=given))
            continue
        if what == was:
            continue
        kind = ENDED if what == "clear" else BEGUN if was == "clear" else CHANGED
        numbers[asset] += kind == BEGUN
        place = f"{numbers[asset]:03}"
        events.append(Event(kind, "attack", asset, at, place=place, state=what))
        states[asset] = what
    return events


def end_of(events: list[Event]) -> int:
    return (events[-1].at if events else NOON) + 72 * HOUR


def sent_places(played: list[Played]) -> set[tuple[str, str, str]]:
    return {member.key for _, send in sends(played) for member in send.members}


def lasting(rule: Rule, events: list[Event], end: int) -> Iterator[tuple[str, str, str]]:
    """The incidents that were, for long enough, in a state that a rule tells of."""
    attack, since = scenarios()["attack"], dict[tuple[str, str, str], int]()
    for each in [*events, *(Event(ENDED, "attack", asset, end) for asset in ASSETS)]:
        if each.kind == MARKED:
            continue
        place = (each.scenario, each.asset, each.place)
        if rule.covers(attack, each.state):
            since.setdefault(place, each.at)
            continue
        for known in [key for key in since if key[:2] == place[:2]]:
            if each.at - since.pop(known) >= rule.after_ms:
                yield known


@given(rules, steps)
def test_what_lasts_is_told_and_nothing_else(rule: Rule, raw: list[tuple[int, str, str]]):
    events = history(raw)
    played = rehearse(rule, WORLD, events, end_of(events))
    expected = set(lasting(rule, events, end_of(events)))
    places = sent_places(played)
    assert places <= expected
    if rule.hours is None:
        assert places == expected


@given(rules, steps)
def test_no_message_in_quiet_hours_below_the_exception(rule, raw):
    attack = scenarios()["attack"]
    events = history(raw)
    loud = set()
    for at, send in sends(rehearse(rule, WORLD, events, end_of(events))):
        group = (send.key, send.opened_at)
        exempt = rule.quiet and rule.quiet.exempt
        if exempt and any(reaches(attack, member.worst, exempt) for member in send.members):
            loud.add(group)
        assert rule.quiet is None or not NIGHT.contain(at) or group in loud


@given(rules, steps)
def test_never_more_messages_than_the_limit(rule, raw):
    events = history(raw)
    played = rehearse(rule, WORLD, events, end_of(events))
    times = [at for at, action in played if isinstance(action, Send | Summary)]
    for at in times:
        assert sum(1 for other in times if at - rule.per_ms < other <= at) <= rule.most


@given(rules, steps)
def test_each_group_is_told_of_first_and_ends_once(rule, raw):
    events = history(raw)
    opened, closed = set(), set()
    for _, action in rehearse(rule, WORLD, events, end_of(events)):
        for part in action.parts if isinstance(action, Summary) else (action,):
            group = (part.key, part.opened_at)
            assert group not in closed
            if isinstance(part, Send):
                assert (part.kind == OPENED) == (group not in opened)
                opened.add(group)
            elif isinstance(part, Close):
                assert (part.reason == "") == (group in opened)
                closed.add(group)


@given(rules, steps)
def test_nobody_is_bothered_about_what_is_in_hand(rule, raw):
    events = history(raw)
    for at, send in sends(rehearse(rule, WORLD, events, end_of(events))):
        if send.kind in (ESCALATED, REMINDER):
            going_on = [member for member in send.members if member.active and member.notified]
            assert going_on
            assert not all(member.in_hand(at) for member in going_on)


@given(rules, steps, st.integers(1, 20 * MINUTE))
def test_looking_more_often_changes_nothing(rule, raw, every):
    """A tick between the times at which something is due sends nothing."""
    events = history(raw)
    end = (events[-1].at if events else NOON) + 3 * HOUR
    expected = list(rehearse(rule, WORLD, events, end))
    rehearsal = Rehearsal(rule, WORLD, most_steps=10**6)
    ticks = [Event("tick", "nowhere", "", at) for at in range(NOON, end, every + MINUTE)]
    played: list[Played] = []
    for each in sorted([*events, *ticks], key=lambda event: event.at):
        rehearsal._wait(each.at - 1)
        rehearsal._due |= dict.fromkeys(rehearsal._groups, each.at)
        played = rehearsal.play([each], each.at)
    played = rehearsal.play([], end)
    assert [p for p in played if not isinstance(p.action, Hold)] == [
        p for p in expected if not isinstance(p.action, Hold)
    ]


@given(rules, steps)
def test_a_group_is_kept_as_json(rule, raw):
    state = RuleState({})
    for each in history(raw):
        state, _ = advance(rule, state, each.at, WORLD, [each])
        for group in state.groups.values():
            assert group_from_plain(plain_group(group)) == group
