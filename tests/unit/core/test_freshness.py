"""What keeps the board from being fresh: told apart, in order, with since when and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from dashboard.core.common.access import Role
from dashboard.core.common.scenarios import scenarios
from dashboard.core.job.agent_findings import AgentNews, Finding, Kind, LastSeen
from dashboard.core.job.freshness import (
    ORDER,
    Beat,
    BoardProblem,
    Facts,
    KafkaRefusal,
    Pause,
    board_problems,
    find_problems,
    standstill,
)
from dashboard.core.job.ingestion import ingest_progress
from dashboard.core.job.liveness import Signs
from dashboard.core.job.status import clocks_behind, recall
from domain.scenario import Scenario
from support.web.heartbeats import heartbeat, store
from wire.job import ClockBehind, QueryReport, Stopped, bucket_name, encode

NOW = 1_790_000_000_000
PLACE = ("job.buckets", 0)
HOUR = 3_600_000


def known() -> list[Scenario]:
    return list(scenarios().values())


def names_of() -> list[str]:
    return [scenario.name for scenario in known()]


def well(**changes: Any) -> Facts:
    """All is well at NOW, but for the changes."""
    names = [bucket_name(s.name, at) for s in known() for at in range(s.partitions)]
    facts = Facts(
        reached=NOW - 100,
        beats={name: Beat(NOW - 500, NOW - 900) for name in names},
        agents=AgentNews((), dict.fromkeys(names_of(), LastSeen(NOW - 1_000, 1_000))),
    )
    return replace(facts, **changes)


def problems(facts: Facts, current: str = "attack") -> list[BoardProblem]:
    return find_problems(facts, known(), current, NOW)


def elsewhere(facts: Facts) -> dict[str, str]:
    """What the boards' tabs are marked with."""
    return board_problems(facts, known(), NOW)


def kinds(facts: Facts, current: str = "attack") -> list[str]:
    return [problem["kind"] for problem in problems(facts, current)]


def test_nothing_is_said_while_all_is_well():
    assert problems(well()) == []
    assert elsewhere(well()) == {}


def test_a_rebuild_is_told_until_it_is_done():
    rebuilds = {"kernel": Pause("ada", NOW - 9_000, "a drill.")}
    beats = well().beats
    behind = {
        name: replace(beat, log_time=NOW - 10**7, query="kernel") for name, beat in beats.items()
    }
    (problem,) = problems(well(beats=behind, rebuilds=rebuilds))
    assert (problem["what"], problem["when"]) == ("Rebuild requested by ada", "at")
    assert problem["quote"] == "a drill"
    assert problem["todo"] == "The board is as of then."
    assert (problem["since"], problem["stale"]) == (NOW - 9_000, True)
    level = {name: replace(beat, query="kernel") for name, beat in beats.items()}
    assert problems(well(beats=level, rebuilds=rebuilds)) == [problem], (
        "it has not said that it ended"
    )
    silent = {name: replace(beat, received_at=NOW - 30_000) for name, beat in behind.items()}
    assert problems(well(beats=silent, rebuilds=rebuilds))[0] == problem
    gone = {name: replace(beat, received_at=NOW - 90_000) for name, beat in behind.items()}
    assert problems(well(beats=gone, rebuilds=rebuilds))[0]["what"] == "The job has not answered"


def test_a_rebuild_hides_no_other_query_that_is_late():
    rebuilds = {"kernel": Pause("ada", NOW - 9_000, "a drill")}
    late = {
        name: replace(beat, log_time=NOW - 10**7, query=engine)
        for name, beat in well().beats.items()
        for engine in ["python" if name.startswith("orders") else "kernel"]
    }
    facts = well(beats=late, rebuilds=rebuilds)
    assert [each["kind"] for each in problems(facts, "")] == ["rebuild", "late"]
    assert kinds(facts, "orders") == ["behind"]
    assert kinds(facts, "attack") == ["rebuild"]


def test_a_job_that_somebody_started_has_a_moment_until_its_first_heartbeat():
    signs, by = Signs(), Stopped("ada", "a drill", NOW - 30_000)
    signs.record_heartbeat(beat(log_time=NOW - 40_000), PLACE, 1, NOW - 40_000)
    signs.record_progress(encode(QueryReport("kernel", NOW - 30_000, "stopped", 2, stopped=by)))
    signs.record_progress(encode(QueryReport("kernel", NOW - 9_000, "starting", 2)))
    problem = problems(replace(signs.facts(), reached=NOW))[0]
    assert (problem["kind"], problem["what"]) == ("job", "The job is starting")
    assert problem["since"] == NOW - 40_000
    later = find_problems(
        replace(signs.facts(), reached=NOW + 12_000), known(), "attack", NOW + 12_000
    )
    assert later[0]["what"] == "The job has not answered"


def test_the_end_of_a_rebuild_is_heard():
    signs, by = Signs(), Stopped("ada", "a drill", NOW)
    signs.record_progress(encode(QueryReport("kernel", NOW, "catching-up", 2, rebuild=by)))
    assert signs.facts().rebuilds == {"kernel": Pause("ada", NOW, "a drill")}
    signs.record_progress(encode(QueryReport("kernel", NOW, "running", 2)))
    assert signs.facts().rebuilds == {}


def test_what_kafka_refuses_this_process_is_told_alone_and_since_when():
    why = "Kafka refuses the topic attack.states: the user needs the right READ on it"
    facts = well(reached=NOW - 60_000, beats={}, refusal=KafkaRefusal(why, NOW - 50_000))
    (problem,) = problems(facts)
    assert problem["kind"] == "kafka"
    assert problem["what"] == "Kafka refuses this server"
    assert why in problem["details"]
    assert why not in problem["todo"]
    assert (problem["since"], problem["stale"]) == (NOW - 50_000, True)


def test_a_refusal_is_over_once_this_process_has_read_all():
    signs = Signs()
    signs.refused("the topic a", NOW)
    signs.refused("the topic b", NOW + 9_000)
    assert signs.facts().refusal == KafkaRefusal("the topic b", NOW)
    signs.reached(NOW + 10_000)
    assert signs.facts().refusal is None


def test_a_web_process_that_is_behind_judges_nothing_else():
    facts = well(reached=NOW - 6_000, beats={}, unwritten=NOW - 60_000)
    (problem,) = problems(facts)
    assert problem["kind"] == "web"
    assert problem["since"] == NOW - 6_000


def test_a_job_never_heard_of_has_no_since():
    (problem,) = problems(Facts())
    assert problem["kind"] == "job"
    assert problem["since"] is None
    assert "No heartbeat has come from the job yet" in problem["what"]


def test_a_job_without_a_heartbeat_for_five_seconds_is_stalled():
    silent = {name: Beat(NOW - 5_001, NOW - 5_500) for name in well().beats}
    (problem,) = problems(replace(about(attack=LastSeen(NOW - 600_000)), beats=silent))
    assert problem["kind"] == "job"
    assert problem["since"] == NOW - 5_001
    assert problem["links"][0].address == "/job/#missing"
    assert elsewhere(well(beats=silent)) == dict.fromkeys(names_of(), "The job has not answered")
    assert problems(well(beats={name: Beat(NOW - 5_000, NOW - 5_400) for name in silent})) == []


def test_buckets_behind_are_named_on_their_board_and_mark_its_tab():
    late = {"attack/1": Beat(NOW - 100, NOW - 30_000), "orders/2": Beat(NOW - 100, NOW - 11_000)}
    facts = well(beats={**well().beats, **late})
    (here,) = problems(facts)
    assert here["what"] == "States are late in attack/1"
    assert here["since"] == NOW - 30_000
    assert here["stale"]
    assert problems(facts, "orders")[0]["since"] == NOW - 11_000
    assert problems(facts, "connectivity") == []
    assert elsewhere(facts) == {
        "attack": "States are late in attack/1",
        "orders": "States are late in orders/2",
    }
    (all_boards,) = problems(facts, "")
    assert all_boards["what"] == "States are late in attack/1, orders/2"


def test_of_many_buckets_behind_a_few_are_named():
    beats = {name: Beat(NOW - 100, NOW - 20_000) for name in well().beats}
    beats["orders/0"] = well().beats["orders/0"]
    (here,) = problems(well(beats=beats), "")
    assert here["what"].startswith("States are late in attack/0, attack/1, attack/2 and ")


def test_a_bucket_never_heard_of_is_behind():
    beats = dict(well().beats)
    del beats["attack/3"]
    (problem,) = problems(well(beats=beats))
    assert problem["what"] == "States are late in attack/3"
    assert problem["since"] is None


def link_of(problem: BoardProblem, role: Role) -> tuple[str, str] | None:
    """Where a reader of this role is led."""
    return next((each[:2] for each in problem["links"] if role in each.roles), None)


def test_a_clock_ahead_is_told_with_how_far_and_what_to_do():
    ahead = Beat(NOW - 500, NOW + 23 * HOUR, "kernel", 23 * HOUR, NOW - 60_000)
    (problem,) = problems(well(beats={**well().beats, "attack/1": ahead}))
    assert problem["kind"] == "clock"
    assert problem["what"] == "No time passes in attack/1: its clock is 23 h ahead"
    assert problem["since"] == NOW - 60_000
    assert problem["stale"]
    assert link_of(problem, Role.ADMIN) == ("/replay/", "Replay")
    assert link_of(problem, Role.OPERATOR) == ("/job/#missing", "What is missing")
    assert link_of(problem, Role.MANAGER) is None
    facts = well(beats={**well().beats, "attack/1": ahead})
    assert problems(facts, "orders") == []
    assert elsewhere(facts) == {"attack": problem["what"]}
    more = {f"attack/{at}": replace(ahead, ahead=(at + 1) * HOUR) for at in range(4)}
    (problem,) = problems(well(beats={**well().beats, **more}))
    assert problem["what"] == (
        "No time passes in attack/0, attack/1, attack/2 and 1 more: "
        "their clocks are up to 4 h ahead"
    )


SLOW = ClockBehind(599_997, NOW - 60_000)


def stamped(*names: str, clock: ClockBehind = SLOW) -> Facts:
    """The broker's clock was set back a minute ago: no time passes in these buckets, or in all."""
    clocks = dict.fromkeys(names or well().beats, clock)
    beats = {name: Beat(NOW - 500, NOW - 60_000, "kernel") for name in clocks}
    return well(beats={**well().beats, **beats}, clocks_behind=clocks)


def test_a_brokers_clock_that_is_behind_is_told_once_with_what_to_do():
    (problem,) = problems(stamped())
    assert problem["kind"] == "clock"
    assert problem["what"] == "The broker's clock is 10 min behind"
    assert problem["todo"].startswith("Agents look as if their clocks were ahead. No vote falls")
    assert "Set the broker's clock" in problem["details"]
    assert problem["call"] == "Call an admin."
    assert problem["since"] == NOW - 60_000
    assert problem["stale"]


def test_of_several_brokers_the_partitions_of_the_one_behind_are_named():
    facts = stamped("attack/1", "orders/2")
    for current, bucket in (("attack", "attack/1"), ("orders", "orders/2")):
        (problem,) = problems(facts, current)
        assert problem["stale"]
        assert problem["what"] == f"A broker's clock is 10 min behind in {bucket}"
    assert problems(facts, "connectivity") == []
    assert elsewhere(facts).keys() == {"attack", "orders"}


def test_it_is_as_important_as_a_clock_ahead():
    late = {"attack/1": Beat(NOW - 100, NOW - 30_000), "orders/0": Beat(NOW - 100, NOW - 30_000)}
    facts = stamped("connectivity/0")
    facts = replace(facts, beats={**facts.beats, **late}, unwritten=NOW - 9_000)
    assert kinds(facts, "connectivity") == ["clock", "database"]
    assert kinds(facts, "attack") == ["late", "database"]
    assert kinds(facts, "") == ["clock", "late", "database"]


def test_a_job_that_is_further_behind_than_its_brokers_clock_is_told_as_well():
    facts = stamped("attack/1")
    least = facts.clocks_behind["attack/1"].by + 10_000

    def behind(ms: int) -> list[str]:
        beat = Beat(NOW - 100, NOW - ms, "kernel")
        return kinds(replace(facts, beats={**facts.beats, "attack/1": beat}))

    assert behind(least) == ["clock"]
    assert behind(least + 1) == ["clock", "late"]


def finding(agent: str, kind: Kind = "behind", scenario: str = "attack", **more: Any) -> Finding:
    """Something wrong with an agent for three minutes."""
    words = {"what": f"the clock of {agent} is 4 min behind", "todo": "Set its clock."}
    given: dict[str, Any] = {"since": NOW - 180_000, "ms": 240_000, **words} | more
    return Finding(scenario, agent, kind, **given)


def about(*findings: Finding, **last: LastSeen) -> Facts:
    """All is well, but for what there is to say of agents."""
    return well(agents=AgentNews(findings, {**well().agents.last, **last}))


def test_an_agent_with_which_something_is_wrong_is_named():
    (problem,) = problems(about(finding("waf-7")))
    assert problem["kind"] == "agents"
    assert problem["what"] == "Attacks: the clock of waf-7 is 4 min behind"
    assert problem["todo"] == "Set its clock."
    assert problem["since"] == NOW - 180_000
    assert link_of(problem, Role.OPERATOR) == ("/agents/attack/waf-7/", "The agent's page")
    assert link_of(problem, Role.MANAGER) is None
    assert not problem["stale"]


def test_of_several_agents_alike_there_is_one_line():
    far = finding("waf-2", ms=7_300_000, since=NOW - 60_000)
    findings = [far, finding("waf-1"), finding("waf-3"), finding("waf-4"), finding("waf-5")]
    findings += [finding("waf-1", "late"), finding("waf-2", "late")]
    facts = about(*findings, finding("x", scenario="orders"))
    clocks, order = problems(facts)
    assert clocks["what"] == (
        "Attacks: the clocks of waf-2, waf-1, waf-3 and 2 more are up to 2 h behind"
    )
    assert clocks["since"] == NOW - 60_000, "before, it was not so of all of them"
    assert link_of(clocks, Role.ADMIN) == ("/agents/?scenario=attack", "The agents")
    assert order["what"] == "Attacks: reports of waf-1 and waf-2 come twice or out of order"
    assert elsewhere(facts)["orders"] == "Orders: the clock of x is 4 min behind"


def test_of_several_agents_each_kind_has_words():
    for kind in get_args(Kind):
        (problem,) = problems(about(finding("waf-1", kind), finding("waf-2", kind)))
        assert "waf-1 and waf-2" in problem["what"]
        assert problem["todo"].endswith(".")


def test_a_name_from_outside_leaves_a_line_its_direction():
    hostile = "\u202eevil"
    what = problems(about(finding(hostile, "silent"), finding("waf-1", "silent")))[0]["what"]
    assert "\u202e" not in what


def test_a_database_behind_leaves_rows_live_and_says_so():
    facts = well(unwritten=NOW - 5_001)
    (problem,) = problems(facts)
    assert problem["kind"] == "database"
    assert problem["what"] == "States are current; history is late"
    assert not problem["stale"]
    assert problem["since"] == NOW - 5_001
    assert elsewhere(facts) == {}, "it is everybody's, and leaves the rows live"
    assert problems(well(unwritten=NOW - 5_000)) == []


def test_agents_silent_for_longer_than_usual():
    facts = about(attack=LastSeen(NOW - 60_001, 1_000))
    (problem,) = problems(facts)
    assert problem["kind"] == "agents"
    assert problem["what"] == "Attacks: no agent has reported"
    assert problem["since"] == NOW - 60_001
    assert link_of(problem, Role.OPERATOR) == ("/agents/?scenario=attack", "The agents")
    assert problems(facts, "orders") == []
    assert elsewhere(facts) == {"attack": "Attacks: no agent has reported"}


@pytest.mark.parametrize(
    ("ago", "usual", "said"),
    [
        (60_000, 1_000, False),
        (299_000, 100_000, False),
        (301_000, 100_000, True),
        (24 * HOUR, 1_000, True),
        (400 * 24 * HOUR, 100_000, True),
    ],
)
def test_how_long_agents_may_be_silent(ago: int, usual: int, said: bool):
    for name in ("attack", "orders"):
        facts = about(**{name: LastSeen(NOW - ago, usual)})
        assert bool(problems(facts, name)) is said
        by_heartbeats = replace(about(**{name: LastSeen(NOW - ago)}), usual={name: usual})
        assert bool(problems(by_heartbeats, name)) is said


def test_what_looks_usual_by_heartbeats_silences_no_banner_for_long():
    facts = replace(about(attack=LastSeen(NOW - 4 * HOUR)), usual={"attack": 20 * HOUR})
    assert kinds(facts) == ["agents"]


def test_a_board_on_which_nobody_ever_reported_has_no_problem():
    """Its pipeline is off, and a rule's record at the job's start is no report."""
    signs = Signs()
    for number in range(40):
        signs.record_heartbeat(
            beat("clients/0", records=1), PLACE, number, NOW - 600_000 + number * 2_000
        )
    facts = replace(signs.facts(), beats=well().beats, unwritten=None)
    for current in ("", "clients", "attack"):
        assert problems(facts, current) == []
    assert elsewhere(facts) == {}


def test_a_replay_changes_nothing_of_a_silence():
    seen = LastSeen(NOW - 3 * HOUR, 1_000)
    signs = Signs()
    signs.record_heartbeat(beat("attack/0", records=500), PLACE, 1, NOW - 1_000)
    facts = replace(about(attack=seen), usual=signs.facts().usual)
    (problem,) = problems(facts)
    assert problem["since"] == NOW - 3 * HOUR


def test_a_silence_where_the_pipeline_was_switched_off_says_so():
    (problem,) = problems(about(clients=LastSeen(NOW - HOUR, 0, "login-guard")), "clients")
    assert "the pipeline login-guard is switched off" in problem["todo"]
    assert "TALLYBOARD_PIPELINES" in problem["details"]
    assert problem["call"] == "Call an admin."


def test_a_silence_is_judged_by_what_the_database_knows_of():
    """While the job or the database is late, reports wait that it does not have yet."""
    seen = LastSeen(NOW - 90_000, 1_000)
    assert kinds(about(attack=seen)) == ["agents"]
    late = {**well().beats, "attack/1": Beat(NOW - 100, NOW - 31_000)}
    assert kinds(replace(about(attack=seen), beats=late)) == ["late"]
    assert kinds(replace(about(attack=seen), unwritten=NOW - 31_000)) == ["database"]
    assert kinds(replace(about(attack=seen), unwritten=NOW - 9_000)) == ["agents", "database"]


def test_what_makes_rows_stale_comes_first():
    facts = replace(
        about(attack=LastSeen(NOW - 90_000), orders=LastSeen(NOW - 90_000)),
        unwritten=NOW - 9_000,
        beats={**well().beats, "attack/1": Beat(NOW - 100, NOW - 20_000)},
    )
    assert kinds(facts) == ["late", "agents", "database"]
    assert kinds(facts, "orders") == ["agents", "database"]
    assert kinds(facts, "") == ["late", "agents", "agents", "database"]
    for each in (problems(facts, ""), problems(facts)):
        assert [t["stale"] for t in each] == sorted((t["stale"] for t in each), reverse=True)
        order = [ORDER.index(t["kind"]) for t in each]
        assert order == sorted(order)


def test_nothing_is_live_while_the_job_does_not_answer():
    assert standstill(problems(well())) is None
    silent = {name: Beat(NOW - 9_000, NOW - 9_000) for name in well().beats}
    still = standstill(problems(well(beats=silent), ""))
    assert still is not None
    assert (still["kind"], still["since"]) == ("job", NOW - 9_000)
    assert standstill(problems(well(unwritten=NOW - 9_000))) is None


def test_each_says_what_to_do():
    late = {**well().beats, "attack/1": Beat(NOW - 100, NOW - 30_000)}
    silent = about(attack=LastSeen(NOW - 90_000))
    for facts in (
        well(reached=NOW - 9_000),
        Facts(),
        replace(silent, beats=late, unwritten=NOW - 9_000),
    ):
        for problem in problems(facts):
            assert problem["todo"].endswith(".")
            assert "check that" not in problem["todo"], "an operator cannot"


def stopped(*queries: str) -> dict[str, Pause]:
    return {query: Pause("ada", NOW - 60_000, "a drill") for query in queries}


def carried(age: int = 500) -> dict[str, Beat]:
    """Heartbeats so old; the Python engine carries orders, the kernel all else."""
    return {
        name: Beat(NOW - age, NOW - age, "python" if name.startswith("orders") else "kernel")
        for name in well().beats
    }


def test_a_job_that_was_stopped_on_purpose_is_no_fault():
    silent = about(**dict.fromkeys(names_of(), LastSeen(NOW - 600_000)))
    facts = replace(silent, beats=carried(60_000), pauses=stopped("kernel", "python"))
    (here,) = problems(facts)
    assert (here["what"], here["when"]) == ("The job was stopped by ada", "at")
    assert (here["since"], here["quote"]) == (NOW - 60_000, "a drill")
    assert here["todo"] == "The board is as of then until an admin starts it."
    assert link_of(here, Role.OPERATOR) == ("/job/", "The job's page")
    assert here["stale"]
    assert len(problems(facts, "")) == 2


def test_of_a_stopped_query_the_others_are_judged_as_ever():
    beats = carried(60_000)
    beats |= {name: beat for name, beat in carried().items() if beat.query == "python"}
    facts = well(beats=beats, pauses=stopped("kernel"))
    (problem,) = problems(facts)
    assert problem["stale"]
    assert problems(facts, "orders") == []
    late = replace(facts, beats=beats | {"orders/0": Beat(NOW, NOW - 20_000, "python")})
    (first,) = problems(late, "orders")
    assert first["what"] == "States are late in orders/0"
    assert "orders" not in elsewhere(facts)
    assert elsewhere(late)["orders"] == "States are late in orders/0"
    silent = problems(replace(facts, beats=carried(60_000)), "orders")
    assert [problem["what"] for problem in silent] == ["The job has not answered"]


def test_a_stop_that_nothing_else_is_known_of_is_told():
    (problem,) = problems(Facts(pauses=stopped("kernel")))
    assert problem["what"] == "The job was stopped by ada"
    assert problem["stale"]


# ---- what a process hears -------------------------------------------------------------------


def beat(
    bucket: str = "attack/0", records: int = 0, dead: int = 0, log_time: int = NOW, **more: Any
) -> bytes:
    scenario, _, partition = bucket.partition("/")
    fields = {"records": records, "dead_letters": dead, "engine": "python"}
    return encode(heartbeat(log_time, scenario, int(partition), **fields | more))


def test_the_newest_heartbeat_counts():
    signs = Signs()
    signs.record_heartbeat(beat(log_time=NOW), PLACE, 1, NOW)
    signs.remember("attack/0", NOW - 5_000, NOW - 6_000)
    assert signs.facts().beats == {"attack/0": Beat(NOW, NOW)}
    signs.remember("attack/0", NOW + 1, NOW + 1)
    assert signs.facts().beats == {"attack/0": Beat(NOW + 1, NOW + 1)}


def test_since_when_a_clock_is_ahead_is_heard_or_remembered():
    signs = Signs()

    def since() -> tuple[int, int | None]:
        last_beat = signs.facts().beats["attack/0"]
        return last_beat.ahead, last_beat.ahead_since

    for n in range(3):
        at = NOW + 1_000 * n
        signs.record_heartbeat(beat(log_time=NOW + HOUR, at=at), PLACE, n, at)
        assert since() == (HOUR - 1_000 * n, NOW)
    signs.record_heartbeat(beat(log_time=NOW + 7_000, at=NOW + 2_000), PLACE, 4, NOW + 2_000)
    assert since() == (5_000, None)
    signs.remember("attack/0", NOW + 9_000, NOW + HOUR, "", NOW - 1)
    assert since() == (HOUR - 9_000, NOW - 1)
    signs.record_heartbeat(beat(log_time=NOW + HOUR, at=NOW + 10_000), PLACE, 5, NOW + 10_000)
    assert since() == (HOUR - 10_000, NOW - 1)


def test_states_below_what_the_board_has_are_told():
    signs = Signs()
    signs.remember("attack/0", NOW - 90_000, NOW - 90_000, epoch=3)
    signs.record_heartbeat(beat(log_time=NOW, epoch=1), PLACE, 1, NOW)
    signs.record_heartbeat(beat("orders/1", log_time=NOW, epoch=1), PLACE, 2, NOW)
    beats = {**well().beats, **signs.facts().beats}
    (problem,) = problems(well(beats=beats))
    assert problem["what"] == "New states of attack/0 are dropped as older"
    assert problem["stale"]
    assert "is of epoch 1, and the board has epoch 3" in problem["details"]
    assert "Restart the job" in problem["details"]
    assert problems(well(beats=beats), "orders") == []
    assert elsewhere(well(beats=beats)) == {"attack": problem["what"]}
    signs.record_heartbeat(beat(log_time=NOW, epoch=4), PLACE, 3, NOW)
    assert problems(well(beats={**well().beats, **signs.facts().beats})) == []


def test_a_killed_job_that_reads_again_has_shown_what_it_had_shown():
    signs = Signs()
    signs.record_heartbeat(beat(log_time=NOW - 20_000, epoch=3), PLACE, 1, NOW - 20_000)
    signs.record_heartbeat(
        beat(log_time=NOW - 76_000, epoch=3), PLACE, 2, NOW
    )  # from its last commit
    (problem,) = problems(well(beats={**well().beats, **signs.facts().beats}))
    assert (problem["kind"], problem["since"]) == ("late", NOW - 20_000)
    signs.record_heartbeat(
        beat(log_time=NOW - 90_000, epoch=4), PLACE, 3, NOW
    )  # it writes states anew
    (problem,) = problems(well(beats={**well().beats, **signs.facts().beats}))
    assert problem["since"] == NOW - 90_000


def test_nothing_is_live_while_every_partition_is_late():
    late = {name: replace(beat, log_time=NOW - 30_000) for name, beat in well().beats.items()}
    facts = well(beats=late)
    (problem,) = problems(facts)
    assert (problem["kind"], problem["what"]) == ("behind", "States are late")
    assert problem["since"] == NOW - 30_000
    assert standstill(problems(facts)) == problem
    one = well(beats={**well().beats, "attack/0": late["attack/0"]})
    assert standstill(problems(one)) is None, "other rows are live"


def test_heartbeats_of_before_a_rebuild_are_no_problem():
    signs = Signs()
    signs.remember("attack/0", NOW, NOW, epoch=3)
    signs.record_heartbeat(beat(log_time=NOW - 9_000, epoch=2), PLACE, 1, NOW - 9_000)  # read again
    assert problems(well(beats={**well().beats, **signs.facts().beats})) == []


def test_what_is_no_heartbeat_is_passed_over():
    signs = Signs()
    signs.record_heartbeat(b"{", PLACE, 1, NOW)
    signs.record_heartbeat(None, PLACE, 2, NOW)
    assert signs.facts() == Facts()


def reported(gaps: list[int], dead: int = 0) -> int:
    """What is usual once reports came at these times from each other, by heartbeats."""
    signs, at = Signs(), NOW
    for number, gap in enumerate(gaps):
        at += gap
        signs.record_heartbeat(beat(records=3, dead=dead), PLACE, number, at)
    return signs.facts().usual.get("attack", 0)


def test_one_long_silence_does_not_become_the_usual_one():
    assert reported([*[2_000] * 20, 3_000_000, *[2_000] * 20]) == 2_000


def test_agents_that_report_in_bursts_usually_pause():
    assert reported([60_000, 1_000, 1_000, 1_000] * 15) == 60_000


def test_few_pauses_or_refused_records_say_nothing_of_what_is_usual():
    assert reported([HOUR] * 8) == 0
    assert reported([2_000] * 40, dead=3) == 0


def test_a_heartbeat_is_watched_for_until_the_database_has_it():
    signs = Signs()
    signs.stored({PLACE: 5})
    for offset in range(3, 9):
        signs.record_heartbeat(beat(), PLACE, offset, NOW + offset * 1_000)
    assert signs.facts().unwritten == NOW + 5_000
    signs.stored({PLACE: 7})
    assert signs.facts().unwritten == NOW + 7_000
    signs.stored({PLACE: 9})
    assert signs.facts().unwritten is None


def test_a_stop_is_heard_of_until_the_start():
    signs = Signs()
    signs.record_progress(
        encode(QueryReport("kernel", NOW, "stopped", 1, stopped=Stopped("ada", "why", NOW)))
    )
    signs.record_progress(b"{")
    assert signs.facts().pauses == {"kernel": Pause("ada", NOW, "why")}
    signs.record_progress(encode(QueryReport("python", NOW, "running", 1)))
    assert signs.facts().pauses
    signs.record_progress(encode(QueryReport("kernel", NOW, "running", 1)))
    assert not signs.facts().pauses


@pytest.mark.django_db
def test_a_stop_is_recalled_from_the_database():
    signs = Signs()
    ingest_progress(
        [QueryReport("kernel", NOW, "stopped", 1, since=5, stopped=Stopped("ada", "why", 5))]
    )
    recall(signs)
    assert signs.facts().pauses == {"kernel": Pause("ada", 5, "why")}
    ingest_progress([QueryReport("kernel", NOW, "running", 1)])
    recall(signs)
    assert not signs.facts().pauses


# ---- a broker's clock behind ----------------------------------------------------------------


def slow(query: str = "kernel", **clocks: ClockBehind) -> QueryReport:
    """A report of clocks that are behind, by scenario, in its first partition."""
    behind = {bucket_name(name, 0): clock for name, clock in clocks.items()}
    return QueryReport(query, NOW, "running", 1, clocks_behind=behind)


def test_clocks_behind_are_heard_of_until_they_are_right():
    signs = Signs()
    signs.record_progress(encode(slow(attack=SLOW)))
    assert signs.facts().clocks_behind == {}, "nobody has heard of that bucket"
    signs.record_heartbeat(beat(engine="kernel"), PLACE, 1, NOW)
    assert signs.facts().clocks_behind == {"attack/0": SLOW}
    signs.record_progress(encode(slow("python", orders=SLOW)))
    assert signs.facts().clocks_behind == {"attack/0": SLOW}
    signs.record_progress(encode(slow()))
    assert signs.facts().clocks_behind == {}


def test_what_a_query_said_that_has_handed_a_bucket_over_says_nothing():
    signs = Signs()
    signs.record_progress(encode(slow(attack=SLOW)))
    signs.record_heartbeat(beat(engine="kernel"), PLACE, 1, NOW)
    signs.record_heartbeat(beat(engine="python"), PLACE, 2, NOW + 1_000)
    assert signs.facts().clocks_behind == {}


@pytest.mark.django_db
def test_clocks_behind_are_recalled_from_the_database():
    store(heartbeat(NOW))
    signs = Signs()
    ingest_progress([slow(attack=SLOW), slow("python", attack=SLOW, orders=SLOW)])
    recall(signs)
    assert signs.facts().clocks_behind == clocks_behind() == {"attack/0": SLOW}
    ingest_progress([slow()])
    recall(signs)
    assert signs.facts().clocks_behind == clocks_behind() == {}


def jobs_of(facts: Facts) -> Facts:
    """The same facts where a job of its own is to carry the scenario `orders`."""
    beats = {
        name: replace(beat, query="shop-kernel" if name.startswith("orders/") else "kernel")
        for name, beat in facts.beats.items()
    }
    return replace(facts, beats=beats, jobs={"orders": "shop"})


def test_a_job_that_is_silent_leaves_the_boards_of_the_others():
    facts = jobs_of(well())
    assert problems(facts, "") == []
    silent = {
        name: replace(beat, received_at=NOW - 9_000) if name.startswith("orders/") else beat
        for name, beat in facts.beats.items()
    }
    facts = replace(facts, beats=silent)
    assert kinds(facts, "attack") == []
    (problem,) = problems(facts, "orders")
    assert problem["what"] == "The job shop has not answered"
    assert "logs/job-shop.log" in problem["details"]
    assert [each["what"] for each in problems(facts, "")] == ["The job shop has not answered"]
    assert elsewhere(facts) == {"orders": "The job shop has not answered"}


def test_the_main_job_may_be_silent_alone_too():
    facts = jobs_of(well())
    silent = {
        name: beat if name.startswith("orders/") else replace(beat, received_at=NOW - 9_000)
        for name, beat in facts.beats.items()
    }
    facts = replace(facts, beats=silent)
    assert kinds(facts, "orders") == []
    assert problems(facts, "attack")[0]["what"] == "The job has not answered"
    assert "orders" not in elsewhere(facts)


def test_a_job_that_nobody_has_started_is_missed():
    beats = {name: beat for name, beat in well().beats.items() if not name.startswith("orders/")}
    facts = well(beats=beats, jobs={"orders": "shop"})
    assert problems(facts, "orders")[0]["what"] == "No heartbeat has come from the job shop yet"


def test_a_job_that_was_stopped_is_named():
    facts = replace(jobs_of(well()), pauses={"shop-kernel": Pause("ada", NOW - 9_000, "a drill")})
    assert kinds(facts, "attack") == []
    assert problems(facts, "orders")[0]["what"] == "The job shop was stopped by ada"
