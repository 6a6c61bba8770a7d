"""What is wrong with an agent, by what is known of it: what comes first, and in which words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from dashboard.core.common.scenarios import scenarios
from dashboard.watch.agents.fault_words import KINDS, line, said
from dashboard.watch.agents.faults import AgentFacts, Fault, Kind, faults_of, quiet_ms
from dashboard.watch.agents.findings import REPORTED_KINDS, _reported
from dashboard.watch.agents.models import Agent, VoteFault
from dashboard.watch.agents.reports import Late, Lately, LatePeriod

NOW = 1_790_000_000_000
MINUTE, HOUR = 60_000, 3_600_000
ATTACK, ORDERS = scenarios()["attack"], scenarios()["orders"]
QUIET = quiet_ms(ATTACK, 30_000)
UNKNOWN_WORD = "it says critical, which this board does not know"


def agent(**more: Any) -> Agent:
    """An agent that reports twice a minute, and did so a second ago."""
    given = {"last_seen": NOW - 1_000, "gap": 30_000, "votes": 20, "clock": -100} | more
    return Agent(scenario="attack", agent="waf-1", first_seen=0, **given)


def known(
    row: Agent | None = None, late: Late | None = None, board: Any = None, **runs: LatePeriod
) -> AgentFacts:
    """What is known of an agent. board: what stands against its votes: assets by kind, or rows."""
    rows = {
        kind: row if isinstance(row, VoteFault) else counted(kind, row)
        for kind, row in (board or {}).items()
    }
    return AgentFacts(row or agent(), Lately(late or Late(), runs), rows, NOW)


def counted(kind: str, assets: int = 3, **more: Any) -> VoteFault:
    """A fault that was counted on some assets."""
    given = {"since": NOW - 5 * MINUTE, "last": NOW - 1_000, "said": "", "ms": 0} | more
    return VoteFault(scenario="attack", agent="waf-1", kind=kind, assets=assets, **given)


def run(minutes: int = 1, ago: int = 0) -> LatePeriod:
    """Reports in the last minutes, up to some minutes ago."""
    last = NOW // MINUTE - ago
    return LatePeriod(last - minutes + 1, last, minutes)


def sentences(of: AgentFacts, scenario: Any = ATTACK) -> list[str]:
    return [said(scenario, "waf-1", fault).text for fault in faults_of(scenario, of, NOW)]


def test_nothing_is_said_of_an_agent_that_fares_well() -> None:
    assert sentences(known()) == []


def test_every_kind_has_words_in_its_order() -> None:
    assert get_args(Kind) == KINDS
    assert [kind for kind in KINDS if kind in REPORTED_KINDS] == list(REPORTED_KINDS)
    for kind in KINDS:
        fault_text = said(ATTACK, "waf-1", Fault(kind, assets=2, of=3, ms=360_000, said="clear"))
        assert fault_text.text[:1].isupper()
        assert not fault_text.text.endswith(".")
        assert fault_text.todo.endswith(".")


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (known(agent(silent=16, votes=4, silent_since=NOW - HOUR)), ["Silent on 16 of 20 sites"]),
        (known(agent(silent=1, votes=0)), ["Silent on its only site"]),
        (
            known(board={"clock-ahead": counted("clock-ahead", 12, ms=359_988)}),
            ["Its clock is 6 min ahead: its votes on 12 sites are in doubt"],
        ),
        (
            known(board={"unknown-state": counted("unknown-state", 4, said="critical")}),
            [f"Its reports on 4 sites are refused: {UNKNOWN_WORD}"],
        ),
        (
            known(board={"bad-time": 1}),
            ["Its reports on 1 site are refused: no valid time"],
        ),
        (known(late=Late(refused=3), refused=run()), ["Its reports are refused"]),
        (
            known(board={"contradiction": 3}),
            ["Contradicts itself on 3 sites: do two processes report under this name?"],
        ),
        (
            known(board={"purged": 3}),
            ["Its reports on 3 sites are from before a purge, and in doubt"],
        ),
        (
            known(agent(clock=-480_000), Late(silent=9, age=480_000, oldest=481_000, last=NOW)),
            ["Its reports come late: its clock is 8 min behind"],
        ),
        (
            known(agent(clock=-50_000), Late(rare=4, last=NOW)),
            ["Its votes expire early: its clock is 50 s behind"],
        ),
        (known(late=Late(rare=4, last=NOW)), ["Reports too rarely: its votes expire in between"]),
        (
            known(late=Late(silent=9, age=240_000, last=NOW - 2 * MINUTE)),
            ["Its reports came 4 min late or more, as from a spool"],
        ),
        (
            known(board={"flapping": counted("flapping", 2, said="under-attack")}),
            ["Flapping on 2 sites: Under attack disputes a milder state"],
        ),
        (
            known(board={"detail": counted("detail", 2, said="too-large")}),
            ["Details are left out on 2 sites: larger than 2,048 bytes"],
        ),
        (known(late=Late(detail=2), detail=run()), ["Details are left out"]),
        (
            AgentFacts(agent(last_seen=NOW - 5 * MINUTE)),
            ["Not seen, though usually every 30 s"],
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(of: AgentFacts, says: list[str]) -> None:
    assert sentences(of) == says


def test_reports_that_come_twice_are_told_beside_what_else_is_late() -> None:
    late = Late(late=3, rare=2, last=NOW)
    of = AgentFacts(agent(), Lately(late, {"late": run(2), "rare": run()}), {}, NOW)
    assert [fault.kind for fault in faults_of(ATTACK, of, NOW)] == ["late", "rare"]


def test_what_matters_most_comes_first() -> None:
    of = known(
        agent(silent=2, votes=0),
        Late(doubtful=4, ahead=400_000, rare=1, last=NOW),
        {"unknown-state": 2, "contradiction": 1, "flapping": 1, "detail": 1, "stale": 1},
        doubtful=run(3),
    )
    kinds = [fault.kind for fault in faults_of(ATTACK, of, NOW)]
    assert kinds == sorted(kinds, key=KINDS.index)
    assert kinds[:3] == ["refused", "contradiction", "ahead"]


def test_a_clock_ahead_is_told_in_a_life_cycle_without_votes_in_doubt() -> None:
    of = known(late=Late(doubtful=4, ahead=400_000, last=NOW), doubtful=run(3))
    assert sentences(of, ORDERS) == ["Its clock is 6 min ahead"]
    (fault,) = faults_of(ORDERS, of, NOW)
    assert line(ORDERS, "waf-1", fault) == ("the clock of waf-1 is 6 min ahead", "Set its clock.")


# ---- silence ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "known_until", "kinds"),
    [
        (agent(last_seen=NOW - QUIET - 1, silent=20, votes=0), NOW, ["silent"]),
        (agent(last_seen=NOW - QUIET + 1), NOW, ["unseen"]),
        # up to when the log is known, it may have reported
        (agent(last_seen=NOW - QUIET - 1), NOW - QUIET - 1, ["unseen"]),
        (agent(last_seen=NOW - QUIET - 1, left_at=NOW - QUIET - 1), NOW, []),
        (agent(last_seen=NOW - 23 * HOUR), NOW, ["silent"]),
        (agent(last_seen=NOW - 29 * 24 * HOUR), NOW, ["silent"]),
        (agent(last_seen=NOW - 31 * 24 * HOUR), NOW, ["unseen"]),
        (agent(last_seen=NOW - QUIET - 1, gap=0), NOW, []),
        (agent(last_seen=NOW - QUIET - 1, gap=QUIET), NOW, []),
    ],
)
def test_an_agent_is_missed_while_the_log_goes_on(
    row: Agent, known_until: int, kinds: list[str]
) -> None:
    of = AgentFacts(row, known_until=known_until)
    assert [fault.kind for fault in faults_of(ATTACK, of, NOW)] == kinds


def test_an_agent_whose_reports_are_not_taken_is_not_silent() -> None:
    row = agent(last_seen=NOW - 2 * QUIET)
    assert "silent" not in {f.kind for f in faults_of(ATTACK, known(row, Late(last=NOW)), NOW)}
    of = known(row, board={"unknown-state": 3})
    assert [fault.kind for fault in faults_of(ATTACK, of, NOW)] == ["refused"]


def test_in_a_life_cycle_nobody_is_missed() -> None:
    row = agent(last_seen=NOW - 2 * HOUR)
    assert [fault.kind for fault in faults_of(ORDERS, known(row), NOW)] == ["unseen"]


# ---- what is told -------------------------------------------------------------------------------


def reported_kinds(*faults: Fault) -> list[str]:
    return [fault.kind for fault in _reported(faults, NOW)]


@pytest.mark.parametrize(
    ("fault", "reported"),
    [
        (Fault("ahead", NOW - 10_000, assets=2), True),
        (Fault("ahead", NOW - 10_000, assets=1), False),
        (Fault("ahead", NOW - 9_000, assets=9), False),
        (Fault("ahead", NOW - 60_000, minutes=2), True),
        (Fault("refused", NOW - 60_000, minutes=1), False),
        (Fault("refused", NOW - 60_000, assets=1, minutes=9), False),
        (Fault("behind", NOW - 60_000, minutes=2), True),
        (Fault("behind", NOW - 60_000, minutes=9, steady=False), False),
        (Fault("silent", NOW - 1), True),
        (Fault("flapping", NOW - HOUR, assets=9), False),
        (Fault("partly", NOW - HOUR, assets=9), False),
        (Fault("spool", NOW - HOUR, minutes=9), False),
    ],
)
def test_a_fault_is_told_once_it_lasts_and_shows_in_several_places(
    fault: Fault, reported: bool
) -> None:
    assert bool(reported_kinds(fault)) is reported


def test_reports_out_of_order_are_told_once_they_come_again_and_again() -> None:
    slow = replace(ATTACK, vote_lifetime=15 * MINUTE)

    def kinds(minutes: int) -> list[str]:
        runs = {"late": run(minutes)}
        of = AgentFacts(agent(), Lately(Late(late=minutes, last=NOW), runs), {}, NOW)
        return reported_kinds(*faults_of(slow, of, NOW))

    assert kinds(8) == ["late"]
    assert kinds(7) == []


def test_one_cause_is_told_once() -> None:
    contradiction = Fault("contradiction", NOW - HOUR, assets=3)
    assert reported_kinds(contradiction, Fault("behind", minutes=3)) == ["behind"]
    assert reported_kinds(contradiction) == ["contradiction"]
    late = Lately(Late(late=3, last=NOW), {"late": run(3)})
    rows = {"contradiction": counted("contradiction")}
    of = AgentFacts(agent(), late, rows, NOW)
    assert [fault.kind for fault in faults_of(ATTACK, of, NOW)] == ["contradiction"]


def test_reports_from_a_spool_are_of_any_age_and_by_a_clock_equally_old() -> None:
    def steady(*ages: int) -> bool:
        late = Late(silent=9, age=min(ages), oldest=max(ages), last=NOW)
        of = known(agent(clock=-min(ages)), late, old=run(3))
        (fault,) = faults_of(ATTACK, of, NOW)
        return fault.steady

    assert steady(240_000, 240_900)
    assert steady(7_200_000, 7_500_000)
    assert not steady(130_000, 900_000)


@pytest.mark.parametrize(
    ("fault", "what", "todo"),
    [
        (
            Fault("refused", assets=4, reason="unknown-state", said="critical"),
            "reports of waf-2 on 4 sites are refused",
            (
                "It says critical, which this board does not know. Add the state, or downgrade the "
                "agent."
            ),
        ),
        (
            Fault("refused", minutes=3),
            "reports of waf-2 are refused",
            "Fix what it sends: see its dead letters.",
        ),
        (Fault("silent"), "waf-2 has reported nothing", "Start it, or let it leave."),
        (
            Fault("ahead", assets=12, ms=360_000),
            "the clock of waf-2 is 6 min ahead",
            "Its votes on 12 sites are in doubt: set its clock.",
        ),
        (
            Fault("contradiction", assets=5),
            "waf-2 contradicts itself on 5 sites",
            "Two processes may report under its name: give each a name of its own.",
        ),
    ],
)
def test_a_banners_line_says_what_is_so_and_what_to_do(fault: Fault, what: str, todo: str) -> None:
    assert line(ATTACK, "waf-2", fault) == (what, todo)


def test_a_sentence_links_to_the_assets_that_it_is_about() -> None:
    url = said(ATTACK, "waf 1", Fault("ahead", assets=2)).url
    assert url == "/?scenario=attack&q=agent%3A%22waf+1%22+has%3Adoubt"
    assert said(ATTACK, "waf-1", Fault("partly", assets=2)).url.endswith("q=has%3Asilent")
    assert said(ATTACK, "waf-1", Fault("ahead")).url == ""
    assert said(ATTACK, "waf-1", Fault("behind", minutes=2)).url == ""
    letters = said(ATTACK, "waf-1", Fault("refused", assets=2, reason="bad-time"))
    assert letters.url == "/dead-letters/?scenario=attack&word=waf-1"
    assert letters.link == "Dead letters"
    unknown = said(ATTACK, "waf-1", Fault("refused", assets=2, reason="unknown-state", said="x"))
    assert unknown.link == "On the board"
