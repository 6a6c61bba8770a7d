"""Histories in which a living agent's last word was worse than its row, and was not seen there.

Each is an `Example` as those of `false_green`. Agent a says this and that; b and c say clear
throughout, seven seconds after each half minute. Times are (minutes, seconds) after START. `fold`
is the version of the fold under which a history is told: those of `last_words` are wrong under
version 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from domain.records import (
    CLOCK_BACK,
    Leave,
    Mute,
    Record,
    RefusedReport,
    Report,
    ScenarioChange,
    StateRecord,
    Tombstone,
)
from domain.scenario import FOLD, Scenario
from support.histories.doubtful import doubts_of, is_calm, vote_doubts
from support.histories.false_green import (
    ANY,
    ATTACK,
    CLEAR,
    MAJORITY,
    MINUTE,
    SITE,
    Board,
    Example,
    Expectation,
    Story,
    ms,
    watch,
)

SUSPICIOUS, FINE, FIRE = "suspicious", "fine", "fire"
TWO, THREE = (ATTACK, CLEAR), (ATTACK, SUSPICIOUS, CLEAR)
HOUR = 60 * MINUTE
CROWD = [f"n{number:02}" for number in range(17)]
"""Agents without votes."""


def at(minutes: float, seconds: float = 0) -> float:
    """Return a time in seconds after START."""
    return minutes * MINUTE + seconds


def rule(
    fold: int, kind: dict[str, Any] = MAJORITY, states: Iterable[str] = TWO, **more: Any
) -> Scenario:
    """A rule for two voters, whose votes live ten minutes and are forgotten after thirty."""
    names = [{"name": name} for name in states]
    return watch(rule=kind, states=names, vote_lifetime="10m", min_voters=2, fold=fold, **more)


def renamed(fold: int, kind: dict[str, Any], former: str, name: str) -> Scenario:
    """The rule with a state by another name."""
    states = [name if state == former else state for state in TWO]
    ladder = [{**step, "state": states[TWO.index(step["state"])]} for step in kind["ladder"]]
    default = name if kind.get("default") == former else kind.get("default", "keep")
    return rule(fold, {**kind, "ladder": ladder, "default": default}, states)


def others(story: Story, first: float, last: float, word: str = CLEAR) -> None:
    """Have b and c say a word from a time to another one."""
    for second in range(round(first), round(last), 30):
        story.reports(second + 7, word, "b", "c")


def story_of(scenario: Scenario, says: Callable[[Story], Any], until: float = at(58)) -> Story:
    """Return what a says, with what the others say, in order of time."""
    story = Story(scenario)
    story.reports(-1, CLEAR, "b", "c")
    says(story)
    others(story, 0, until)
    return story.in_order()


def seen(since: float, until: float) -> Expectation:
    """Expect that the row is disputed, red, or agent a in doubt, from a time until another one."""

    def check(board: Board) -> None:
        shown = [r for r in board.records if ms(since) < r.cause.time < ms(until)]
        for record in [board.at(since), *shown]:
            assert isinstance(record, StateRecord), record
            in_doubt = "a" in doubts_of(record) or "a" in vote_doubts(record)
            assert record.disputed or record.state != CLEAR or in_doubt, record

    return check


def then_calm(check: Expectation, when: float) -> Expectation:
    """Expect that, and a calm row at a time."""

    def both(board: Board) -> None:
        check(board)
        record = board.at(when)
        assert is_calm(record), record

    return both


def left(story: Story, when: float, agent: str, said: float) -> Story:
    """A leave; said: the agent's clock."""
    return story.add(when, Leave(SITE, agent, ms(said)))


# ---- saying it again (F1) -------------------------------------------------------------------


def said_again_an_hour_behind(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", ATTACK)
        for minute in (10.5, 20.5, 30.5, 40.5):
            story.report(at(minute), "a", ATTACK, said=at(minute) - HOUR)

    story = story_of(scenario := rule(fold), says)
    check = then_calm(seen(at(1), at(50.5)), at(50.5))
    return Example("attack again, by a clock an hour behind", scenario, story.lines, check)


def kept_from_a_purge(fold: int) -> Example:
    scenario = rule(fold, purge_after={CLEAR: "2m"})

    def says(story: Story) -> None:
        for minute in range(1, 55):
            story.report(at(minute), "a", ATTACK, said=at(minute) - (HOUR if minute > 1 else 0))

    def check(board: Board) -> None:
        gone = [r for r in board.records if isinstance(r, Tombstone)]
        assert [r for r in gone if r.cause.time < ms(at(58))] == []

    lines = story_of(scenario, says).lines
    return Example("no purge while attack is said an hour behind", scenario, lines, check)


def milder_again_an_hour_behind(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", ATTACK)
        for number in range(9):
            minute = 5.5 + 5 * number
            story.report(at(minute), "a", SUSPICIOUS, said=at(minute) - HOUR)

    story = story_of(scenario := rule(fold, states=THREE), says)
    title = "attack, then suspicious by a clock an hour behind"
    return Example(title, scenario, story.lines, seen(at(1), at(55.5)))


def repeated_before_a_delayed_clear(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", ATTACK).report(at(2), "a", ATTACK, said=at(2 - 30))
        story.report(at(5), "a", CLEAR, said=at(1.5))

    story = story_of(scenario := rule(fold), says)
    title = "attack again half an hour behind, then a delayed clear"
    return Example(title, scenario, story.lines, then_calm(seen(at(1), at(12)), at(12)))


# ---- a change of rule (F2) ------------------------------------------------------------------


def renamed_and_back(fold: int) -> Example:
    scenario = rule(fold)
    story = Story(scenario).reports(-1, CLEAR, "b", "c").report(0, "a", CLEAR)
    story.report(at(1), "a", ATTACK, said=at(-1))
    story.add(at(2), ScenarioChange(renamed(fold, MAJORITY, CLEAR, FINE)))
    story.add(at(3), ScenarioChange(scenario))
    others(story, 0, at(2))
    others(story, at(2), at(3), FINE)
    others(story, at(3), at(20))
    story.in_order()

    def check(board: Board) -> None:
        assert all(board.at(at(minute, 15)).disputed for minute in range(1, 11))

    return Example("clear is renamed and back, beside a doubt", scenario, story.lines, check)


def renamed_under_a_silent_red(fold: int) -> Example:
    scenario = rule(fold, ANY)
    story = Story(scenario).reports(-1, CLEAR, "b", "c").report(at(1), "a", ATTACK)
    story.add(at(12), ScenarioChange(renamed(fold, ANY, ATTACK, FIRE)))
    others(story, 0, at(50))
    story.in_order()

    def check(board: Board) -> None:
        assert board.at(at(12)).state != CLEAR
        assert board.at(at(40)).disputed == ATTACK
        assert is_calm(board.at(at(42)))

    return Example("attack is renamed that a silent agent says", scenario, story.lines, check)


def said_while_renamed(fold: int) -> Example:
    scenario = rule(fold)
    story = Story(scenario).reports(-1, CLEAR, "b", "c").report(0, "a", CLEAR)
    story.report(at(1), "a", ATTACK, said=at(-1))
    story.add(at(2), ScenarioChange(renamed(fold, MAJORITY, CLEAR, FINE)))
    story.report(at(2.5), "a", CLEAR)
    story.add(at(3), ScenarioChange(scenario))
    others(story, 0, at(2))
    others(story, at(2), at(3), FINE)
    others(story, at(3), at(20))
    story.in_order()

    def check(board: Board) -> None:
        assert all(board.at(at(minute, 15)).disputed for minute in range(1, 12))

    return Example("clear is said while it has another name", scenario, story.lines, check)


def renamed_before_a_delayed_clear(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", ATTACK)
        story.add(at(2), ScenarioChange(renamed(fold, MAJORITY, ATTACK, FIRE)))
        story.report(at(3), "a", CLEAR, said=at(0.5))

    story = story_of(scenario := rule(fold), says)
    check = then_calm(seen(at(1), at(41)), at(42))
    return Example("attack is renamed, then comes a delayed clear", scenario, story.lines, check)


def renamed_over_a_dead_agent(fold: int) -> Example:
    scenario = rule(fold)
    story = Story(scenario).reports(-1, CLEAR, "b", "c").report(0, "a", CLEAR)
    story.add(at(1), ScenarioChange(renamed(fold, MAJORITY, CLEAR, FINE)))
    others(story, 0, at(1))
    others(story, at(1), at(50), FINE)
    story.in_order()

    def check(board: Board) -> None:
        assert board.at(at(39)).disputed == CLEAR
        record = board.at(at(41))
        assert (record.state, record.disputed, record.unconfirmed) == (FINE, None, False)

    return Example("clear is renamed that a dead agent says", scenario, story.lines, check)


# ---- clocks (F3, F4, F6) --------------------------------------------------------------------


def cleared_ahead(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", ATTACK).report(at(1.5), "a", ATTACK, said=at(7.5))
        story.report(at(2), "a", CLEAR, said=at(8))

    story = story_of(scenario := rule(fold, ANY), says)
    title = "attack, then both words six minutes ahead"
    return Example(title, scenario, story.lines, seen(at(1), at(12)))


def same_second(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", ATTACK).report(at(1, 1), "a", CLEAR, said=at(1))

    story = story_of(scenario := rule(fold), says)
    check = then_calm(seen(at(1), at(41)), at(42))
    return Example("both words in one second, the wrong way round", scenario, story.lines, check)


def duplicate_of_a_clock_ahead(fold: int, lead: float) -> Example:
    def says(story: Story) -> None:
        story.report(0, "a", CLEAR, said=at(lead)).report(at(1), "a", ATTACK, said=at(1 + lead))
        story.report(at(1.5), "a", CLEAR, said=at(lead))

    story = story_of(scenario := rule(fold), says)
    check = then_calm(seen(at(1), at(41)), at(42))
    title = f"a duplicate of an agent {lead} minutes ahead"
    return Example(title, scenario, story.lines, check)


def duplicate_after_a_broker_went_back(fold: int) -> Example:
    scenario = rule(fold)
    story = Story(scenario).reports(at(5), CLEAR, "a", "b", "c")
    story.report(at(2), "a", ATTACK, said=at(6)).report(at(2.5), "a", CLEAR, said=at(5))
    others(story, at(6), at(14))

    check = seen(at(5, 1), at(14))
    return Example("a duplicate after the broker's clock went back", scenario, story.lines, check)


def duplicate_of_a_silent_vote(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(0, "a", CLEAR, said=at(2)).report(at(1), "a", ATTACK, said=at(3))
        story.report(at(11, 10), "a", CLEAR, said=at(2))

    story = story_of(scenario := rule(fold), says)
    title = "a duplicate once attack is silent"
    return Example(title, scenario, story.lines, then_calm(seen(at(1), at(41)), at(42)))


def clock_put_right(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(0, "a", CLEAR, said=at(180)).report(at(1), "a", ATTACK)

    def check(board: Board) -> None:
        assert board.at(at(1)).state == ATTACK
        assert vote_doubts(board.at(at(1))) == {"a": CLOCK_BACK}

    story = story_of(scenario := rule(fold, ANY), says)
    return Example("attack, once a clock is put right", scenario, story.lines, check)


def between_two_claims(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", SUSPICIOUS, said=at(5)).report(at(2), "a", ATTACK)
        story.report(at(2.5), "a", CLEAR)

    story = story_of(scenario := rule(fold, states=THREE), says)
    check = then_calm(seen(at(1), at(42)), at(43))
    return Example("suspicious ahead, attack, and clear", scenario, story.lines, check)


def late_for_a_lifetime(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(0, "a", ATTACK, said=at(180))
        for minute in range(1, 20):
            story.report(at(minute), "a", CLEAR)

    def check(board: Board) -> None:
        assert board.states() == [ATTACK, CLEAR]
        assert board.at(at(9, 59)).state == ATTACK
        assert is_calm(board.at(at(12)))

    story = story_of(scenario := rule(fold, ANY), says)
    title = "clear is not heard for a lifetime after a report three hours ahead"
    return Example(title, scenario, story.lines, check)


# ---- leaves (F5) ----------------------------------------------------------------------------


def delayed_leave(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(0, "a", CLEAR).report(at(3), "a", "critical")
        left(story, at(6), "a", at(1))

    story = story_of(scenario := rule(fold), says)
    check = then_calm(seen(at(3), at(13)), at(14))
    return Example("a delayed leave after a refused word", scenario, story.lines, check)


def delayed_leave_ahead(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(0, "a", CLEAR, said=at(10)).report(at(2), "a", ATTACK, said=at(12))
        left(story, at(2.5), "a", at(10))

    story = story_of(scenario := rule(fold), says)
    check = then_calm(seen(at(2), at(42)), at(43))
    return Example("a delayed leave of an agent ten minutes ahead", scenario, story.lines, check)


def delayed_leave_after_both(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(0, "a", CLEAR).report(at(3), "a", "critical")
        story.report(at(3, 20), "a", ATTACK, said=at(3, 20) - HOUR)
        left(story, at(6), "a", at(1))

    story = story_of(scenario := rule(fold), says)
    title = "a delayed leave after a refused word and a stale one"
    return Example(title, scenario, story.lines, then_calm(seen(at(3), at(13, 20)), at(14)))


# ---- what cannot be read (F8) ---------------------------------------------------------------


def sunk_details(fold: int) -> Example:
    def says(story: Story) -> None:
        for minute, agent in enumerate("abc", 1):
            report = Report(SITE, agent, ATTACK, ms(at(minute)), sunk="not-json")
            story.add(at(minute), report)

    scenario = rule(fold)
    story = Story(scenario).reports(0, CLEAR, "a", "b", "c")
    says(story)

    def check(board: Board) -> None:
        assert board.at(at(1)).disputed == ATTACK
        assert board.at(at(3)).state == ATTACK

    return Example("attack, with what is no JSON beside it", scenario, story.lines, check)


def broken_off(fold: int, said: str | None) -> Example:
    def says(story: Story) -> None:
        story.report(0, "a", CLEAR)
        story.add(at(1), RefusedReport(SITE, "a", said, "not-json", sunk="not-json"))

    story = story_of(scenario := rule(fold), says)
    check = then_calm(seen(at(1), at(11)), at(12))
    return Example(f"a record that breaks off, of {said}", scenario, story.lines, check)


# ---- room (F9) ------------------------------------------------------------------------------


def crowded(fold: int, title: str, lines: Callable[[Story], Any], since: float) -> Example:
    """An attack an hour behind, said by a within a crowd whose words are refused."""
    story = story_of(scenario := rule(fold), lines)
    return Example(title, scenario, story.lines, seen(since, since + at(9)))


def crowd_after(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", ATTACK, said=at(1) - HOUR)
        for agent in CROWD:
            left(story.report(at(2), agent, "odd"), at(2.5), agent, at(2.5))

    return crowded(fold, "a crowd is refused after a stale attack, and leaves", says, at(1))


def crowd_before(fold: int, *, voted: bool) -> Example:
    def says(story: Story) -> None:
        if voted:
            story.report(at(0.25), "a", CLEAR)
        for agent in CROWD[:16]:
            left(story.report(at(0.5), agent, "odd"), at(1.5), agent, at(1.5))
        story.report(at(1), "a", ATTACK, said=at(1) - HOUR)

    voice = " of an agent with a vote" if voted else ""
    return crowded(fold, f"a crowd is refused before a stale attack{voice}", says, at(1))


def crowd_that_ends_before(fold: int) -> Example:
    def says(story: Story) -> None:
        for agent in CROWD[:16]:
            story.report(at(0.1), agent, "odd")
        story.report(at(5), "a", ATTACK, said=at(5) - HOUR)

    return crowded(fold, "a crowd's doubts end before a stale attack's", says, at(5))


def muted_crowd(fold: int) -> Example:
    def says(story: Story) -> None:
        story.report(at(1), "a", ATTACK, said=at(1) - HOUR)
        for number, agent in enumerate(CROWD):
            id_ = f"00000000-0000-4000-8000-{number:012}"
            story.add(at(1.2), Mute(agent, None, "olga", "", id_))
            story.report(at(2), agent, "odd")

    return crowded(fold, "a crowd of muted agents is refused", says, at(1))


# ---- all of them ----------------------------------------------------------------------------


def of_version_5() -> Example:
    """A log of version 5 is read as that up to its first rule of version 6."""

    def says(story: Story) -> None:
        duplicates(story, 0)
        story.add(at(5), Report(SITE, "a", ATTACK, ms(at(5)), sunk="not-json"))
        story.report(at(6), "a", "critical")
        left(story, at(7), "a", at(7))
        story.add(at(20), ScenarioChange(rule(FOLD)))
        duplicates(story, 20)

    def duplicates(story: Story, first: float) -> Record | None:
        story.report(at(first), "a", CLEAR, said=at(first + 2))
        story.report(at(first + 1), "a", ATTACK, said=at(first + 3))
        story.report(at(first + 1.5), "a", CLEAR, said=at(first + 2))
        return None

    def check(board: Board) -> None:
        assert is_calm(board.at(at(1.5)))
        assert is_calm(board.at(at(5)))
        assert board.at(at(6)).disputed == "critical"
        assert is_calm(board.at(at(7)))
        seen(at(21), at(40))(board)

    story = story_of(scenario := rule(FOLD - 1), says)
    return Example("a log of version 5", scenario, story.lines, check)


def last_words(fold: int = FOLD) -> tuple[Example, ...]:
    """All of them that were wrong under version 5."""
    return (
        said_again_an_hour_behind(fold),
        kept_from_a_purge(fold),
        milder_again_an_hour_behind(fold),
        repeated_before_a_delayed_clear(fold),
        renamed_and_back(fold),
        renamed_under_a_silent_red(fold),
        said_while_renamed(fold),
        renamed_before_a_delayed_clear(fold),
        same_second(fold),
        duplicate_of_a_clock_ahead(fold, 2),
        duplicate_of_a_clock_ahead(fold, 6),
        duplicate_after_a_broker_went_back(fold),
        duplicate_of_a_silent_vote(fold),
        between_two_claims(fold),
        delayed_leave(fold),
        delayed_leave_ahead(fold),
        delayed_leave_after_both(fold),
        sunk_details(fold),
        broken_off(fold, ATTACK),
        broken_off(fold, None),
        crowd_after(fold),
        crowd_before(fold, voted=False),
    )


def kept_words() -> tuple[Example, ...]:
    """Their neighbours, and what the rules cost."""
    return (
        renamed_over_a_dead_agent(FOLD),
        cleared_ahead(FOLD),
        clock_put_right(FOLD),
        late_for_a_lifetime(FOLD),
        crowd_before(FOLD, voted=True),
        crowd_that_ends_before(FOLD),
        muted_crowd(FOLD),
        of_version_5(),
    )
