"""Actions on what is no longer so: refused here at once, by the job, and shown again with why."""

from __future__ import annotations

import html
import re
import uuid
from typing import Any

import pytest
from django.test import Client
from msgspec.structs import replace

from dashboard.board.live.live_view import live_view
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.models import BucketStatus
from dashboard.core.states.models import AssetState
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.commands.stale_forms import SeenAsset, changes, moved_on, read_sight
from domain.version import Version
from support.web.pages import text_of
from support.web.web_fixtures import commands_sent, make_user
from support.web.world import World
from wire.sink import StateValue

pytestmark = pytest.mark.django_db

HX = {"HX-Request": "true"}
ASSET = "shop.example"
PAGE = f"/s/attack/a/{ASSET}/"


def url(kind: str) -> str:
    return f"/s/attack/command/{kind}/{ASSET}/"


def text(response: Any) -> str:
    return text_of(re.sub(r"</?bdi[^>]*>", "", response.content.decode()))


def form_of(response: Any, kind: str) -> dict[str, str]:
    """What a browser would send of the page's first form of this kind, nothing typed."""
    body = response.content.decode()
    (markup, *_) = re.findall(rf'action="/s/attack/command/{kind}/.*?</form>', body, re.DOTALL)
    fields = {}
    for tag in re.findall(r"<input[^>]*>", markup):
        said = {name: html.unescape(value) for name, value in re.findall(r'(\w+)="([^"]*)"', tag)}
        if said.get("type") != "checkbox" or " checked" in tag:
            fields[said["name"]] = said.get("value", "on" if said.get("type") == "checkbox" else "")
    return fields


def opened(client: Client, kind: str, **typed: str) -> dict[str, str]:
    """The form as the asset's page has it, filled in."""
    return form_of(client.get(PAGE), kind) | typed


SET = {"state": "clear", "reason": "typed with care"}


@pytest.mark.parametrize("kind", ["set", "vote", "release", "purge"])
def test_every_form_asks_for_the_state_that_was_seen(client: Client, world: World, kind: str):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, kind)
    assert form["unchanged"] == "on"
    assert form["seen"] == str(Version.parse(AssetState.objects.get().version))
    sight = read_sight(form["sight"])
    assert sight is not None
    assert (sight.state, sight.pending, sight.override) == ("clear", None, None)
    more = SET | ({"confirm": "yes"} if kind == "purge" else {})
    client.post(url(kind), form | more)
    (command,) = commands_sent(world.gateway, "attack")
    assert str(command.if_version) == form["seen"]


@pytest.mark.spread(4)
@pytest.mark.parametrize("kind", ["set", "vote", "release", "purge"])
@pytest.mark.parametrize("way", ["write", "tail"])
def test_a_state_that_moved_on_is_refused_before_anything_is_sent(
    client: Client, world: World, kind: str, way: str
):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, kind, **SET, confirm="yes")
    world.report(ASSET, "under-attack", "waf-1", "waf-2", "waf-7")
    getattr(world, way)()
    for headers, status in ((HX, 200), ({}, 409)):
        response = client.post(url(kind), form, headers=headers)
        assert response.status_code == status
        words = text(response)
        assert f"Nothing was done: {ASSET} has changed since you opened this form." in words
        assert re.search(r"It was Clear at [\d:]+ UTC , is Under attack since [\d:]+ UTC", words)
        assert "anyway" in words
    assert commands_sent(world.gateway, "attack") == []
    assert not Row.objects.exists()
    assert 'value="typed with care"' in response.content.decode()


def test_who_changed_it_is_said(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, "set", **SET)
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.write()
    words = text(client.post(url("set"), form, headers=HX))
    assert re.search(r"is Under attack since [\d:]+ UTC , reported by waf-[12]", words)


def test_the_form_that_comes_back_does_it_anyway(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, "set", **SET)
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.write()
    again = form_of(client.post(url("set"), form, headers=HX), "set")
    assert again["id"] != form["id"]
    assert again["reason"] == "typed with care"
    assert "unchanged" not in again
    for way in (world.tail, world.write):  # the asset changes once more, known here or not
        world.command("set", ASSET, state="suspicious", reason=way.__name__)
        way()
    assert client.post(url("set"), again | {"state": "clear"}, headers=HX).status_code == 200
    command = commands_sent(world.gateway, "attack")[-1]
    assert (command.id, command.if_version) == (again["id"], None)
    world.write()
    assert Row.objects.get(pk=again["id"]).outcome == "applied"


@pytest.mark.parametrize("kind", ["set", "vote", "release", "purge"])
def test_anyway_is_without_the_condition_in_every_form(client: Client, world: World, kind: str):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, kind, **SET, confirm="yes")
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.write()
    again = form_of(client.post(url(kind), form, headers=HX), kind)
    client.post(url(kind), again | SET, headers=HX)
    (command,) = commands_sent(world.gateway, "attack")
    assert command.if_version is None


def test_the_condition_may_be_ticked_again(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, "set", **SET)
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.write()
    again = form_of(client.post(url("set"), form, headers=HX), "set") | SET
    world.command("set", ASSET, state="suspicious")
    world.write()
    refused = client.post(url("set"), again | {"unchanged": "on"}, headers=HX)
    assert "Nothing was done" in text(refused)
    assert [c.user for c in commands_sent(world.gateway, "attack")] == ["olga"]


def test_who_does_not_care_what_it_is_now_is_not_refused(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, "set", **SET)
    del form["unchanged"]
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    world.write()
    client.post(url("set"), form)
    (command,) = commands_sent(world.gateway, "attack")
    assert command.if_version is None


def test_busy_votes_refuse_nobody(client: Client, world: World):
    world.report(ASSET, "clear", "waf-1", "waf-2", "waf-3")
    world.write()
    form = opened(client, "set", **SET)
    world.report(ASSET, "under-attack", "waf-9")
    world.write()
    assert AssetState.objects.get().version > Version.parse(form["seen"]).sortable()
    client.post(url("set"), form)
    assert len(commands_sent(world.gateway, "attack")) == 1
    world.write()
    assert Row.objects.get().outcome == "applied"


def test_a_form_that_is_sent_twice_is_not_refused_for_its_own_change(client: Client, world: World):
    world.report(ASSET, "under-attack")
    world.write()
    form = opened(client, "set", **SET)
    client.post(url("set"), form)
    world.write()
    again = client.post(url("set"), form, headers=HX)
    assert "Applied" in text(again)
    assert "Nothing was done" not in text(again)
    assert len(commands_sent(world.gateway, "attack")) == 1


def test_an_asset_that_came_meanwhile_is_told(client: Client, world: World):
    form = opened(client, "set", **SET)
    assert form["seen"] == ""
    world.report(ASSET, "under-attack")
    world.write()
    words = text(client.post(url("set"), form, headers=HX))
    assert "It was not on the board at" in words
    assert commands_sent(world.gateway, "attack") == []


def test_an_asset_that_went_meanwhile_is_told(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, "vote", **SET)
    world.command("purge", ASSET)
    world.write()
    words = text(client.post(url("vote"), form, headers=HX))
    assert re.search(r"is no longer on the board since [\d:]+ UTC , purged by olga", words)
    assert [c.kind for c in commands_sent(world.gateway, "attack")] == ["purge"]


def test_pins_and_what_waits_are_told(client: Client, world: World):
    world.report(ASSET, "under-attack")
    world.write()
    form = opened(client, "set", **SET)
    world.command("set", ASSET, state="under-attack")
    world.report(ASSET, "clear", "waf-1", "waf-2")
    world.write()
    words = text(client.post(url("set"), form, headers=HX))
    assert "olga pinned it to Under attack without end: “a drill”." in words
    assert re.search(r"Clear waits now: it becomes that at [\d:]+ UTC if the votes stay\.", words)


def test_no_sight_is_no_hindrance(client: Client, world: World):
    """What a form carries besides the version is the browser's own word: garbage is left out."""
    world.report(ASSET, "clear")
    world.write()
    client.post(url("set"), opened(client, "set", **SET, sight='{"at": "<b>"}'))
    assert len(commands_sent(world.gateway, "attack")) == 1


# ---- refused by the job -------------------------------------------------------------------


def refused_by_the_job(client: Client, world: World, **typed: str) -> str:
    """A command that the server could not know to be late; its path."""
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, "set", **SET, **typed)
    world.report(ASSET, "under-attack", "waf-1", "waf-2")
    first = client.post(url("set"), form, headers=HX)
    assert "Sent" in text(first)
    world.write()
    row = Row.objects.get()
    assert row.outcome == "refused: the state has moved on"
    return f"/commands/{row.pk}/"


def test_the_jobs_refusal_brings_the_form_again(client: Client, world: World):
    path = refused_by_the_job(client, world, end="1h")
    fragment = client.get(path, headers=HX)
    words, body = text(fragment), fragment.content.decode()
    assert "Refused : set to Clear, the state has moved on" in words
    assert re.search(r"It was Clear at [\d:]+ UTC , is Under attack since [\d:]+ UTC", words)
    assert 'id="command-again" hx-swap-oob="true"' in body
    again = form_of(fragment, "set")
    assert again["reason"] == "typed with care"
    assert '<option value="1h" selected>' in body
    assert again["seen"] == str(Version.parse(AssetState.objects.get().version))
    page = text(client.get(path))
    assert "Nothing was done" in page
    world.report(ASSET, "clear", "waf-1", "waf-2")
    client.post(url("set"), again | {"state": "clear", "end": "1h"})
    world.write()
    row = Row.objects.get(pk=again["id"])
    assert row.outcome == "applied"
    assert row.until is not None


def test_another_user_is_told_but_gets_no_form(client: Client, world: World):
    path = refused_by_the_job(client, world)
    client.force_login(make_user("admin"))
    response = client.get(path, headers=HX)
    assert "the state has moved on" in text(response)
    assert "<form" not in response.content.decode()


def test_other_refusals_bring_no_form(client: Client, world: World):
    path = refused_by_the_job(client, world)
    Row.objects.update(outcome="refused: too many agents")
    assert "<form" not in client.get(path, headers=HX).content.decode()


def test_a_panel_that_follows_a_refused_command_has_the_form_too(client: Client, world: World):
    path = refused_by_the_job(client, world)
    page = client.get(f"{PAGE}?command={path.split('/')[2]}")
    assert "Nothing was done" in text(page)
    ids = re.findall(r'\sid="([^"]+)"', page.content.decode())
    assert len(ids) == len(set(ids))


# ---- while the job is down --------------------------------------------------------------------


def test_a_command_that_waits_for_a_job_that_is_down_says_so(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    BucketStatus.objects.update(at=now_ms() - 60_000)
    live_view.cache_clear()
    sent = client.post(url("set"), opened(client, "set", **SET), headers=HX)
    assert "Sent" in text(sent)
    assert "the job does not answer: the command waits in the log" in text(sent)
    assert "hx-get" in sent.content.decode()
    world.write()
    assert "Applied" in text(client.get(f"/commands/{Row.objects.get().pk}/", headers=HX))


# ---- what is known to have changed ----------------------------------------------------------


def seen_of(world: World, client: Client) -> tuple[Version, SeenAsset | None]:
    form = opened(client, "set")
    return Version.parse(form["seen"]), read_sight(form["sight"])


def record() -> StateValue:
    from dashboard.core.states.stores import record_of

    stored_record = record_of("attack", ASSET)
    assert stored_record is not None
    return stored_record


def test_a_change_that_was_undone_is_known_by_the_history(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    seen, sight = seen_of(world, client)
    world.command("set", ASSET, state="under-attack")
    world.command("release", ASSET)
    world.write()
    assert sight is not None
    assert sight.shows(record())
    assert moved_on("attack", ASSET, seen, sight, record())
    lines = changes(scenarios()["attack"], ASSET, seen, sight, record(), now_ms())
    assert "It was Under attack in between, is Clear since" in " ".join(lines)


def test_what_the_job_does_not_compare_refuses_nobody(client: Client, world: World):
    """When a wait ends, and what the votes make beneath a pin."""
    world.report(ASSET, "under-attack")
    world.report(ASSET, "clear")
    world.write()
    seen, sight = seen_of(world, client)
    waits = record().pending
    assert sight is not None
    assert waits is not None
    assert sight.shows(replace(record(), pending=replace(waits, due=waits.due + 1)))
    assert not sight.shows(replace(record(), pending=replace(waits, state="suspicious")))
    assert not sight.shows(replace(record(), pending=None))
    world.command("set", ASSET, state="suspicious")
    world.write()
    assert moved_on("attack", ASSET, seen, sight, record())
    seen, sight = seen_of(world, client)
    pinned = record()
    assert sight is not None
    assert sight.shows(replace(pinned, pending=None))
    assert pinned.override is not None
    beneath = replace(pinned.override, underlying="clear")
    assert sight.shows(replace(pinned, override=beneath, version="1.999.0"))
    assert not sight.shows(replace(pinned, override=replace(beneath, reason="another")))


def test_without_a_sight_the_history_tells(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    seen, _ = seen_of(world, client)
    assert not moved_on("attack", ASSET, seen, None, record())
    world.report(ASSET, "under-attack")
    world.write()
    assert moved_on("attack", ASSET, seen, None, record())
    lines = changes(scenarios()["attack"], ASSET, seen, None, record(), now_ms())
    assert "It was Clear, is Under attack since" in " ".join(lines)


def test_a_reminder_is_no_change(client: Client, world: World):
    world.report(ASSET, "under-attack", "waf-1")
    world.write()
    seen, sight = seen_of(world, client)
    world.later(61_000)
    world.write()
    assert record().cause.type == "reminder"
    assert not moved_on("attack", ASSET, seen, sight, record())
    world.command("set", ASSET, state="clear")
    world.command("release", ASSET)
    world.later(61_000)
    world.write()
    assert moved_on("attack", ASSET, seen, sight, record())
    words = " ".join(changes(scenarios()["attack"], ASSET, seen, sight, record(), now_ms()))
    assert "It was Clear in between, is Under attack since" in words
    assert "released by olga" in words


def test_what_is_told_is_escaped(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    seen, sight = seen_of(world, client)
    world.command("set", ASSET, user="<b>olga</b>", state="under-attack")
    world.write()
    words = " ".join(changes(scenarios()["attack"], ASSET, seen, sight, record(), now_ms()))
    assert "<b>" not in words
    assert "&lt;b&gt;olga" in words


@pytest.mark.parametrize("garbage", ["", "{", "[]", '{"at": 1, "state": 7}', "\ud800", "null"])
def test_a_sight_that_is_none_is_left_out(garbage: str):
    assert read_sight(garbage) is None


# ---- purge --------------------------------------------------------------------------------


def test_a_purge_says_who_still_reports(client: Client, world: World):
    world.report(ASSET, "clear", "waf-1", "waf-2")
    world.command("vote", ASSET, user="ed", state="clear")
    world.write()
    first = client.post(url("purge"), opened(client, "purge", reason="gone"), headers=HX)
    words = text(first)
    assert "Purge shop.example?" in words
    assert "It will be back : 2 agents reported within the last" in words
    assert re.search(r"waf-1 says Clear , last report \d s ago \(fresh\)", words)
    assert "The vote of ed goes too, and does not come back by itself." in words
    assert commands_sent(world.gateway, "attack")[1:] == []


def test_a_purge_says_nothing_of_agents_that_have_fallen_silent(client: Client, world: World):
    world.report(ASSET, "clear", "waf-1", "waf-2")
    world.later(120_000)
    world.report(ASSET, "clear", "waf-1")
    world.write()
    assert any(vote.silent is not None for vote in record().votes)
    first = client.post(url("purge"), opened(client, "purge", reason="gone"), headers=HX)
    assert "1 agent reported within the last" in text(first)
    assert "waf-2 says" not in text(first)


def test_a_purge_says_when_nobody_reports(client: Client, world: World):
    world.command("set", ASSET, state="clear")
    world.write()
    first = client.post(url("purge"), opened(client, "purge"), headers=HX)
    assert "No agent has a live vote on it: it stays away until one reports." in text(first)


def test_a_purges_first_step_is_about_what_is_there_then(client: Client, world: World):
    world.report(ASSET, "clear")
    world.write()
    form = opened(client, "purge")
    world.report(ASSET, "under-attack")
    world.write()
    first = client.post(url("purge"), form, headers=HX)
    assert "It was Clear at" in text(first)
    confirmed = form_of(first, "purge")
    client.post(url("purge"), confirmed, headers=HX)
    (command,) = commands_sent(world.gateway, "attack")
    assert command.kind == "purge"
    assert uuid.UUID(command.id)
