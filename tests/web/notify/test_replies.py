"""Acknowledging and snoozing from a message: its recipient has a link to a page with one button."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group as Role
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.accounts.encryption import seal
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.times import HOUR_MS, now_ms
from dashboard.notify.notifications import outbox
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.models import Message, Rota, RotaShift, Rule
from dashboard.notify.notifications.push import as_notification
from dashboard.watch.annotations.models import Acknowledgement
from support.web.world import World

pytestmark = pytest.mark.django_db
LINK = re.compile(r"/notifications/reply/[^/\s]+/")


@pytest.fixture
def nina(world: World) -> User:
    """On call, with a rule that reaches her of each attack at once."""
    user = User.objects.create_user("nina", "nina@example.org", "x")
    user.groups.add(Role.objects.get_or_create(name="operator")[0])
    rota = Rota.objects.create(name="Night", kinds=["mail"], changed_at=1, username="olga")
    RotaShift.objects.create(
        rota=rota, user=user, begins_at=0, ends_at=2 * now_ms(), written_by="o", written_at=1
    )
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
