"""Histories in which a report was refused, late or purged, and its agent's last word gave a green.

Each is an `Example` as those of `false_green`: data, that any engine can be held to.
"""

from __future__ import annotations

from functools import cache

from domain.records import (
    CLOCK_AHEAD,
    CLOCK_BACK,
    CONTRADICTION,
    MAX_VOTERS,
    PURGED,
    STALE,
    Leave,
    Mute,
    RefusedReport,
    Report,
    ScenarioChange,
    StateRecord,
    Tick,
    Tombstone,
)
from domain.scenario import DOUBT_FOLD, FOLD, Scenario
from support.histories.false_green import (
    ANY,
    ATTACK,
    CLEAR,
    DAY,
    LATEST,
    MAJORITY,
    MINUTE,
    SITE,
    Board,
    Example,
    Story,
    ms,
    shipped,
    watch,
)

UNDER_ATTACK = "under-attack"
WORKERS = ("waf-1", "waf-2")


def is_calm(record: StateRecord) -> bool:
    """Return whether a row is green, confirmed and undisputed."""
    return record.state == CLEAR and not record.unconfirmed and record.disputed is None


def never_calm(board: Board, since: float, until: float) -> None:
    """Fail where the row is calm at some time from `since` to `until`, seconds after START."""
    shown = [r for r in board.records if ms(since) < r.cause.time <= ms(until)]
    for record in [board.at(since), *shown]:
        assert isinstance(record, StateRecord), record
        assert not is_calm(record), record


def doubts_of(record: StateRecord) -> dict[str, tuple[str, str | None]]:
    """Why agents are doubted, and what they said, by agent."""
    return {doubt.agent: (doubt.reason, doubt.said) for doubt in record.doubts}


def vote_doubts(record: StateRecord) -> dict[str, str]:
    """Why votes are in doubt by their own reports, by agent."""
    return {vote.agent: vote.doubt for vote in record.votes if vote.doubt is not None}


def all_clear(rule: Scenario) -> Story:
    """A site that two agents have called clear for a while."""
    story = Story(rule)
    for at in range(-300, 1, 30):
        story.reports(at, CLEAR, *WORKERS)
    return story


# ---- clocks ---------------------------------------------------------------------------------


def cloned_agent() -> Example:
    """Two processes under one name, clocks 2 s apart: the one behind sees the attack."""
    story = all_clear(rule := shipped("attack"))
    for at in range(1, 31 * MINUTE, 2):
        story.report(at, "waf-1", CLEAR).report(at + 1, "waf-1", UNDER_ATTACK, said=at - 1)
        story.report(at + 1, "waf-2", CLEAR)

    def check(board: Board) -> None:
        never_calm(board, 2, 40 * MINUTE)
        assert board.at(30 * MINUTE).disputed == UNDER_ATTACK
        assert doubts_of(board.at(30 * MINUTE)) == {"waf-1": (CONTRADICTION, UNDER_ATTACK)}
        assert board.at(30 * MINUTE).unconfirmed_reason == "1 of 2 voters"

    return Example("two processes report under one name", rule, story.lines, check)


def clock_ahead() -> Example:
    """The agent that sees the attack has a clock 6 min ahead; two others say clear."""
    story = all_clear(rule := shipped("attack"))
    for at in range(10, 60 * MINUTE, 30):
        story.report(at, "waf-3", UNDER_ATTACK, said=at + 360).reports(at, CLEAR, *WORKERS)

    def check(board: Board) -> None:
        never_calm(board, 10, 60 * MINUTE)
        assert board.at(60).disputed == UNDER_ATTACK
        assert vote_doubts(board.at(60)) == {"waf-3": CLOCK_AHEAD}

    return Example("a clock six minutes ahead", rule, story.lines, check)


def nearly_ahead() -> Example:
    """A clock whose lead shrinks from six minutes: in doubt down to four, then trusted."""
    rule = watch(rule=LATEST, vote_lifetime="10m", fold=FOLD)
    story = Story(rule)
    for at, lead in enumerate((299, 361, 290, 241, 240, 299)):
        story.report(100 * at, "w1", CLEAR, said=100 * at + lead)

    def check(board: Board) -> None:
        assert [bool(vote_doubts(board.at(100 * at))) for at in range(6)] == [0, 1, 1, 1, 0, 0]

    return Example("a clock is a little less ahead than it was", rule, story.lines, check)


def clock_set_back() -> Example:
    """An agent's clock is set back by 8 min while the attack begins."""
    story = all_clear(rule := shipped("attack"))
    for at in range(10, 20 * MINUTE, 30):
        story.report(at, "waf-1", UNDER_ATTACK, said=at - 480).report(at, "waf-2", CLEAR)

    def check(board: Board) -> None:
        never_calm(board, 10, 20 * MINUTE)
        assert doubts_of(board.at(60)) == {"waf-1": (CONTRADICTION, UNDER_ATTACK)}

    return Example("an agent's clock is set back by eight minutes", rule, story.lines, check)


def broker_set_back() -> Example:
    """The broker's clock is set back by 10 min: every agent looks as if it were ahead."""
    story = all_clear(rule := shipped("attack"))
    for at in range(10, 40 * MINUTE, 30):
        story.report(at - 600, "waf-1", UNDER_ATTACK, said=at)
        story.report(at - 600, "waf-2", CLEAR, said=at)

    def check(board: Board) -> None:
        never_calm(board, 0.001, 20 * MINUTE)
        record = board.records[-1]
        assert isinstance(record, StateRecord)
        assert record.disputed == UNDER_ATTACK
        assert vote_doubts(record) == dict.fromkeys(WORKERS, CLOCK_AHEAD)

    return Example("the broker's clock is set back by ten minutes", rule, story.lines, check)


def followed_back() -> Example:
    """Broker and agent go back together, so what the agent says is older than its vote."""
    rule = watch(rule=LATEST, vote_lifetime="10m", fold=FOLD)
    story = Story(rule).report(600, "w1", CLEAR)
    story.report(10, "w1", ATTACK).report(20, "w1", CLEAR)

    def check(board: Board) -> None:
        first, raised = [r for r in board.records if isinstance(r, StateRecord)]
        assert is_calm(first)
        assert (raised.state, vote_doubts(raised)) == (ATTACK, {"w1": CLOCK_BACK})

    return Example("broker and agent are set back together", rule, story.lines, check)


# ---- refused reports ------------------------------------------------------------------------


def unknown_word() -> Example:
    """An agent is upgraded and says critical, which the scenario does not know."""
    story = all_clear(rule := shipped("attack"))
    for at in range(10, 30 * MINUTE, 30):
        story.report(at, "waf-1", "critical").report(at, "waf-2", CLEAR).report(at, "waf-3", CLEAR)

    def check(board: Board) -> None:
        never_calm(board, 10, 30 * MINUTE)
        record = board.at(20 * MINUTE)
        assert record.disputed == "critical"
        assert doubts_of(record) == {"waf-1": ("unknown-state", "critical")}

    return Example("an agent says what the scenario does not know", rule, story.lines, check)


def unreadable_claim() -> Example:
    """A report whose state is no text disputes whatever is shown, for a vote's lifetime."""
    rule = watch(rule=LATEST, vote_lifetime="60s", fold=FOLD)
    story = Story(rule).report(0, "w1", CLEAR).add(10, RefusedReport(SITE, "w2", None, "bad-field"))
    story.report(50, "w1", CLEAR).ticks(51, 100)

    def check(board: Board) -> None:
        assert (board.at(10).disputed, board.at(10).unconfirmed) == ("unreadable", False)
        assert board.at(69).disputed == "unreadable"
        assert board.at(70).cause.type == "doubt-end"
        assert is_calm(board.at(70))

    return Example("a report that nobody can read", rule, story.lines, check)


def outgrown_detail() -> Example:
    """The detail outgrows its room with the attack: the claim stands without it."""
    story = all_clear(rule := shipped("attack"))
    for agent in ("waf-1", "waf-2", "waf-3"):
        claim = Report(SITE, agent, UNDER_ATTACK, ms(10), detail_fault="too-large")
        story.add(10, claim)

    def check(board: Board) -> None:
        record = board.at(10)
        assert (record.state, record.unconfirmed, record.disputed) == (UNDER_ATTACK, False, None)
        assert {vote.detail_fault for vote in record.votes} == {"too-large"}

    return Example("a detail outgrows its room", rule, story.lines, check)


# ---- purges ---------------------------------------------------------------------------------


def after_a_purge() -> Example:
    """After a purge an agent whose clock is 5 min behind says attack."""
    story = all_clear(rule := shipped("attack"))
    story.command(5, "purge", 1).reports(10, CLEAR, *WORKERS)
    for at in range(20, 4 * MINUTE, 30):
        story.report(at, "waf-3", UNDER_ATTACK, said=at - 300).reports(at, CLEAR, *WORKERS)

    def check(board: Board) -> None:
        never_calm(board, 20, 4 * MINUTE)
        assert vote_doubts(board.at(20)) == {"waf-3": PURGED}
        assert board.at(20).disputed == UNDER_ATTACK

    return Example("an attack that is older than a purge", rule, story.lines, check)


def purge_under_a_pin(gone: str) -> Example:
    """`purge_after` of the mildest state, under a pin, over a tallied attack."""
    rule = watch(rule=ANY, vote_lifetime="1m", purge_after={CLEAR: "10m"}, fold=FOLD)
    story = Story(rule).report(0, "w1", ATTACK).command(1, "set", 1, state=CLEAR)
    if gone == "leaves":
        story.add(2, Leave(SITE, "w1", ms(2)))
    if gone == "is muted":
        story.add(2, Mute("w1", None, "olga", "", "00000000-0000-4000-8000-00000000aaaa"))
    story.ticks(60, 20 * MINUTE, 60).report(21 * MINUTE, "w2", CLEAR)

    def check(board: Board) -> None:
        assert not any(isinstance(record, Tombstone) for record in board.records)
        record = board.at(20 * MINUTE)
        assert record.override is not None
        assert (record.state, record.override.underlying) == (CLEAR, ATTACK)
        assert record.unconfirmed

    title = f"time purges nothing under a pin, where the agent {gone}"
    return Example(title, rule, story.lines, check)


def purge_once_it_may() -> Example:
    """What held a purge up ends: it comes at once, or at its time."""
    rule = watch(rule=MAJORITY, vote_lifetime="1m", purge_after={CLEAR: "2m"}, fold=FOLD)
    story = Story(rule)
    for at in range(0, 151, 30):
        story.reports(at, CLEAR, "w1", "w2")
    story.add(100, RefusedReport(SITE, "w3", None, "bad-field")).add(300, Tick()).in_order()

    def check(board: Board) -> None:
        gone = board.records[-1]
        assert isinstance(gone, Tombstone)
        assert (gone.cause.type, gone.cause.time) == ("purge-after", ms(160))

    return Example("a doubt holds a purge up as long as it lasts", rule, story.lines, check)


def in_mid_air() -> Example:
    """A report that was on its way when the asset was purged: milder ones are late as ever."""
    rule = watch(rule=LATEST, vote_lifetime="10m", fold=FOLD)
    story = Story(rule).report(0, "w1", ATTACK).command(10, "purge", 1)
    story.report(11, "w1", CLEAR, said=9).report(12, "w1", ATTACK, said=9.5)
    story.report(13, "w1", CLEAR, said=9.8).report(14, "w1", CLEAR, said=13.9)

    def check(board: Board) -> None:
        *_, gone, first, again, right = board.records
        assert isinstance(gone, Tombstone)
        for record, state in ((first, ATTACK), (again, ATTACK)):
            assert isinstance(record, StateRecord)
            assert (record.state, vote_doubts(record)) == (state, {"w1": PURGED})
        assert isinstance(right, StateRecord)
        assert is_calm(right)

    return Example("reports on their way while a purge comes", rule, story.lines, check)


# ---- what a scenario may not say, and its changes -------------------------------------------


def votes_without_an_end() -> Example:
    """A log whose rule gives votes no lifetime: they live a day."""
    rule = watch(min_voters=2, fold=FOLD)
    story = Story(rule).reports(0, CLEAR, "w1", "w2").ticks(DAY - 10, DAY + 10)

    def check(board: Board) -> None:
        assert is_calm(board.at(DAY - 1))
        assert board.at(DAY).unconfirmed_reason == "0 of 2 voters"

    return Example("votes without a lifetime live a day", rule, story.lines, check)


def forbidden_task(do: str) -> Example:
    """A log whose rule lets time end an attack: the task is set aside, and says why."""
    task = {"on": ATTACK, "after": "30m", "do": do, **({"state": CLEAR} if do == "set" else {})}
    rule = watch(rule=ANY, vote_lifetime="10m", tasks=[task], fold=FOLD)
    story = Story(rule).reports(0, ATTACK, "w1", "w2", "w3").ticks(10, 40 * MINUTE, 60)
    what = "purge" if do == "purge" else "set a milder state"

    def check(board: Board) -> None:
        record = board.at(40 * MINUTE)
        assert record.state == ATTACK
        assert [task.aside for task in record.tasks] == [f"a task of the scenario may not {what}"]

    return Example(f"a task of the rule may not {what}", rule, story.lines, check)


def shortened_both() -> Example:
    """A change of rule shortens hold and lifetime together, in the middle of a wait."""
    rule = watch(rule=LATEST, vote_lifetime="10m", holds={CLEAR: "5m"}, fold=FOLD)
    story = Story(rule).report(0, "w1", ATTACK).report(60, "w1", CLEAR)
    changed = watch(rule=LATEST, vote_lifetime="10s", holds={CLEAR: "1s"}, fold=FOLD)
    story.add(120, ScenarioChange(changed)).ticks(121, 200)

    def check(board: Board) -> None:
        assert board.at(100).pending is not None
        assert board.states() == [ATTACK]
        assert board.at(121).unconfirmed_reason == "0 of 1 voters"

    return Example("hold and lifetime are shortened together", rule, story.lines, check)


def muted_waiter() -> Example:
    """The only agent for whom an attack waits is muted: it does not turn red by a mute's vote."""
    rule = watch(rule=ANY, vote_lifetime="10m", holds={ATTACK: "30s"}, fold=FOLD)
    story = Story(rule).report(0, "w1", CLEAR).report(10, "w1", ATTACK)
    story.add(20, Mute("w1", None, "olga", "", "00000000-0000-4000-8000-00000000aaaa"))
    story.ticks(21, 100)

    def check(board: Board) -> None:
        assert board.at(10).pending is not None
        assert board.states() == [CLEAR]
        assert board.at(20).pending is None

    return Example("the only voter for a wait is muted", rule, story.lines, check)


def renamed_while_disputed() -> Example:
    """The worst state is renamed while one agent says it: its word is not lost with its vote."""
    rule = watch(rule=LATEST, vote_lifetime="10m", min_voters={"raise": 2}, fold=FOLD)
    story = Story(rule).report(0, "w1", CLEAR).report(5, "w2", ATTACK).report(10, "w1", CLEAR)
    states = [{"name": "critical"}, {"name": CLEAR}]
    changed = watch(
        states=states, rule=LATEST, vote_lifetime="10m", min_voters={"raise": 2}, fold=FOLD
    )
    story.add(20, ScenarioChange(changed)).report(30, "w2", CLEAR)

    def check(board: Board) -> None:
        assert board.at(20).disputed == ATTACK
        assert [vote.state for vote in board.at(20).votes] == [CLEAR, ATTACK]
        assert is_calm(board.at(30))

    return Example("a state is renamed that an agent says", rule, story.lines, check)


def full_house() -> Example:
    """As many agents as one asset takes say clear; one more, whose clock is behind, says attack."""
    rule = watch(rule=LATEST, vote_lifetime="60s", fold=FOLD)
    story = Story(rule).reports(0, CLEAR, *(f"c{number}" for number in range(MAX_VOTERS)))
    story.report(5, "late", ATTACK, said=-85)

    def check(board: Board) -> None:
        assert board.at(5).disputed == ATTACK
        assert doubts_of(board.at(5)) == {"late": (STALE, ATTACK)}

    return Example("a full house, and one whose clock is behind", rule, story.lines, check)


# ---- what doubt does, and when it ends ------------------------------------------------------


def outvoting() -> Example:
    """Two doubtful clears do not outvote one trusted attack; nor do they give an all-clear."""
    rule = watch(rule=MAJORITY, vote_lifetime="10m", min_voters=1, fold=FOLD)
    story = Story(rule).reports(0, CLEAR, "w1", "w2", "w3")
    for agent in ("w1", "w2"):
        story.report(10, agent, CLEAR, said=10 + 400)
    story.report(20, "w3", ATTACK).report(30, "w1", CLEAR, said=430)

    def check(board: Board) -> None:
        assert board.states() == [CLEAR, ATTACK]
        assert board.at(10).unconfirmed_reason is None  # w3 is trusted, and says clear
        assert board.at(20).pending is None

    return Example("votes in doubt do not outvote a trusted one", rule, story.lines, check)


def doubtful_alarm() -> Example:
    """A doubtful voice alone raises an alarm, and takes none back."""
    rule = watch(rule=ANY, vote_lifetime="10m", fold=FOLD)
    story = Story(rule).report(0, "w1", CLEAR).report(10, "w1", ATTACK, said=400)
    story.report(20, "w1", CLEAR, said=420).report(30, "w1", CLEAR).report(430, "w1", CLEAR)

    def check(board: Board) -> None:
        assert board.states() == [CLEAR, ATTACK, CLEAR]
        assert board.at(30).state == ATTACK, "what is claimed to be later counts"
        assert board.at(430).state == CLEAR

    return Example("a voice in doubt may raise an alarm alone", rule, story.lines, check)


def end_of_a_spool() -> Example:
    """An old word of an agent without a vote is doubted until its next report is taken."""
    rule = watch(rule=LATEST, vote_lifetime="1m", fold=FOLD)
    story = Story(rule).report(0, "w1", CLEAR).report(5, "w2", ATTACK, said=-DAY / 2)
    story.report(10, "w2", CLEAR)

    def check(board: Board) -> None:
        assert doubts_of(board.at(5)) == {"w2": (STALE, ATTACK)}
        assert board.at(5).disputed == ATTACK
        assert is_calm(board.at(10))

    return Example("a spool empties that began with an attack", rule, story.lines, check)


def to_and_fro() -> Example:
    """An agent whose vote turns worse twice within a lifetime is disputed for a lifetime."""
    rule = watch(rule=LATEST, vote_lifetime="60s", fold=FOLD)
    story = Story(rule)
    for at, state in enumerate((CLEAR, ATTACK, CLEAR, ATTACK, CLEAR)):
        story.report(at, "w1", state)
    story.report(30, "w1", CLEAR).report(62, "w1", CLEAR).ticks(63, 70)

    def check(board: Board) -> None:
        assert board.at(2).disputed is None
        assert (board.at(4).state, board.at(4).disputed) == (CLEAR, ATTACK)
        assert not board.at(4).unconfirmed
        assert board.at(62.9).disputed == ATTACK
        assert board.at(63).cause.type == "doubt-end"
        assert is_calm(board.at(63))

    return Example("an agent goes to and fro", rule, story.lines, check)


def rise_by_steps() -> Example:
    """An agent whose vote turns worse by steps is not disputed once it is clear again."""
    states = [{"name": ATTACK}, {"name": "suspicious"}, {"name": CLEAR}]
    rule = watch(rule=LATEST, vote_lifetime="60s", fold=FOLD, states=states)
    story = Story(rule)
    by_steps = (CLEAR, "suspicious", "suspicious", ATTACK, CLEAR)
    for at, state in enumerate((*by_steps, "suspicious", CLEAR)):
        story.report(at, "w1", state)

    def check(board: Board) -> None:
        assert is_calm(board.at(4))
        assert board.at(5).disputed == ATTACK, "it turned milder in between"
        assert board.at(6).disputed == ATTACK

    return Example("an attack comes by steps", rule, story.lines, check)


def lasting_doubt() -> Example:
    """Neither a leave nor a good report takes a doubt; a lifetime later it is over."""
    rule = watch(rule=LATEST, vote_lifetime="10m", fold=FOLD)
    story = Story(rule).reports(0, CLEAR, "w1", "w2").report(10, "w1", "critical")
    story.report(20, "w1", CLEAR).add(30, Leave(SITE, "w1", ms(30)))
    story.report(599, "w2", CLEAR).ticks(600, 620, 10)

    def check(board: Board) -> None:
        assert board.at(20).disputed == "critical"
        assert [vote.agent for vote in board.at(30).votes] == ["w2"]
        assert board.at(599).disputed == "critical"
        assert is_calm(board.at(610))

    return Example("a leave leaves a doubt", rule, story.lines, check)


def former_meaning() -> Example:
    """A log before doubt: refused and late reports leave no trace until its rule changes."""
    rule = watch(rule=LATEST, vote_lifetime="10m", fold=DOUBT_FOLD - 1)
    story = Story(rule).report(0, "w1", CLEAR)
    story.report(10, "w1", "critical").report(11, "w1", ATTACK, said=-5)
    story.report(12, "w1", ATTACK, said=12 + 301)
    story.add(13, Report(SITE, "w1", ATTACK, ms(13), detail_fault="too-large"))
    story.add(20, ScenarioChange(watch(rule=LATEST, vote_lifetime="10m", fold=FOLD)))
    story.report(30, "w1", "critical")

    def check(board: Board) -> None:
        assert is_calm(board.at(29))
        assert board.at(30).disputed == "critical"

    return Example("a log of a fold without doubt", rule, story.lines, check)


@cache
def doubtful_examples() -> tuple[Example, ...]:
    """All of them."""
    return (
        cloned_agent(),
        clock_ahead(),
        nearly_ahead(),
        clock_set_back(),
        broker_set_back(),
        followed_back(),
        unknown_word(),
        unreadable_claim(),
        outgrown_detail(),
        after_a_purge(),
        purge_under_a_pin("falls silent"),
        purge_under_a_pin("leaves"),
        purge_under_a_pin("is muted"),
        purge_once_it_may(),
        in_mid_air(),
        votes_without_an_end(),
        forbidden_task("purge"),
        forbidden_task("set"),
        shortened_both(),
        muted_waiter(),
        outvoting(),
        doubtful_alarm(),
        end_of_a_spool(),
        to_and_fro(),
        rise_by_steps(),
        renamed_while_disputed(),
        full_house(),
        lasting_doubt(),
        former_meaning(),
    )
