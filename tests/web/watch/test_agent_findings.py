"""What is wrong with agents, from their reports to the page, the banner and a notification."""

from __future__ import annotations

import re
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.board.live.live_view import live_view
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.models import BucketStatus, JobProgress
from dashboard.core.job.status import problems
from dashboard.notify.notifications import rule_forms
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.models import AgentEvent, Channel, Group, Message
from dashboard.notify.notifications.rule_views import preview
from dashboard.watch.agents import findings
from dashboard.watch.agents.faults import count_doubts
from dashboard.watch.agents.findings import LASTED_MS, news, watch
from dashboard.watch.agents.models import Agent, AgentFinding, VoteFault
from dashboard.watch.agents.statistics import walk
from domain.notifications.events import AGENT_KINDS
from domain.notifications.rule_parser import rule_from_plain
from domain.records import Leave, Mute, Report
from support.web.pages import text_of
from support.web.world import World
from wire.source import encode_mute

pytestmark = pytest.mark.django_db

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
SITES = ("shop", "login", "pay")
ATTACK = scenarios()["attack"]
LIFETIME = ATTACK.vote_lifetime or 0
AHEAD = 6 * MINUTE + MINUTE // 2  # 6 min also to who looks some seconds later
CAUGHT_UP = AHEAD + MINUTE
"""After which the reports of an agent whose clock was so far ahead count again."""


def report(world: World, agent: str, state: str = "clear", *, off: int = 0, sites=SITES) -> None:
    """An agent's reports on some sites, by a clock that is so far off (ms; above 0: ahead)."""
    for site in sites:
        world.job.put("attack", Report(site, agent, state, world.bus._clock() + off))


def settle(world: World) -> int:
    """Materialise what came, count it, and let it last. Returns the time then."""
    world.write()
    walk(now_ms())
    count_doubts()
    return world.bus._clock() + LASTED_MS


def mute(world: World, agent: str) -> None:
    value = encode_mute(Mute(agent, None, "olga", "wild", "0f8fad5b-d9cb-469f-a165-70867728950e"))
    for partition in range(ATTACK.partitions):
        world.job.command("attack", None, value, partition)


def finding_kinds(now: int) -> list[tuple[str, str]]:
    """Agent and kind of all findings, in their order."""
    return [(each.agent, each.kind) for each in news(now).findings]


def page_of(client: Client) -> str:
    return text_of(client.get("/agents/?scenario=attack").content.decode())


# ---- counted, shown, told -----------------------------------------------------------------------


def test_an_agent_whose_clock_is_ahead(world: World, client: Client) -> None:
    report(world, "waf-1")
    report(world, "waf-2", off=AHEAD)
    now = settle(world)
    assert VoteFault.objects.get().assets == len(SITES)
    assert finding_kinds(now) == [("waf-2", "ahead")]
    (finding,) = news(now).findings
    assert finding.what == "the clock of waf-2 is 6 min ahead"
    assert finding.todo == "Its votes on 3 sites are in doubt: set its clock."
    page = client.get("/agents/?scenario=attack").content.decode()
    assert "Its clock is 6 min ahead: its votes on 3 sites are in doubt" in text_of(page)
    assert 'href="/?scenario=attack&amp;q=agent%3Awaf-2%20has%3Adoubt"' in page.replace("+", "%20")
    assert "2 agents, 1 to look at" in text_of(page)
    assert "Its clock is 6 min ahead" in text_of(
        client.get("/agents/attack/waf-2/").content.decode()
    )
    assert finding_kinds(now - LASTED_MS - 1_000) == [], "it has not lasted yet"


def test_the_next_good_reports_end_it(world: World) -> None:
    report(world, "waf-2", off=AHEAD)
    settle(world)
    first = VoteFault.objects.get()
    report(world, "waf-2", off=AHEAD)
    settle(world)
    again = VoteFault.objects.get()
    assert (again.pk, again.since) == (first.pk, first.since)
    assert again.last >= first.last
    world.later(CAUGHT_UP)
    report(world, "waf-2")
    now = settle(world)
    assert not VoteFault.objects.exists()
    assert finding_kinds(now) == []


def test_reports_that_say_what_the_board_does_not_know(world: World, client: Client) -> None:
    report(world, "waf-1")
    report(world, "waf-2")
    report(world, "waf-2", "critical")
    now = settle(world)
    assert finding_kinds(now) == [("waf-2", "refused")]
    (finding,) = news(now).findings
    assert finding.what == "reports of waf-2 on 3 sites are refused"
    assert finding.todo.startswith("It says critical, which this board does not know. Add the")
    page = page_of(client)
    assert "Its reports on 3 sites are refused: it says critical, which this board does" in page
    assert "Refused 3" in text_of(client.get("/agents/attack/waf-2/").content.decode())


def test_two_processes_under_one_name(world: World, client: Client) -> None:
    report(world, "waf-1")
    report(world, "waf-3")
    report(world, "waf-3", "under-attack", off=-20_000)
    now = settle(world)
    assert finding_kinds(now) == [("waf-3", "contradiction")]
    assert "waf-3 contradicts itself on 3 sites" in news(now).findings[0].what
    assert "Contradicts itself on 3 sites: do two processes report" in page_of(client)


def test_on_a_single_asset_the_row_says_it_alone(world: World, client: Client) -> None:
    report(world, "waf-2", off=AHEAD, sites=SITES[:1])
    report(world, "waf-3", sites=SITES[:1])
    report(world, "waf-3", "critical", sites=SITES[:1])
    assert finding_kinds(settle(world)) == []
    page = page_of(client)
    assert "Its clock is 6 min ahead: its votes on 1 site are in doubt" in page
    assert "Its reports on 1 site are refused" in page


def test_of_refused_reports_about_unknown_assets_heartbeats_tell(world: World) -> None:
    minute = now_ms() // MINUTE * MINUTE
    world.bus._clock = lambda: minute
    report(world, "waf-2", "critical")
    assert finding_kinds(settle(world)) == []
    world.later(MINUTE)
    report(world, "waf-2", "critical")
    assert finding_kinds(settle(world)) == [("waf-2", "refused")]
    assert finding_kinds(world.bus._clock() + LIFETIME + 2 * MINUTE) == []


def test_of_a_muted_agent_nothing_is_told(world: World, client: Client) -> None:
    report(world, "waf-1")
    report(world, "waf-2", off=AHEAD)
    report(world, "waf-3")
    report(world, "waf-3", "critical")
    for agent in ("waf-2", "waf-3"):
        mute(world, agent)
    assert finding_kinds(settle(world)) == []
    assert "muted" in page_of(client)


def silence(world: World, *others: str) -> int:
    """Two agents report steadily, then the others alone, for longer than a vote lives."""
    for agents in [(*others, "waf-2")] * 3 + [others] * 4:
        for agent in agents:
            report(world, agent)
        world.write()
        world.later(LIFETIME)
    walk(now_ms())
    return world.bus._clock()


def test_an_agent_that_fell_silent_everywhere_is_missed(world: World, client: Client) -> None:
    now = silence(world, "waf-1")
    (finding,) = news(now).findings
    assert (finding.agent, finding.kind) == ("waf-2", "silent")
    assert finding.what == "waf-2 has reported nothing"
    assert finding.since == Agent.objects.get(agent="waf-2").last_seen


def test_an_agent_that_left_is_not(world: World, client: Client) -> None:
    report(world, "waf-2")
    world.write()
    for site in SITES:
        world.job.leave("attack", Leave(site, "waf-2"))
    world.write()
    row = Agent.objects.get(agent="waf-2")
    assert row.left_at >= row.last_seen
    Agent.objects.update(gap=30_000)
    world.later(3 * LIFETIME)
    report(world, "waf-1")
    settle(world)
    assert finding_kinds(world.bus._clock() + 10 * LIFETIME) == []
    assert "left" in page_of(client)


def test_where_all_agents_are_silent_the_scenario_is_missed_for_ever(world: World) -> None:
    now = silence(world)
    for later in (0, 40 * DAY):
        BucketStatus.objects.update(at=now + later, log_time=now + later)
        lines = [each["what"] for each in problems(now + later, "attack")]
        assert "Attacks: no agent has reported" in lines
        assert "Attacks: waf-2 has reported nothing" not in lines, "one line says it of all"


def test_the_only_agent_of_a_scenario_is_missed_as_any_other(world: World) -> None:
    now = silence(world)
    assert finding_kinds(now) == [("waf-2", "silent")]


def test_while_the_log_is_not_known_nobody_is_missed(world: World) -> None:
    """The job stands still, or one of its buckets was never heard of: the agent may report."""
    now = silence(world)
    seen = Agent.objects.get().last_seen
    BucketStatus.objects.filter(scenario="attack", partition=0).update(log_time=seen + MINUTE)
    assert finding_kinds(now) == []
    BucketStatus.objects.filter(scenario="attack", partition=0).delete()
    assert finding_kinds(now) == []


def test_where_the_pipeline_that_reports_is_off_nobody_is_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = silence(world)
    monkeypatch.setattr(findings, "_off", lambda _scenario: "client-windows")
    assert finding_kinds(now) == []


def test_agents_are_excused_where_a_brokers_clock_is_behind(world: World) -> None:
    report(world, "waf-2", off=AHEAD)
    now = settle(world)
    assert finding_kinds(now)
    BucketStatus.objects.update(engine="kernel")
    JobProgress.objects.create(
        query="kernel", at=now, status="running", epoch=1, restarts=0, message="",
        clocks_behind='{"attack/0":{"by":600000,"since":1}}',
    )  # fmt: skip
    assert finding_kinds(now) == []


def test_several_agents_alike_are_one_line_of_the_banner(world: World, client: Client) -> None:
    report(world, "waf-1")
    for agent in ("waf-2", "waf-3"):
        report(world, agent, off=AHEAD)
    settle(world)
    VoteFault.objects.update(since=now_ms() - MINUTE)
    current = [each for each in problems(now_ms(), "attack") if each["kind"] == "agents"]
    (line,) = (each["what"] for each in current)
    agents = {"waf-2 and waf-3", "waf-3 and waf-2"}  # the one that is further ahead comes first
    assert line in {f"Attacks: the clocks of {names} are up to 6 min ahead" for names in agents}


def test_a_board_tells_of_its_agents(world: World, client: Client) -> None:
    report(world, "waf-1")
    report(world, "waf-2", off=AHEAD)
    settle(world)
    VoteFault.objects.update(since=now_ms() - MINUTE)
    world.tail()
    live_view().signs.reached(now_ms())
    board = text_of(client.get("/s/attack/").content.decode())
    assert "Attacks: the clock of waf-2 is 6 min ahead since" in board
    assert "Its votes on 3 sites are in doubt: set its clock." in board


# ---- kept from begin to end ---------------------------------------------------------------------


def test_a_finding_is_kept_from_its_begin_to_its_end(world: World) -> None:
    report(world, "waf-2", off=AHEAD)
    now = settle(world)
    watch(now)
    row = AgentFinding.objects.get()
    assert (row.agent, row.kind, row.found_at, row.ended_at) == ("waf-2", "ahead", now, None)
    assert row.words == "Its clock is 6 min ahead: its votes on 3 sites are in doubt"
    report(world, "waf-2", off=AHEAD, sites=("mail",))
    settle(world)
    watch(now + 5_000)
    row.refresh_from_db()
    assert row.words.endswith("its votes on 4 sites are in doubt")
    world.later(CAUGHT_UP)
    report(world, "waf-2", sites=(*SITES, "mail"))
    settle(world)
    watch(now + 10_000)
    row.refresh_from_db()
    assert row.ended_at == now + 10_000
    events = AgentEvent.objects.order_by("pk").values_list("kind", "finding", "at", "handled_at")
    assert list(events) == [
        ("begun", "agent-doubted", row.since, None),
        ("ended", "agent-doubted", now + 10_000, None),
    ]


def test_a_banner_says_since_when_a_finding_has_gone_on(world: World) -> None:
    report(world, "waf-2", off=AHEAD)
    now = settle(world)
    watch(now)
    AgentFinding.objects.update(since=now - 60 * MINUTE)
    assert news(now).findings[0].since == now - 60 * MINUTE


# ---- notifications ------------------------------------------------------------------------------


@pytest.fixture
def rule(user: User, channel: Channel):
    plain = {
        "agents": [*AGENT_KINDS], "incidents": False, "window_ms": 0,
        "stages": [{"channels": [channel.pk]}],
    }  # fmt: skip
    return rule_forms.create_rule(user, "Agents", rule_from_plain(plain), True, now_ms())


def test_a_rule_tells_of_an_agent_and_of_its_end(world: World, client: Client, rule) -> None:
    report(world, "waf-1")
    report(world, "waf-2", off=AHEAD)
    now = settle(world)
    watch(now)
    decide(lambda: now)
    message = Message.objects.get()
    assert message.kind == "opened"
    said = "its clock is 6 min ahead: its votes on 3 sites are in doubt"
    assert message.subject == f"waf-2: {said}"
    assert "/agents/attack/waf-2/" in message.text
    assert "Acknowledge" not in message.text
    assert "Details" in message.html
    (plain,) = message.payload["agents"]
    assert (plain["agent"], plain["finding"]) == ("waf-2", "agent-doubted")
    assert message.payload["incidents"] == []
    assert not AgentEvent.objects.filter(handled_at=None).exists()
    group = Group.objects.get()
    page = text_of(client.get(f"/notifications/ack/{group.token}/").content.decode())
    assert "What is wrong with agents" in page
    assert "waf-2" in page
    assert "ongoing" in page
    assert "Acknowledge" not in page.partition("What is wrong with agents")[2]
    world.later(CAUGHT_UP)
    report(world, "waf-2")
    settle(world)
    watch(now + MINUTE)
    decide(lambda: now + MINUTE)
    end = Message.objects.exclude(pk=message.pk).get()
    assert end.kind == "resolved"
    assert re.fullmatch(rf"Over: waf-2, \d+ (s|min) \(was: {said}\)", end.subject)
    assert end.thread == message.thread
    decide(lambda: now + 2 * MINUTE)
    assert Message.objects.count() == 2


def test_a_rule_says_that_an_agent_died_and_not_that_it_is_back(world: World, rule) -> None:
    """A silence that nobody ends is no good news after a month."""
    now = silence(world)
    watch(now)
    decide(lambda: now)
    message = Message.objects.get()
    assert message.subject == "waf-2: silent on all 3 sites"
    for days in (2, 29):
        watch(now + days * DAY)
        decide(partial(int, now + days * DAY))
        assert Message.objects.count() == 1, "it goes on"
    watch(now + 31 * DAY)
    decide(lambda: now + 31 * DAY)
    end = Message.objects.exclude(pk=message.pk).get()
    was = "silent on all 3 sites, not seen for 30 days and no longer expected"
    assert re.fullmatch(rf"Over: waf-2, \d+ days \(was: {was}\)", end.subject)


def test_an_agent_that_is_back_ends_its_silence(world: World, rule) -> None:
    now = silence(world)
    watch(now)
    decide(lambda: now)
    report(world, "waf-2")
    now = settle(world)
    watch(now)
    decide(lambda: now)
    subjects = Message.objects.order_by("created_at").values_list("subject", flat=True)
    first, end = subjects
    assert first == "waf-2: silent on all 3 sites"
    assert re.fullmatch(r"Over: waf-2, \d+ (s|min) \(was: silent on all 3 sites\)", end)


def test_a_mute_ends_what_is_told(world: World, rule) -> None:
    report(world, "waf-2", off=AHEAD)
    now = settle(world)
    watch(now)
    decide(lambda: now)
    mute(world, "waf-2")
    settle(world)
    watch(now + 5_000)
    decide(lambda: now + 5_000)
    assert [row.kind for row in Message.objects.order_by("created_at")] == ["opened", "resolved"]
    report(world, "waf-2", off=AHEAD)
    settle(world)
    watch(now + 10_000)
    decide(lambda: now + 10_000)
    assert Message.objects.count() == 2


def test_a_rule_about_incidents_says_nothing_of_agents(world: World, user: User, channel) -> None:
    plain = {"window_ms": 0, "stages": [{"channels": [channel.pk]}]}
    rule_forms.create_rule(user, "Attacks", rule_from_plain(plain), True, now_ms())
    report(world, "waf-2", off=AHEAD)
    now = settle(world)
    watch(now)
    decide(lambda: now)
    assert not Message.objects.exists()
    assert not AgentEvent.objects.filter(handled_at=None).exists()


def test_a_preview_tells_of_agents(world: World, rule) -> None:
    report(world, "waf-2", off=AHEAD)
    now = settle(world)
    watch(now)
    value = rule_from_plain(rule.definition)
    shown = preview(value, now - MINUTE, now + 60 * MINUTE)
    assert (shown.incidents, shown.findings) == (0, 1)
    assert [each.kind for each in shown.messages] == ["opened"]
    assert shown.messages[0].subject.startswith("waf-2: its clock is 6 min ahead")
    none = rule_from_plain(rule.definition | {"agents": ["agent-late"]})
    assert preview(none, now - MINUTE, now + 60 * MINUTE).messages == []
