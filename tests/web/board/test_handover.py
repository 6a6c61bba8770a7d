"""The handover: what it tells of, since when, as text; shifts and what is written for the next."""

from __future__ import annotations

import re
from dataclasses import replace
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.board.handover import summary, views
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.freshness import lasting_problem
from dashboard.core.job.models import JobRequest
from dashboard.core.rules.ingestion import text_of
from dashboard.core.rules.models import RuleChange
from dashboard.core.states.models import CHANGE, Transition
from dashboard.operate.requests.models import Replay
from dashboard.watch.agents.models import AgentFinding, MuteRequest
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.models import SHIFT_MS, TWICE_MS, Handover, Note, Presence, Shift
from dashboard.watch.bulk.models import Run
from dashboard.watch.commands.models import ScheduledTask
from dashboard.watch.incidents.models import Window
from domain.records import Report
from support.web.web_fixtures import error_of
from support.web.world import World

pytestmark = pytest.mark.django_db

HOUR_MS = 3_600_000


@pytest.fixture
def night(world: World, client: Client) -> World:
    """One site flaps, one is pinned without an end, one is acknowledged and noted."""
    for state in ("suspicious", "under-attack", "suspicious"):
        world.report("flapping", state)
        world.later(40_000)
        world.write()
    world.report("pinned", "under-attack")
    world.command("set", "pinned", state="suspicious")
    world.report("held", "under-attack")
    world.report("calm", "clear")
    world.write()
    client.post("/s/attack/acknowledge/", {"asset": "held", "end": "15m", "reason": "on the phone"})
    client.post("/s/attack/note/held/", {"text": "call *them* first"})
    return world


def page_of(client: Client, query: str = "?hours=1") -> str:
    response = client.get(f"/handover/{query}")
    assert response.status_code == 200
    return response.content.decode()


def section(page: str, key: str) -> str:
    """A part of the page, by the key that it is renewed by."""
    match = re.search(rf'<section data-key="{key}".*?</section>', page, re.DOTALL)
    assert match, f"no {key}"
    return match[0]


def test_open_incidents_are_listed_the_most_severe_first(night: World, client: Client):
    part = section(page_of(client), "open-attack")
    assert "Attacks: 3 open" in part
    assert "1 acknowledged" in part
    assert re.findall(r'<tr data-key="([^"]+)"', part)[0] == "held"
    assert "calm" not in re.findall(r'<tr data-key="([^"]+)"', part)
    held = re.search(r'<tr data-key="held".*?</tr>', part, re.DOTALL)
    assert held
    assert "<bdi>operator</bdi>, ends in" in held[0]
    assert "on the phone" in held[0]
    assert "call *them* first" in held[0]


def test_changes_say_from_where_to_where_and_the_worst_between(night: World):
    changes = {each.asset: each for each in summary.moves(scenarios()["attack"], 0).listed}
    flapping = changes["flapping"]
    assert (flapping.before, flapping.after, flapping.worst) == ("", "suspicious", "under-attack")
    assert flapping.n == 3
    assert flapping.worse_between
    assert not changes["held"].worse_between
    assert changes["held"].before == ""


def test_changes_are_those_since_the_time_and_the_newest_are_looked_at(
    night: World, monkeypatch: pytest.MonkeyPatch
):
    scenario = scenarios()["attack"]
    assert summary.moves(scenario, now_ms() + HOUR_MS).listed == []
    monkeypatch.setattr(summary, "LOOKED_AT", 1)
    changes = summary.moves(scenario, 0)
    assert (len(changes.listed), changes.cut) == (1, True)
    monkeypatch.setattr(summary, "LOOKED_AT", 1_000)
    monkeypatch.setattr(summary, "MOST", 2)
    changes = summary.moves(scenario, 0)
    assert (len(changes.listed), changes.total, changes.cut) == (2, 3, False)


def test_the_rest_is_told_too(night: World, client: Client):
    page = page_of(client)
    assert "pinned" in section(page, "overrides")
    assert "no end" in section(page, "overrides")
    assert "held" in section(page, "acks")
    assert "call *them* first" in section(page, "notes")
    assert 'data-key="open-connectivity"' not in page
    assert 'data-key="moves-attack"' not in page_of(client, "?scenario=connectivity")


def test_a_calm_that_is_disputed_is_open(client: Client, world: World):
    world.report("calm", "clear")
    world.report("pinned", "under-attack")
    world.command("set", "pinned", state="clear")
    world.write()
    part = section(page_of(client), "open-attack")
    assert "Attacks: 1 open" in part
    assert re.findall(r'<tr data-key="([^"]+)"', part) == ["pinned"]
    assert re.search(r"Clear\b.*disputed:.*Under attack\b", part, re.DOTALL)
    markdown = client.get("/handover/text/?hours=1").content.decode()
    assert re.search(
        r"\*\*pinned\*\*: Clear for \d+ s, disputed: somebody says, or said, Under attack", markdown
    )


def test_agents_in_doubt_are_told_of_what_is_open_and_of_what_is_calm(client: Client, world: World):
    ahead = now_ms() + 6 * 60_000 + 500
    for asset, state in (("calm", "clear"), ("hot", "under-attack")):
        world.report(asset, state)
        world.job.put("attack", Report(asset, "waf-*9*", state, ahead))
    world.report("well", "clear")
    world.write()
    page = page_of(client)
    assert 'title="in doubt: waf-*9* (clock 6 min ahead)"' in section(page, "open-attack")
    part = section(page, "doubted")
    assert "waf-*9* (clock 6 min ahead)" in part
    assert re.findall(r"<bdi>(\w+)</bdi></a> \(Attacks\)", part) == ["calm"]
    markdown = client.get("/handover/text/?hours=1").content.decode()
    doubt = r"in doubt: waf-\\\*9\\\* \(clock 6 min ahead\)"
    assert re.search(rf"\*\*hot\*\*: Under attack for \d+ s, {doubt}", markdown)
    assert re.search(
        rf"## In a good state, but in doubt\n\n- \*\*calm\*\*: Clear, {doubt}\n", markdown
    )


# ---- what is no incident ----------------------------------------------------------------------


def test_an_order_that_was_received_is_no_incident(client: Client, world: World):
    world.report("order-1", "received", scenario="orders")
    world.write()
    page = page_of(client)
    assert 'data-key="open-orders"' not in page
    assert 'data-key="moves-orders"' not in page
    assert "Nothing is open" in section(page, "calm")
    assert "order-1" not in client.get("/handover/text/?hours=1").content.decode()


def test_of_a_life_cycle_what_has_an_alarming_colour_is_open(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
):
    orders = scenarios()["orders"]
    lost = replace(orders.states[2], colour="red")
    coloured = replace(orders, states=(*orders.states[:2], lost, *orders.states[3:]))
    monkeypatch.setattr(views, "scenarios", lambda: {"orders": coloured})
    world.report("order-1", "received", scenario="orders")
    world.report("order-2", lost.name, scenario="orders")
    world.write()
    page = page_of(client)
    part = section(page, "open-orders")
    assert "Orders: 1 open" in part
    assert re.findall(r'<tr data-key="([^"]+)"', part) == ["order-2"]
    assert re.findall(r'<tr data-key="([^"]+)"', section(page, "moves-orders")) == ["order-2"]


def test_a_green_state_above_the_least_severe_is_good(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
):
    attack = scenarios()["attack"]
    states = (attack.states[0], replace(attack.states[1], colour="green"), attack.states[2])
    green = {"attack": replace(attack, states=states)}
    monkeypatch.setattr(views, "scenarios", lambda: green)
    world.report("watched", "suspicious")
    world.report("bad", "under-attack")
    world.report("pinned", "under-attack")
    world.command("set", "pinned", state="suspicious")
    world.write()
    part = section(page_of(client), "open-attack")
    assert "Attacks: 2 open" in part
    assert re.findall(r'<tr data-key="([^"]+)"', part) == ["bad", "pinned"]


def test_changes_among_good_states_are_not_told(client: Client, world: World):
    world.report("new", "clear")
    world.report("bad", "under-attack")
    world.write()
    part = section(page_of(client), "moves-attack")
    assert re.findall(r'<tr data-key="([^"]+)"', part) == ["bad"]


# ---- what was done in the shift ---------------------------------------------------------------


def test_runs_mutes_rules_and_replays_of_the_shift_are_listed(
    client: Client, user: User, world: World
):
    actions_of(user, now_ms() - 60_000, "in the shift")
    actions_of(user, now_ms() - 2 * HOUR_MS, "before")
    page = page_of(client)
    runs = section(page, "runs")
    assert "set to <bdi>Suspicious</bdi> of 7" in runs
    assert "<bdi>grace</bdi> (prepared by <bdi>ada</bdi>)" in runs
    assert "3 applied, 1 refused" in runs
    assert "waf-1" in section(page, "mute-asks")
    assert "no end" in section(page, "mute-asks")
    assert "Fewest voters" in section(page, "rules")
    assert "from the beginning of the log" in section(page, "replays")
    markdown = client.get("/handover/text/?hours=1").content.decode()
    for text in (page, markdown):
        for what in ("run", "mute", "rule", "replay"):
            assert f"{what} in the shift" in text
            assert f"{what} before" not in text
    other = page_of(client, "?hours=1&scenario=connectivity")
    assert not re.search("(run|mute|rule) in the shift", other)


def test_maintenance_tasks_and_agents_to_look_at_are_listed(client: Client, world: World):
    now = now_ms()
    times = {"running": (-1, 1), "soon": (2, 3), "later": (9, 10), "over": (-3, -1)}
    for name, (begin, end) in times.items():
        Window.objects.create(
            name=name, covers="all", begin=now + begin * HOUR_MS, end=now + end * HOUR_MS,
            planned_end=now + end * HOUR_MS, created_at=now, username="ada", why="*swap*",
        )  # fmt: skip
    tasks = {"due": (1, ""), "far": (9, ""), "stuck": (None, "the state is gone")}
    for name, (hours, aside) in tasks.items():
        ScheduledTask.objects.create(
            scenario="attack", asset=name, task=uuid4(), do="set", state="clear", owner="ada",
            next_at=None if hours is None else now + hours * HOUR_MS, aside=aside,
        )  # fmt: skip
    for agent, ended in (("waf-1", None), ("waf-2", now)):
        AgentFinding.objects.create(
            scenario="attack", agent=agent, kind="silent", words="silent on all sites",
            since=now - HOUR_MS, found_at=now, ended_at=ended,
        )  # fmt: skip
    page = page_of(client)
    part = section(page, "windows")
    assert re.findall(r"<bdi>(\w+)</bdi></a> \(all", part) == ["running", "soon"]
    part = section(page, "tasks")
    assert re.findall(r"<bdi>(\w+)</bdi></a> \(Attacks\)", part) == ["stuck", "due"]
    assert "set aside: <bdi>the state is gone</bdi>" in part
    part = section(page, "findings")
    assert re.findall(r"<bdi>(waf-\d)</bdi></a> \(Attacks\)", part) == ["waf-1"]
    assert "silent on all sites, since" in part
    markdown = client.get("/handover/text/?hours=1").content.decode()
    assert r"**running**, all scenarios: " in markdown
    assert r"by ada (\*swap\*)" in markdown
    assert "**due**: Set Clear, " in markdown
    assert "**stuck**: Set Clear, set aside: the state is gone, of ada" in markdown
    assert "**waf-1** (Attacks): silent on all sites, since" in markdown


def test_every_part_is_led_to_from_the_top_and_long_lists_of_changes_are_folded(
    client: Client, user: User, world: World
):
    for n in range(11):
        world.report(f"site-{n}", "under-attack")
    world.report("net", "down", scenario="connectivity")
    world.write()
    actions_of(user, now_ms() - 60_000, "in the shift")
    page = page_of(client)
    parts = re.search(r'<nav class="parts".*?</nav>', page, re.DOTALL)
    assert parts
    anchors = re.findall(r'href="#([^"]+)"', parts[0])
    headings = re.findall(r'<h2 id="([^"]+)"', page)
    assert anchors == headings
    assert anchors[-1] == "write-title"
    assert '<details class="part"><summary>' in section(page, "moves-attack")
    assert '<details class="part" open><summary>' in section(page, "moves-connectivity")


def test_a_run_that_was_begun_before_and_is_not_over_is_listed(
    client: Client, user: User, world: World
):
    actions_of(user, now_ms() - 2 * HOUR_MS, "before")
    Run.objects.update(ended_at=None, status="stopped", problem="ada is deactivated")
    assert "Stopped, <bdi>ada is deactivated</bdi>" in section(page_of(client), "runs")


def actions_of(user: User, at: int, when: str) -> None:
    """A run, a mute, another rule and a replay, at this time."""
    Run.objects.create(
        id=uuid4(), scenario="attack", kind="set", state="suspicious", reason=f"run {when}",
        chosen="all", matched=7, user=user, username="ada", status="done", created_at=at,
        senders=[{"name": "grace", "since": at, "first": 0}], started_at=at, ended_at=at,
        tallies={"applied": 3, "refused": 1},
    )  # fmt: skip
    MuteRequest.objects.create(
        id=uuid4(), scenario="attack", agent="waf-1", kind="mute", reason=f"mute {when}",
        user=user, username="ada", created_at=at,
    )  # fmt: skip
    attack = scenarios()["attack"]
    RuleChange.objects.create(
        id=uuid4(), scenario="attack", user=user, username="ada", reason=f"rule {when}",
        asked_at=at, before=text_of(attack), after=text_of(replace(attack, min_voters=3)),
        status="done",
    )  # fmt: skip
    replay = Replay.objects.create(
        id=uuid4(), query="kernel", start="the beginning of the log", reason=f"replay {when}",
        username="ada", asked_at=at, whole=True, epoch=1, plan="[]",
    )  # fmt: skip
    JobRequest.objects.create(
        id=replay.pk, query="kernel", action="reset", reason="r", username="ada", asked_at=at,
        status="done",
    )  # fmt: skip


def test_a_state_that_nobody_knows_any_more_is_the_worst_there_was(world: World):
    world.report("a", "under-attack")
    world.write()
    change = Transition.objects.get(kind=CHANGE)
    change.state = "mitigated"
    change.save()
    attack = scenarios()["attack"]
    (moved,) = summary.moves(attack, 0).listed
    assert (moved.before, moved.after, moved.worst) == ("", "mitigated", "mitigated")
    for n, state in enumerate(("under-attack", "clear")):
        change.pk, change.place, change.previous = None, f"{change.place}{n}", change.state
        change.state = state
        change.save()
    (moved,) = summary.moves(attack, 0).listed
    assert (moved.before, moved.after, moved.worst) == ("", "clear", "unknown")


def test_where_nothing_is_open_it_says_so(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
):
    assert "nothing is known" in page_of(client)  # an empty board is no all-clear
    world.report("calm", "clear")
    world.write()
    page = page_of(client)
    assert "Nothing is open" in page
    assert 'data-key="problem-' not in page
    silent = lasting_problem("job", "The job is silent", None, "States are as of then.")
    monkeypatch.setattr(views, "problems", lambda _now: [silent])
    page = page_of(client)  # nor is one that nobody tallies
    assert "As far as is known nothing is open" in page
    assert "The job is silent" in page


def test_as_text_nothing_that_somebody_wrote_is_markup(night: World, client: Client):
    Handover.objects.create(username="olga", text="# quiet\n<b>night</b>", at=now_ms())
    response = client.get("/handover/text/?hours=1")
    assert response["Content-Type"] == "text/markdown; charset=utf-8"
    text = response.content.decode()
    assert "**held**: Under attack for" in text
    assert "acknowledged by operator until" in text
    assert r"call \*them\* first" in text
    assert "> \\# quiet" in text
    assert r"\<b\>night" in text
    assert "**pinned**: Suspicious without end" in text


@pytest.mark.parametrize("query", ["?since=soon", "?hours=9999", "?scenario=none", "?at=x"])
def test_what_it_cannot_read_it_names(client: Client, query: str):
    field = query[1:].partition("=")[0]
    response = client.get(f"/handover/{query}")
    assert response.status_code == 422
    assert error_of(response, field)
    assert client.get(f"/handover/text/{query}").status_code == 422


@pytest.mark.parametrize("typed", ["2099-01-01T10:00", "2020-01-01T10:00"])
def test_a_time_that_cannot_be_told_of_is_not_taken_for_another(client: Client, typed: str):
    response = client.get(f"/handover/?since={typed}&zone=UTC")
    assert response.status_code == 422
    assert error_of(response, "since")
    assert typed in response.content.decode()


# ---- shifts ---------------------------------------------------------------------------------


def test_a_shift_begins_and_ends(client: Client, user: User):
    assert "Start my shift" in page_of(client)
    client.post("/handover/shift/begin/")
    client.post("/handover/shift/begin/")
    shift = Shift.objects.get()
    assert (shift.user, shift.ended_at) == (user, None)
    assert "You have been on shift" in page_of(client)
    client.post("/handover/shift/end/", {"text": "all quiet"})
    shift.refresh_from_db()
    assert shift.ended_at is not None
    assert Handover.objects.get().text == "all quiet"
    page = page_of(client, "")
    assert "your last shift ended then" in page
    assert f'data-at="{shift.ended_at}"' in page
    assert "all quiet" in section(page, "text")


def test_a_shift_may_end_without_a_text_but_an_empty_text_is_none(client: Client):
    assert client.post("/handover/shift/end/", {"text": ""}).status_code == 302
    assert client.post("/handover/shift/text/", {"text": ""}).status_code == 422
    long = client.post("/handover/shift/text/", {"text": "x" * 8_001})
    assert long.status_code == 422
    assert "x" * 8_001 in long.content.decode()
    assert client.post("/handover/shift/other/").status_code == 404
    assert not Handover.objects.exists()


def test_a_text_that_is_sent_twice_is_kept_once(client: Client, user: User):
    for _ in range(2):
        client.post("/handover/shift/text/", {"text": "all quiet"})
    assert Handover.objects.count() == 1
    client.post("/handover/shift/text/", {"text": "not any more"})
    client.post("/handover/shift/text/", {"text": "all quiet"})
    assert Handover.objects.count() == 3
    assert Handover.objects.leave(user, "all quiet", now_ms() + 2 * TWICE_MS)


def test_of_what_was_written_at_one_time_the_last_is_first(client: Client, user: User):
    now, newest = now_ms(), ["third", "second", "first"]
    for text in reversed(newest):
        Handover.objects.create(user=user, username="olga", text=text, at=now)
        Note.objects.create(scenario="attack", asset="bank", username="olga", text=text, at=now)
    assert not Handover.objects.leave(user, "third", now), "it is the last one"
    shown = summary.situation({"attack": scenarios()["attack"]}, "olga", now - HOUR_MS, now)
    assert [row.text for row in shown.texts] == newest
    assert [each.said.text for each in shown.notes if isinstance(each.said, Note)] == newest
    texts = section(page_of(client), "text")
    assert re.findall("first|second|third", texts) == newest


def test_who_was_away_for_hours_is_told_since_then(user: User):
    now = now_ms()
    Presence.objects.create(user=user, last_at=now - 5 * HOUR_MS)
    acknowledgements.record_presence(user, now)
    assert acknowledgements.last_shift(user, now).at == now - 5 * HOUR_MS
    Shift.objects.create(user=user, username="x", began_at=1, ended_at=now - 9 * HOUR_MS)
    assert acknowledgements.last_shift(user, now).at == now - 9 * HOUR_MS
    Shift.objects.update(ended_at=now - 200 * HOUR_MS)
    assert acknowledgements.last_shift(user, now).at == now - 5 * HOUR_MS


def test_who_was_here_all_along_was_not_away(user: User):
    now = now_ms()
    Presence.objects.create(user=user, last_at=now - 3 * HOUR_MS)
    acknowledgements.record_presence(user, now)
    assert Presence.objects.get().away_from is None
    assert acknowledgements.last_shift(user, now).at == now - SHIFT_MS


def test_the_end_of_a_shift_is_eight_hours_after_its_begin(user: User):
    now = now_ms()
    assert acknowledgements.shift_ends(user, now) == now + SHIFT_MS
    Shift.objects.create(user=user, username="x", began_at=now - 6 * HOUR_MS)
    assert acknowledgements.shift_ends(user, now) == now + 2 * HOUR_MS
    Shift.objects.update(began_at=now - 9 * HOUR_MS)
    assert acknowledgements.shift_ends(user, now) == now + SHIFT_MS
