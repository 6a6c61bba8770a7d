"""Histories that once turned red to green though no one had said so, and what they must come to.

Each is data: a scenario, a log, and what is expected of the records that come of it. So any engine
can be held to the list; `Board` reads the records of whichever engine made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from domain.records import (
    Command,
    Emission,
    Kind,
    Record,
    Refusal,
    Report,
    ScenarioChange,
    StateRecord,
    Tick,
    Tombstone,
)
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios, scenario_from_plain
from domain.version import Version
from support.histories.histories import stamped

SHIPPED = Path(__file__).resolve().parents[3] / "scenarios.toml"
START = 1_790_000_000_000
"""Append time of a log's beginning, ms; the times below are seconds after it."""
SITE = "shop.example"
SECOND, MINUTE, DAY = 1, 60, 86_400


class Line(NamedTuple):
    """A record of a log: its offset, and the broker's append time, ms."""

    offset: int
    time: int
    record: Record


@dataclass
class Story:
    """A log about one asset as it grows. Times are seconds after START."""

    scenario: Scenario
    lines: list[Line] = field(default_factory=list)

    def add(self, at: float, record: Record) -> Story:
        """Append a record at this time."""
        self.lines.append(Line(len(self.lines), ms(at), stamped(record, ms(at))))
        return self

    def report(self, at: float, agent: str, state: str, said: float | None = None) -> Story:
        """A report; said: the agent's clock, the broker's unless told."""
        return self.add(at, Report(SITE, agent, state, ms(at if said is None else said)))

    def reports(self, at: float, state: str, *agents: str) -> Story:
        """The same report of several agents."""
        for agent in agents:
            self.report(at, agent, state)
        return self

    def command(self, at: float, kind: Kind, number: int, **more: Any) -> Story:
        """A command of olga's, whose id is this number."""
        return self.add(at, Command(kind, SITE, command_id(number), "olga", **more))

    def ticks(self, first: float, last: float, every: float = 1) -> Story:
        """Ticks from `first` to `last`, where no reports are."""
        for number in range(int((last - first) / every) + 1):
            self.add(first + number * every, Tick())
        return self

    def in_order(self) -> Story:
        """The same lines, put in order of time: reports may be told agent by agent."""
        ordered = sorted(self.lines, key=lambda line: line.time)
        self.lines = [line._replace(offset=at) for at, line in enumerate(ordered)]
        return self


class Board:
    """What the records of an engine show of the asset, by time."""

    def __init__(self, emissions: Iterable[Emission]) -> None:
        self.records = [e for e in emissions if isinstance(e, StateRecord | Tombstone)]

    def at(self, time: float) -> StateRecord:
        """Return what is shown so many seconds after START."""
        record = [r for r in self.records if r.cause.time <= ms(time)][-1]
        assert isinstance(record, StateRecord)
        return record

    def states(self, first: float = 0, last: float = 10 * DAY) -> list[str]:
        """The states shown from one time to the other, each change once."""
        shown = [self.at(first).state]
        for record in self.records:
            inside = ms(first) < record.cause.time <= ms(last)
            if inside and isinstance(record, StateRecord) and record.state != shown[-1]:
                shown.append(record.state)
        return shown

    def answers(self) -> list[StateRecord | Tombstone]:
        """The records that answer commands."""
        return [record for record in self.records if record.answer is not None]


Expectation = Callable[[Board], None]


@dataclass(frozen=True)
class Example:
    """A history in a few words, its rule and log, and what must hold of what comes of it."""

    title: str
    scenario: Scenario
    lines: Sequence[Line]
    check: Expectation
    partition: int = 0


def ms(seconds: float) -> int:
    """An append time, so many seconds after START."""
    return START + round(seconds * 1000)


def command_id(number: int) -> str:
    """A command's id."""
    return f"00000000-0000-4000-8000-{number:012d}"


# ---- scenarios ------------------------------------------------------------------------------

ATTACK, CLEAR = "attack", "clear"
LATEST = {"kind": "latest"}
ANY = {"kind": "quorum", "ladder": [{"state": ATTACK, "at_least": 1}], "default": CLEAR}
MAJORITY = {
    "kind": "quorum",
    "ladder": [{"state": state, "more_than": "1/2"} for state in (ATTACK, CLEAR)],
}
HALF_OF_FIVE = {
    "kind": "quorum",
    "ladder": [{"state": ATTACK, "more_than": "1/2"}],
    "default": CLEAR,
}


def watch(**rule: Any) -> Scenario:
    """A scenario of one partition with the states attack and clear."""
    states = [{"name": ATTACK}, {"name": CLEAR}]
    plain = {"name": "watch", "partitions": 1, "states": states, "fold": 2, "rule": MAJORITY}
    return scenario_from_plain({**plain, **rule})


@cache
def shipped(name: str) -> Scenario:
    """A scenario as the product brings it, but of one partition."""
    return replace(load_scenarios(SHIPPED)[name], partitions=1)


# ---- silence --------------------------------------------------------------------------------


def at_one_instant(first: str, second: str) -> Example:
    """Two reports in one millisecond, whose votes fall silent in one."""
    story = Story(watch(rule=LATEST, vote_lifetime="10s"))
    story.report(0, first, CLEAR).report(0, second, ATTACK).ticks(1, 12).add(3600, Tick())

    def check(board: Board) -> None:
        assert board.states() == [ATTACK]
        assert board.at(10).unconfirmed
        assert board.at(10).cause.type == "vote-expiry"

    title = f"{first} says clear and {second} says attack in one millisecond, and both fall silent"
    return Example(title, story.scenario, story.lines, check)


def majority_falls_silent(of: int, against: int, min_voters: int) -> Example:
    """Of a majority for an attack all fall silent; the others go on saying clear."""
    rule = watch(vote_lifetime="60s", holds={CLEAR: "5m"}, min_voters=min_voters)
    story = Story(rule).reports(0, ATTACK, *(f"a{n}" for n in range(of)))
    for at in range(0, 40 * MINUTE, 30):
        story.reports(at, CLEAR, *(f"c{n}" for n in range(against)))

    def check(board: Board) -> None:
        assert board.states(0, 21 * MINUTE - 1) == [ATTACK]
        assert board.at(15 * MINUTE).pending is None
        assert board.at(15 * MINUTE).unconfirmed_reason == "nobody says it is this bad"
        assert board.states(0, 22 * MINUTE) == [ATTACK, CLEAR]
        assert not board.at(22 * MINUTE).unconfirmed

    title = f"{of} say attack and fall silent, {against} say clear, min_voters is {min_voters}"
    return Example(title, rule, story.lines, check)


def all_fall_silent() -> Example:
    """The votes for clear are 21 s younger, and the hold of clear is 20 s."""
    rule = watch(vote_lifetime="90s", holds={CLEAR: "20s"})
    story = Story(rule).reports(0, ATTACK, "a1", "a2", "a3").reports(21, CLEAR, "c1", "c2")
    story.ticks(22, 120).add(3600, Tick())

    def check(board: Board) -> None:
        assert board.states() == [ATTACK]
        assert board.at(110).unconfirmed
        assert board.at(110).pending is None

    return Example("all fall silent, those for clear 21 s later", rule, story.lines, check)


def out_of_a_spool(age: float) -> Example:
    """The votes of an attack have expired when old reports come that say clear."""
    rule = shipped("attack")
    story = Story(rule).reports(0, "under-attack", "waf-1", "waf-2").ticks(1, 700, 60)
    for agent in ("waf-3", "waf-4"):
        story.report(720, agent, "clear", said=720 - age)
    story.ticks(721, 3600, 30)

    def check(board: Board) -> None:
        assert board.states() == ["under-attack"]
        assert board.at(1200).unconfirmed

    title = f"under attack, its votes silent, two spools say clear {age / MINUTE:g} minutes late"
    return Example(title, rule, story.lines, check)


def shortened_lifetime() -> Example:
    """vote_lifetime goes from 600 s to 30 s, which ends the votes for the attack."""
    rule = watch(vote_lifetime="600s", holds={CLEAR: "10s"})
    story = Story(rule).reports(0, ATTACK, "a1", "a2", "a3").reports(25, CLEAR, "c1", "c2")
    story.add(40, ScenarioChange(watch(vote_lifetime="30s", holds={CLEAR: "10s"})))
    story.ticks(41, 100).add(3600, Tick())

    def check(board: Board) -> None:
        assert board.states() == [ATTACK]
        assert [vote.silent for vote in board.at(41).votes] == [ms(40)] * 3 + [None] * 2

    return Example("a lifetime is shortened in mid-attack", rule, story.lines, check)


def renamed_state() -> Example:
    """The worst state gets another name, and the votes for it go with the old one."""
    holds = {CLEAR: "5m"}
    rule = watch(min_voters=2, holds=holds)
    story = Story(rule).reports(0, ATTACK, "a1", "a2", "a3").report(0, "c1", CLEAR)
    states = [{"name": name} for name in ("under-attack", CLEAR)]
    ladder = [{"state": spec["name"], "more_than": "1/2"} for spec in states]
    renamed = {"states": states, "rule": {"kind": "quorum", "ladder": ladder}}
    story.add(10, ScenarioChange(watch(min_voters=2, holds=holds, **renamed)))
    story.report(20, "c2", CLEAR).report(200, "c2", CLEAR).add(400, Tick())

    def check(board: Board) -> None:
        assert board.states(0, 319) == [ATTACK]
        assert board.at(10).unconfirmed_reason == "1 of 2 voters"
        assert board.states() == [ATTACK, CLEAR]

    return Example("the state of an attack is renamed", rule, story.lines, check)


def one_of_an_electorate() -> Example:
    """Three of five say attack, and nobody anything else; one of them falls silent."""
    rule = watch(rule=HALF_OF_FIVE, electorate=5, vote_lifetime="60s")
    story = Story(rule).reports(0, ATTACK, "a1", "a2", "a3")
    for at in range(30, 90 * MINUTE, 30):
        story.reports(at, ATTACK, "a2", "a3")

    def check(board: Board) -> None:
        assert board.states() == [ATTACK]
        assert board.at(60).cause.agent == "a1"
        assert not board.at(80 * MINUTE).unconfirmed

    title = "an electorate, a default of clear, and one of the votes for the attack expires"
    return Example(title, rule, story.lines, check)


# ---- voters ---------------------------------------------------------------------------------


def flapping_voter() -> Example:
    """A second voter comes and goes while an attack waits out its hold."""
    rule = watch(rule=ANY, min_voters=2, vote_lifetime="10s", holds={ATTACK: "30s"})
    story = Story(rule).reports(0, CLEAR, "w1", "w2")
    for at in range(1, 60, 5):
        story.report(at, "w1", ATTACK)
    for at in range(15, 60, 15):
        story.report(at, "w2", CLEAR)
    story.in_order()

    def check(board: Board) -> None:
        assert board.states(0, 30.9) == [CLEAR]
        assert board.states() == [CLEAR, ATTACK]
        assert board.at(31).since == ms(31)

    return Example("a voter flaps while an attack is pending", rule, story.lines, check)


def one_of_two(raising: int) -> Example:
    """After a silence one agent says attack, where lowering a state takes two."""
    voters = 2 if raising == 1 else {"lower": 2, "raise": raising}
    rule = watch(min_voters=voters, vote_lifetime="60s")
    story = Story(rule).reports(0, CLEAR, "w1", "w2").ticks(1, 100, 10).report(120, "w1", ATTACK)

    def check(board: Board) -> None:
        record = board.at(120)
        assert record.unconfirmed_reason == "1 of 2 voters"
        assert record.state == (ATTACK if raising == 1 else CLEAR)
        assert record.disputed == (None if raising == 1 else ATTACK)

    title = f"one of two voters is left and says attack, raising takes {raising}"
    return Example(title, rule, story.lines, check)


def weightless_voters() -> Example:
    """One agent says clear, and another does that weighs nothing: that is one voter."""
    rule = watch(min_voters=2, weights={"test-*": 0}, vote_lifetime="60s", forget_after="0s")
    story = Story(rule).reports(0, ATTACK, "w1", "w2")
    for at in range(10, 300, 10):
        story.reports(at, CLEAR, "w1", "test-1")

    def check(board: Board) -> None:
        assert board.states() == [ATTACK]
        assert board.at(200).unconfirmed_reason == "1 of 2 voters"

    return Example("agents of weight 0 are no voters", rule, story.lines, check)


# ---- what is shown --------------------------------------------------------------------------


def two_bad_states() -> Example:
    """Two probes see the network in two bad states by turns; neither lasts for its hold."""
    rule = shipped("connectivity")
    story = Story(rule).reports(0, "up", "probe-1", "probe-2")
    for at in range(60, 83 * MINUTE + 1, 60):
        story.report(at, "probe-1", "down").report(at + 30, "probe-2", "degraded")

    def check(board: Board) -> None:
        assert board.states(0, 359) == ["up"]
        assert board.at(361).state in ("degraded", "down")
        assert "up" not in board.states(361)
        assert board.at(200).disputed in ("degraded", "down")

    return Example("two probes say down and degraded by turns", rule, story.lines, check)


def one_against_one() -> Example:
    """A ladder that keeps the state, one vote each way."""
    story = Story(watch()).report(0, "w1", CLEAR).report(10, "w2", ATTACK)

    def check(board: Board) -> None:
        assert (board.at(0).state, board.at(0).disputed) == (CLEAR, None)
        assert (board.at(10).state, board.at(10).disputed) == (CLEAR, ATTACK)

    return Example("one says attack and one says clear", story.scenario, story.lines, check)


def pinned_over() -> Example:
    """An operator's clear over three votes that say attack."""
    story = Story(watch()).reports(0, ATTACK, "w1", "w2", "w3")
    story.command(10, "set", 1, state=CLEAR)

    def check(board: Board) -> None:
        assert (board.at(10).state, board.at(10).disputed) == (CLEAR, ATTACK)

    return Example("three votes say attack under a pinned clear", watch(), story.lines, check)


# ---- clocks ---------------------------------------------------------------------------------


def clock_set_right() -> Example:
    """An agent's clock was four minutes ahead."""
    story = Story(watch(rule=LATEST))
    story.report(0, "w1", CLEAR, said=240).report(10, "w1", ATTACK).report(20, "w1", ATTACK)

    def check(board: Board) -> None:
        assert board.states(10) == [ATTACK]

    return Example("a clock that was ahead is set right", story.scenario, story.lines, check)


def append_time_ahead() -> Example:
    """One record has an append time of the day after; the next ones have right ones again."""
    rule = watch(vote_lifetime="60s", max_report_age="10m", min_voters=2)
    story = Story(rule).reports(0, CLEAR, "w1", "w2").add(DAY, Tick())
    story.reports(20, ATTACK, "w1", "w2")

    def check(board: Board) -> None:
        record = board.records[-1]
        assert isinstance(record, StateRecord)
        assert (record.state, record.unconfirmed) == (ATTACK, False)
        assert [vote.silent for vote in record.votes] == [None, None]

    return Example("an append time is a day ahead", rule, story.lines, check)


def purged_while_ahead() -> Example:
    """An asset is purged while the bucket's clock is ahead; then it is attacked."""
    story = Story(watch()).reports(0, CLEAR, "w1", "w2").add(DAY, Tick())
    story.command(20, "purge", 1).reports(30, ATTACK, "w1", "w2")

    def check(board: Board) -> None:
        record = board.records[-1]
        assert isinstance(record, StateRecord)
        assert (record.state, record.unconfirmed) == (ATTACK, False)

    title = "an attack after a purge, while the clock is a day ahead"
    return Example(title, story.scenario, story.lines, check)


# ---- commands -------------------------------------------------------------------------------


def moved_beneath_a_pin() -> Example:
    """Votes beneath a pin move the tally; who releases the pin has seen all that is shown."""
    story = Story(watch(rule=LATEST)).report(0, "w1", CLEAR)
    story.command(10, "set", 1, state=CLEAR).report(20, "w1", ATTACK)
    story.command(30, "release", 2, if_version=Version(1, 1, 0))

    def check(board: Board) -> None:
        answer = board.answers()[-1].answer
        assert answer is not None
        assert answer.outcome == "applied"
        assert board.at(30).state == ATTACK

    return Example("votes move beneath a pin", story.scenario, story.lines, check)


def malformed_repeat() -> Example:
    """A command that was carried out comes again, and this time cannot be read."""
    story = Story(watch()).report(0, "w1", CLEAR).command(10, "set", 1, state=ATTACK)
    story.add(20, Refusal(SITE, command_id(1), "", "user: expected a name"))

    def check(board: Board) -> None:
        first, again = board.answers()
        assert again.answer == first.answer
        causes = [(a.cause.type, a.cause.user, a.cause.command) for a in (first, again)]
        assert causes == [("set", "olga", command_id(1))] * 2

    return Example("a repeated command is malformed", story.scenario, story.lines, check)


@cache
def examples() -> tuple[Example, ...]:
    """All of them."""
    return (
        at_one_instant("b", "a"),
        at_one_instant("a", "b"),
        majority_falls_silent(3, 2, 1),
        majority_falls_silent(4, 3, 3),
        all_fall_silent(),
        out_of_a_spool(59 * MINUTE),
        out_of_a_spool(29 * MINUTE),
        shortened_lifetime(),
        renamed_state(),
        one_of_an_electorate(),
        flapping_voter(),
        one_of_two(1),
        one_of_two(2),
        weightless_voters(),
        two_bad_states(),
        one_against_one(),
        pinned_over(),
        clock_set_right(),
        append_time_ahead(),
        purged_while_ahead(),
        moved_beneath_a_pin(),
        malformed_repeat(),
    )
