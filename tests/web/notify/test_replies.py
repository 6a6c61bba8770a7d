"""Acknowledging and snoozing from a message: its recipient has a link to a page with one button."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group as Role
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.accounts.encryption import seal
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import HOUR_MS, now_ms
from dashboard.notify.notifications import message_views, outbox
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.models import Message, Rule
from dashboard.notify.notifications.push import as_notification
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.models import Acknowledgement
from support.web.reply_links import reply_links
from support.web.rotas import make_rota, put_on_call
from support.web.web_fixtures import bearer, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db
LINK = re.compile(r"/notifications/reply/[^/\s]+/")


@pytest.fixture
def nina(world: World) -> User:
    """On call, with a rule that reaches her of each attack at once."""
    rota = make_rota()
    user = put_on_call(rota, "nina")
    user.groups.add(Role.objects.get_or_create(name="operator")[0])
    definition = {"window_ms": 0, "stages": [{"rotas": [rota.pk]}]}
    Rule.objects.create(name="Attacks", definition=definition, changed_at=1, username="olga")
    return user


def attacked(world: World, *assets: str) -> Message:
    """The message about attacks on these assets."""
    for asset in assets:
        world.report(asset, "under-attack")
    world.write()
    decide()
    return Message.objects.order_by("-created_at")[0]


def links(message: Message) -> list[str]:
    """The paths of a message's links: to acknowledge, and to snooze."""
    return LINK.findall(message.text)


def file_of(client: Client, name: str) -> str:
    answer: Any = client.get(f"/notifications/messages/{name}")
    return b"".join(answer.streaming_content).decode()


def in_force() -> list[tuple[str, str]]:
    rows = Acknowledgement.objects.in_force(now_ms()).order_by("asset")
    return list(rows.values_list("asset", "username"))


def test_a_link_acts_by_its_button_alone_and_without_a_login(world: World, nina: User):
    acknowledge, snooze = links(attacked(world, "shop"))
    client = Client()
    page = client.get(acknowledge)
    assert page.status_code == 200
    assert page.content.decode().count('<button type="submit">') == 1
    assert in_force() == []
    assert client.head(snooze).status_code == 200
    assert in_force() == []
    assert "Done" in client.post(snooze).content.decode()
    assert in_force() == [("shop", "nina")]
    row = Acknowledgement.objects.get()
    assert abs(row.until - now_ms() - HOUR_MS) < HOUR_MS / 10
    assert row.reason == "Snoozed"
    audited = AuditEntry.objects.filter(action="asset.acknowledged").latest("pk")
    assert audited.name == "nina"
    assert f"the link of the message {Message.objects.get().pk}" in audited.facts


def test_the_button_needs_the_token_of_its_page(world: World, nina: User):
    acknowledge, _ = links(attacked(world, "shop"))
    assert Client(enforce_csrf_checks=True).post(acknowledge).status_code == 403
    assert in_force() == []


def test_a_link_acts_on_what_its_message_told_of_alone(world: World, nina: User):
    acknowledge, _ = links(attacked(world, "shop"))
    attacked(world, "forum")
    Client().post(acknowledge)
    assert in_force() == [("shop", "nina")]


def test_a_link_is_of_its_recipient_and_expires(
    world: World, nina: User, monkeypatch: pytest.MonkeyPatch
):
    message = attacked(world, "shop")
    acknowledge, _ = links(message)
    other = User.objects.create_user("olaf")
    until = now_ms() + HOUR_MS
    plain = json.dumps(["reply", message.pk.hex, nina.pk, "acknowledge", until])
    others = json.dumps(["reply", message.pk.hex, other.pk, "acknowledge", until])
    for token in (plain, seal(others), seal(plain)[:-4] + "abcd", seal("[]"), seal("a secret")):
        assert Client().post(f"/notifications/reply/{quote(token)}/").status_code == 404, token
    monkeypatch.setattr(outbox, "now_ms", lambda: now_ms() + 25 * HOUR_MS)
    assert Client().post(acknowledge).status_code == 410
    monkeypatch.undo()
    nina.groups.clear()
    refused = Client().post(acknowledge)
    assert refused.status_code == 403
    assert "nina no longer has a role that may command" in refused.content.decode()
    assert in_force() == []


def test_nobody_else_reads_the_links(world: World, nina: User, user: User, client: Client):
    message = attacked(world, "shop")
    tokens = [link.split("/")[3] for link in links(message)]
    api = f"/api/v1/notifications/messages/{message.pk}"
    read = [
        client.get(f"/notifications/messages/{message.pk}/").content.decode(),
        json.dumps(client.get(api, headers=bearer(user)).json(), ensure_ascii=False),
        *(file_of(client, f"messages.{form}") for form in ("csv", "ndjson")),
    ]
    assert all("/notifications/reply/…" in each for each in read[:2])
    assert not [token for token in tokens for each in read if token in each]
    own = Client().get("/api/v1/notifications/inbox", headers=bearer(nina)).json()["items"]
    assert tokens[0] not in own[0]["text"]
    assert "shop under attack" in own[0]["text"]


def test_a_snooze_shortens_no_colleagues_acknowledgement(world: World, nina: User, user: User):
    _, snooze = links(attacked(world, "shop"))
    attack, until = scenarios()["attack"], now_ms() + 8 * HOUR_MS
    acknowledgements.acknowledge(attack, ["shop"], user, "I am on it", until, now_ms())
    page = Client().post(snooze).content.decode()
    assert "Already acknowledged" in page
    assert in_force() == [("shop", user.username)]
    assert Acknowledgement.objects.get().until == until


def test_a_snooze_lengthens_a_shorter_acknowledgement(world: World, nina: User, user: User):
    _, snooze = links(attacked(world, "shop"))
    attack, until = scenarios()["attack"], now_ms() + HOUR_MS // 2
    acknowledgements.acknowledge(attack, ["shop"], user, "", until, now_ms())
    Client().post(snooze)
    assert in_force() == [("shop", "nina")]


def test_a_link_says_what_has_become_of_it(world: World):
    make_user("operator")
    world.report("shop", "under-attack")
    world.write()
    links = reply_links("shop")
    page = Client().get(links["acknowledge"]).content.decode()
    assert "Acknowledge 1 incident?" in page
    assert "times in <span data-zone>UTC</span>" in page
    assert "Done" in Client().post(links["acknowledge"]).content.decode()
    assert "Already acknowledged" in Client().get(links["snooze"]).content.decode()
    expired = Client().get(links["expired"])
    assert expired.status_code == 410
    assert "This link has expired" in expired.content.decode()
    assert "data-zone" not in expired.content.decode()  # it has no times


def test_a_link_says_what_it_leaves_to_the_page_of_the_message(world: World, nina: User):
    message = attacked(world, "shop")
    acknowledge, _ = links(message)
    assert "more are acknowledged" not in Client().get(acknowledge).content.decode()
    Message.objects.update(payload=message.payload | {"more": 7})
    page = " ".join(Client().get(acknowledge).content.decode().split())
    assert message.group
    assert f'7 more are acknowledged on <a href="/notifications/ack/{message.group.token}/' in page


def test_what_a_message_told_of_is_read_at_once(
    world: World, nina: User, django_assert_num_queries: Any
):
    message = attacked(world, "shop", "forum", "bank")
    with django_assert_num_queries(1):
        reported = message_views._reported(message)
    assert {each.asset for each in reported} == {"shop", "forum", "bank"}


def test_a_link_of_what_is_over_says_so(world: World, nina: User):
    acknowledge, _ = links(attacked(world, "shop"))
    world.report("shop", "clear")
    world.later(5 * 60_000)
    world.report("shop", "clear")
    world.write()
    page = Client().post(acknowledge).content.decode()
    assert "It is over" in page
    assert "<button type=" not in page.partition("<main")[2].partition("</main>")[0]


def test_a_notification_in_a_browser_has_the_links_as_buttons(world: World, nina: User):
    message = attacked(world, "shop")
    actions = json.loads(as_notification(message))["actions"]
    assert [each["title"] for each in actions] == ["Acknowledge", "Snooze 1 h"]
    assert Client().get(actions[0]["url"]).status_code == 200


def test_a_notification_of_what_is_over_has_none(world: World, nina: User):
    message = attacked(world, "shop")
    for each in message.payload["incidents"]:
        each["over_at"] = now_ms()
    assert "actions" not in json.loads(as_notification(message))
    message.payload = {"kind": "summary", "groups": []}
    assert "actions" not in json.loads(as_notification(message))
