"""The agents: what is counted of them, their pages, muting them, and what becomes of that."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import msgspec
import pytest
from django.test import Client

from bus.base import ConsumerRecord, Unavailable
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.navigation import agent_path
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.models import AssetState, Transition
from dashboard.watch.agents import views
from dashboard.watch.agents.models import Agent, AgentHour, Dissent, MuteRequest, Walk
from dashboard.watch.agents.mutes import mutes
from dashboard.watch.agents.statistics import walk
from domain.names import name_ok
from domain.records import Mute
from support.histories.hostile import calm, text
from support.web.web_fixtures import bearer, make_user
from support.web.world import World
from wire.source import encode_mute

pytestmark = pytest.mark.django_db

ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def mute_everywhere(world: World, agent: str, until: int | None = None, user: str = "olga") -> None:
    """A mute that another console sends."""
    value = encode_mute(Mute(agent, until, user, "wild", ID))
    for partition in range(scenarios()["attack"].partitions):
        world.job.command("attack", None, value, partition)


def page_of(client: Client, agent: str = "waf-1") -> str:
    """The agent's page."""
    answer = client.get(agent_path("attack", agent))
    assert answer.status_code == 200
    return answer.content.decode()


def form_of(end: str = "15m", **more: Any) -> dict[str, Any]:
    """A form that mutes, filled in."""
    return {"id": str(uuid.uuid4()), "reason": "wild", "end": end, **more}


# ---- what is counted -----------------------------------------------------------------------


@pytest.mark.usefixtures("stopped_clock")
def test_each_agent_is_seen_and_its_records_and_changes_are_counted(world: World) -> None:
    world.report("shop", "clear", "waf-1")
    world.report("shop", "under-attack", "waf-1")
    world.report("shop", "under-attack", "waf-2")
    world.write()
    hours = {
        agent: (records, changes)
        for agent, records, changes in AgentHour.objects.filter(scenario="attack").values_list(
            "agent", "records", "changes"
        )
    }
    board = AssetState.objects.get(asset="shop")
    assert set(hours) == {"", "waf-1", "waf-2"}
    assert hours[""][0] == hours["waf-1"][0] + hours["waf-2"][0]
    assert hours[""][1] == hours["waf-1"][1] + hours["waf-2"][1] >= 1
    assert Agent.objects.get(agent="waf-2").last_seen == board.reported_at


def test_a_replayed_record_is_counted_once(world: World) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    before = list(AgentHour.objects.values_list("agent", "records", "changes"))
    from dashboard.core.states.models import SinkOffset

    SinkOffset.objects.update(next_offset=0)
    world.write()
    assert list(AgentHour.objects.values_list("agent", "records", "changes")) == before


def test_the_usual_gap_is_learnt_and_three_of_them_are_silence(world: World) -> None:
    for _ in range(4):
        world.report("shop", "clear", "waf-1")
        world.write()
        world.later(60_000)
    agent = Agent.objects.get(agent="waf-1")
    assert 55_000 < agent.gap < 65_000
    late = agent.last_seen + 3 * agent.gap + 1
    assert not agent.is_unseen(late - agent.gap)
    assert agent.is_unseen(late)
    agent.left_at = agent.last_seen
    assert not agent.is_unseen(late), "an agent that has left is not missed"
    agent.left_at = agent.gap = 0
    assert not agent.is_unseen(agent.last_seen + 10**9)


def test_live_votes_and_those_that_differ_are_counted_in_portions(world: World) -> None:
    for asset in ("a", "b", "c"):
        world.report(asset, "clear", "waf-1", "waf-2", "waf-3")
    world.report("b", "under-attack", "waf-3")
    world.write()
    ended = [walk(now_ms(), portion=1) for _ in range(4)]
    assert ended == [False, False, False, True]
    counted = {
        each.agent: (each.votes, each.against) for each in Agent.objects.filter(scenario="attack")
    }
    made = AssetState.objects.get(asset="b").state
    against = 0 if made == "under-attack" else 1
    assert counted["waf-3"] == (3, against)
    assert counted["waf-1"] == (3, 1 - against)
    wrong = Dissent.objects.get(agent="waf-3" if against else "waf-1")
    assert (wrong.asset, wrong.made) == ("b", made)
    assert Walk.objects.get().after == 0


def test_votes_that_are_gone_are_counted_no_more(world: World) -> None:
    world.report("a", "clear", "waf-1")
    world.write()
    walk(now_ms())
    assert Agent.objects.get(agent="waf-1").votes == 1
    world.command("purge", "a")
    world.write()
    walk(now_ms() + 1)
    assert Agent.objects.get(agent="waf-1").votes == 0


# ---- the pages -----------------------------------------------------------------------------


def test_the_list_names_who_reports_and_the_muted_are_marked(world: World, client: Client) -> None:
    world.report("shop", "clear", "waf-1", "waf-2")
    mute_everywhere(world, "waf-2")
    world.write()
    walk(now_ms())
    page = client.get("/agents/?scenario=attack").content.decode()
    rows = re.findall(r'<tr data-key="([^"]+)".*?</tr>', page, re.DOTALL)
    assert rows == ["waf-2", "waf-1"]
    assert "2 agents, 1 muted" in page
    assert "by <bdi>olga</bdi>, no end: <bdi>wild</bdi>" in page
    assert "Nobody has reported yet" in client.get("/agents/?scenario=orders").content.decode()
    part = client.get("/agents/", headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<div id="agents" data-refresh="/agents/"')


def test_a_muted_agent_that_never_reported_is_listed_too(world: World, client: Client) -> None:
    mute_everywhere(world, "stranger")
    world.write()
    assert 'data-key="stranger"' in client.get("/agents/").content.decode()
    assert "never" in page_of(client, "stranger")


def test_a_page_names_the_votes_that_differ_and_the_changes_caused(
    world: World, client: Client
) -> None:
    world.report("shop", "clear", "waf-1", "waf-2", "waf-3")
    world.report("shop", "under-attack", "waf-1")
    world.write()
    walk(now_ms())
    differs = Dissent.objects.values_list("agent", flat=True)
    page = page_of(client, differs[0])
    assert re.search(
        r'aria-labelledby="differing-title"><table.*?/s/attack/a/shop/', page, re.DOTALL
    )
    changed = Transition.objects.get(previous="")
    by = msgspec.json.decode(changed.cause)["agent"]
    assert re.search(
        r'aria-labelledby="caused-title"><table.*?/s/attack/a/shop/', page_of(client, by), re.DOTALL
    )


@pytest.mark.parametrize("agent", ["nobody", "user:olga", "x" * 256, "a\x1fb"])
def test_an_agent_that_is_not_known_has_no_page_and_cannot_be_muted(
    world: World, client: Client, agent: str
) -> None:
    assert client.get(agent_path("attack", agent)).status_code == 404
    path = agent_path("attack", agent).replace("/agents/", "/mute/")
    assert client.post(path, form_of()).status_code == 404
    assert not MuteRequest.objects.exists()


# ---- muting --------------------------------------------------------------------------------


def test_a_mute_goes_to_every_partition_and_is_told_until_the_job_has_it(
    world: World, client: Client
) -> None:
    world.report("shop", "under-attack", "waf-1")
    world.report("shop", "clear", "waf-2", "waf-3")
    world.write()
    answer = client.post("/mute/attack/waf-1/", form_of("1h"))
    assert (answer.status_code, answer.headers["Location"]) == (
        302,
        "/agents/attack/waf-1/#mute-request",
    )
    partitions = scenarios()["attack"].partitions
    assert f"sent to {partitions} of {partitions} partitions, in force in 0" in page_of(client)
    world.write()
    page = page_of(client)
    assert f"in force in all {partitions} partitions" in page
    assert re.search(r"muted</span>\s*</span>\s+by <bdi>operator</bdi>, ends in", page)
    held = mutes(scenarios()["attack"], now_ms())["waf-1"]
    assert held.partitions == set(range(partitions))
    assert held.mute.reason == "wild"
    record = msgspec.json.decode(AssetState.objects.get(asset="shop").record)
    muted = {vote["agent"]: vote.get("muted") for vote in record["votes"]}
    assert muted["waf-1"] == {"until": held.mute.until, "user": "operator"}
    assert muted["waf-2"] is None
    board = client.get("/s/attack/").content.decode()
    words = 'aria-label="3 votes: 1 Under attack, 2 Clear; 1 of them muted"'
    assert f'{words}><span class="vote silenced c-red" title="waf-1: ' in board
    assert board.count("Under attack, muted: does not count") == 1
    assert board.count('class="vote silenced') == 2, "and in the legend"
    asset = client.get("/s/attack/a/shop/").content.decode()
    assert "<strong>muted</strong> by <bdi>operator</bdi>" in asset
    assert "does not count" in asset


def test_what_is_taken_back_counts_again(world: World, client: Client) -> None:
    world.report("shop", "under-attack", "waf-1")
    world.write()
    client.post("/mute/attack/waf-1/", form_of("none"))
    world.write()
    assert ", no end" in page_of(client)
    client.post("/unmute/attack/waf-1/", {"id": str(uuid.uuid4()), "reason": ""})
    world.write()
    assert mutes(scenarios()["attack"], now_ms()) == {}
    assert "Unmuted by <bdi>operator</bdi>" in page_of(client)
    record = msgspec.json.decode(AssetState.objects.get(asset="shop").record)
    assert [vote["weight"] for vote in record["votes"]] == [1]


def test_a_mute_that_has_ended_is_none(world: World, client: Client) -> None:
    world.report("shop", "under-attack", "waf-1")
    mute_everywhere(world, "waf-1", until=now_ms() + 60_000)
    world.write()
    assert "waf-1" in mutes(scenarios()["attack"], now_ms())
    assert mutes(scenarios()["attack"], now_ms() + 60_001) == {}


def test_the_same_form_sent_twice_is_one_ask(world: World, client: Client) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    form = form_of()
    for _ in range(2):
        assert client.post("/mute/attack/waf-1/", form).status_code == 302
    assert MuteRequest.objects.count() == 1
    assert len(sent_mutes(world)) == scenarios()["attack"].partitions
    world.report("shop", "clear", "waf-2")
    world.write()
    other = client.post("/mute/attack/waf-2/", form)
    assert other.status_code == 422
    assert "belongs to another request" in other.content.decode()


def sent_mutes(world: World) -> list[ConsumerRecord]:
    """The mutes in the log."""
    topic = world.job.topics.reports("attack")
    reader = world.bus.reader(dict.fromkeys(world.bus.offsets([topic]), 0))
    return [m for m in reader.poll(0, 10_000) if b'"mute"' in (m.value or b"")]


def test_partitions_that_do_not_confirm_are_told_and_sent_again(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    producer = world.gateway.producer()
    plain = producer.send_and_wait

    def two_of_them(*place: Any, partition: int | None = None, **more: Any) -> Any:
        if partition == 2:
            raise Unavailable("no leader")
        return plain(*place, partition=partition, **more)

    monkeypatch.setattr(producer, "send_and_wait", two_of_them)
    client.post("/mute/attack/waf-1/", form_of())
    page = page_of(client)
    partitions = scenarios()["attack"].partitions
    assert f"Kafka has confirmed 2 of {partitions} partitions: no leader" in page
    assert "Send it to the others again" in page
    monkeypatch.undo()
    assert client.post("/mute-again/attack/waf-1/").status_code == 302
    assert "Send it to the others again" not in page_of(client)
    assert sorted(m.partition for m in sent_mutes(world)) == list(range(partitions))


def test_a_colleague_sends_it_again_in_the_own_name(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    producer = world.gateway.producer()
    with monkeypatch.context() as patch:
        patch.setattr(producer, "send_and_wait", Mock(side_effect=Unavailable("no leader")))
        client.post("/mute/attack/waf-1/", form_of())
    assert sent_mutes(world) == []
    other = Client()
    other.force_login(make_user("admin"))
    assert other.post("/mute-again/attack/waf-1/").status_code == 302
    users = {json.loads(m.value or b"")["user"] for m in sent_mutes(world)}
    assert users == {"admin"}
    assert MuteRequest.objects.count() == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reason": ""}, "required"),
        ({"reason": "x" * 501}, "at most 500"),
        ({"end": "for ever"}, "not one of the available choices"),
        ({"id": "one"}, "valid UUID"),
    ],
)
def test_a_form_that_is_wrong_keeps_what_was_typed(
    world: World, client: Client, change: dict[str, str], says: str
) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    answer = client.post("/mute/attack/waf-1/", form_of(reason="because of the clock") | change)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert says in page
    assert "reason" in change or "because of the clock" in page
    assert not sent_mutes(world)


def test_more_agents_than_may_be_muted_are_refused_by_name(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_MUTED", 1)
    world.report("shop", "clear", "waf-1")
    mute_everywhere(world, "waf-2")
    world.write()
    answer = client.post("/mute/attack/waf-1/", form_of())
    assert answer.status_code == 422
    assert "are muted already" in answer.content.decode()


def test_who_may_not_command_sees_no_agent(world: World) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    manager = Client()
    manager.force_login(make_user("manager"))
    assert manager.get(agent_path("attack", "waf-1")).status_code == 403
    assert manager.post("/mute/attack/waf-1/", form_of()).status_code == 403


@text
@pytest.mark.spread(4)
def test_hostile_names_and_reasons_are_shown_as_text(
    world: World, client: Client, text: str
) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    text = text.encode(errors="replace").decode()  # a client cannot send half a surrogate pair
    calm(client.get("/agents/?scenario=" + quote(text)), text)
    calm(client.post("/mute/attack/waf-1/", form_of(reason=text)), text)
    calm(client.post("/unmute/attack/waf-1/", {"id": text, "reason": text}), text)
    if name_ok(text):
        world.report("shop", "clear", text)
        world.write()
        calm(client.get("/agents/"), text)
        calm(client.get(agent_path("attack", text)), text)


def test_what_was_asked_is_audited(world: World, client: Client) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    client.post("/mute/attack/waf-1/", form_of())
    client.post("/unmute/attack/waf-1/", {"id": str(uuid.uuid4()), "reason": ""})
    entries = AuditEntry.objects.filter(target="waf-1").order_by("number")
    assert [(e.action, e.outcome) for e in entries] == [
        ("agent.muted", "sent"),
        ("agent.unmuted", "sent"),
    ]


# ---- by REST -------------------------------------------------------------------------------


def test_an_agent_is_muted_by_rest_and_listed(world: World) -> None:
    headers = bearer(make_user("operator"))
    until = now_ms() + 60_000
    partitions = scenarios()["attack"].partitions

    def post(path: str, body: Any, key: str) -> Any:
        return Client().post(
            f"/api/v1/scenarios/attack/{path}",
            body,
            content_type="application/json",
            headers=headers | {"Idempotency-Key": key},
        )

    answer = post("mute/waf%2F1", {"reason": "wild", "until": until}, ID)
    assert answer.status_code == 202, answer.content
    mute_request = {"id": ID, "agent": "waf/1", "kind": "mute", "sent": partitions, "taken": 0}
    assert answer.json() == mute_request | {"of": partitions}
    world.write()
    assert (
        post("mute/waf%2F1", {"reason": "wild", "until": until}, ID).json()["taken"] == partitions
    )
    listed = Client().get("/api/v1/scenarios/attack/mutes", headers=headers).json()
    mute = {"agent": "waf/1", "until": until, "user": "operator", "reason": "wild", "id": ID}
    assert listed == [mute | {"partitions": partitions, "of": partitions}]
    assert post("unmute/waf-2", {}, ID).status_code == 409
    assert post("unmute/waf%2F1", {"reason": "mended"}, str(uuid.uuid4())).status_code == 202
    world.write()
    assert Client().get("/api/v1/scenarios/attack/mutes", headers=headers).json() == []


@pytest.mark.parametrize(
    ("agent", "body", "says"),
    [
        ("user:olga", {"reason": "x"}, "agent"),
        ("waf-1", {"reason": ""}, "reason"),
        ("waf-1", {"reason": "x", "until": 5}, "until"),
        ("waf-1", {"reason": "x", "untill": 5}, "untill"),
    ],
)
def test_what_rest_refuses_it_names(world: World, agent: str, body: Any, says: str) -> None:
    answer = Client().post(
        f"/api/v1/scenarios/attack/mute/{agent}",
        body,
        content_type="application/json",
        headers=bearer(make_user("operator")),
    )
    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert not MuteRequest.objects.exists()


def test_a_form_that_an_address_opens_begins_at_its_reason(world: World, client: Client) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    where = agent_path("attack", "waf-1")
    page = client.get(f"{where}?do=mute").content.decode()
    [focused] = re.findall(r"<[^>]* autofocus[^>]*>", page)
    assert 'id="mute_reason"' in focused
    assert "autofocus" not in client.get(where).content.decode()
    assert "autofocus" not in client.get(f"{where}?do=unheard-of").content.decode()


# ---- several at once -----------------------------------------------------------------------


def test_several_agents_are_muted_alike_and_each_once(world: World, client: Client) -> None:
    for agent in ("waf-1", "waf-2", "waf-3"):
        world.report("shop", "clear", agent)
    world.write()
    walk(now_ms())
    assert "Mute several…" in client.get("/agents/?scenario=attack").content.decode()
    form = form_of(agents=["waf-1", "waf-2"])
    answer = client.post("/mute/attack/", form)
    assert answer["Location"] == "/agents/?scenario=attack"
    asked = MuteRequest.objects.values_list("agent", "reason")
    assert sorted(asked) == [("waf-1", "wild"), ("waf-2", "wild")]
    assert AuditEntry.objects.filter(action="agent.muted").count() == 2
    page = client.post("/mute/attack/", form_of(agents=["waf-3"], reason=""))
    assert page.status_code == 422
    assert re.search(r'value="waf-3"[^>]*checked', page.content.decode())


def test_more_than_may_be_muted_are_refused_together(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for agent in ("waf-1", "waf-2"):
        world.report("shop", "clear", agent)
    world.write()
    walk(now_ms())
    monkeypatch.setattr(views, "MAX_MUTED", 1)
    answer = client.post("/mute/attack/", form_of(agents=["waf-1", "waf-2"]))
    assert answer.status_code == 422
    assert "At most 1 agents of Attacks are muted at once." in answer.content.decode()
    assert not MuteRequest.objects.exists()
