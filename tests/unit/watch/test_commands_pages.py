"""The command forms: what they send, what they refuse, and how a command is followed."""

from __future__ import annotations

import html
import re
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from bus.base import OnDelivery, Unavailable
from dashboard.core.common import access, kafka, times
from dashboard.watch.commands import submission
from dashboard.watch.commands.models import Command as Row
from support.web.web_fixtures import answer, commands_sent, make_user, show

pytestmark = pytest.mark.django_db

HX = {"HX-Request": "true"}


def url(kind: str, asset: str = "shop.example", scenario: str = "attack") -> str:
    from urllib.parse import quote

    return f"/s/{scenario}/command/{kind}/{quote(asset, safe='')}/"


def fields(**more: Any) -> dict[str, Any]:
    return {"id": str(uuid.uuid4()), "state": "clear", "reason": "a drill"} | more


def text(response: Any) -> str:
    inline = re.sub(r"</?bdi[^>]*>", "", response.content.decode())
    plain = re.sub(r"<[^>]+>", " ", inline)
    return " ".join(html.unescape(plain).split())


def test_a_set_is_a_record_with_who_and_why(client: Client, bus):
    data = fields()
    response = client.post(url("set"), data)
    (command,) = commands_sent(bus, "attack")
    assert (command.kind, command.asset, command.state) == ("set", "shop.example", "clear")
    assert (command.id, command.user, command.reason) == (data["id"], "operator", "a drill")
    row = Row.objects.get()
    assert (row.status, row.username, row.reason) == ("sent", "operator", "a drill")
    assert (row.source, row.until) == ("form", None)
    assert row.offset == 0
    assert response.status_code == 302
    assert response["Location"].endswith(f"/shop.example/?command={data['id']}")


@pytest.mark.parametrize("kind", ["vote", "release"])
def test_vote_and_release_need_no_reason(client: Client, bus, kind: str):
    client.post(url(kind), fields(reason=""))
    (command,) = commands_sent(bus, "attack")
    assert command.kind == kind


def test_a_purge_is_asked_twice(client: Client, bus):
    data = fields(reason="gone")
    response = client.post(url("purge"), data, headers=HX)
    assert "Purge shop.example?" in text(response)
    assert 'value="gone"' in response.content.decode()
    assert commands_sent(bus, "attack") == []
    client.post(url("purge"), data | {"confirm": "yes"}, headers=HX)
    (command,) = commands_sent(bus, "attack")
    assert (command.kind, command.id) == ("purge", data["id"])


@pytest.mark.parametrize(("end", "ms"), [("15m", 900_000), ("1h", 3_600_000), ("4h", 14_400_000)])
def test_an_end_at_one_click(client: Client, bus, end: str, ms: int):
    before = times.now_ms()
    client.post(url("set"), fields(end=end))
    (command,) = commands_sent(bus, "attack")
    assert before + ms <= (command.until or 0) <= times.now_ms() + ms


def test_a_typed_end_is_in_the_viewers_zone(client: Client, bus):
    client.post(url("set"), fields(end="at", until_at="2099-07-01T12:00", zone="Europe/Berlin"))
    (command,) = commands_sent(bus, "attack")
    assert command.until == int(datetime(2099, 7, 1, 10, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize("zone", ["", "Nowhere/Land", "../etc/passwd", "x" * 60])
def test_without_a_known_zone_the_end_is_in_utc(client: Client, bus, zone: str):
    client.post(url("set"), fields(end="at", until_at="2099-07-01T12:00", zone=zone))
    (command,) = commands_sent(bus, "attack")
    assert command.until == int(datetime(2099, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reason": ""}, "required"),
        ({"reason": "x" * 501}, "at most 500 characters"),
        ({"state": "on-fire"}, "expected one of: under-attack, suspicious, clear"),
        ({"state": ""}, "Choose a state"),
        ({"end": "at", "until_at": "2001-01-01T00:00"}, "This time is past"),
        ({"end": "at", "until_at": "soon"}, "Expected a date and a time"),
        ({"end": "at"}, "Expected a date and a time"),
        (
            {"end": "at", "until_at": "9999-12-31T23:59", "zone": "America/New_York"},
            "expected Unix milliseconds",
        ),
        ({"seen": "new", "unchanged": "on"}, "expected epoch.offset.step"),
    ],
)
@pytest.mark.parametrize("headers", [{}, HX])
def test_a_refused_form_says_why_and_keeps_what_was_typed(
    client: Client, bus, changes: dict[str, str], message: str, headers: dict[str, str]
):
    data = fields(reason="typed with care") | changes
    response = client.post(url("set"), data, headers=headers)
    assert response.status_code == (200 if headers else 422)
    assert message in text(response)
    if "reason" not in changes:
        assert 'value="typed with care"' in response.content.decode()
    assert f'value="{data["id"]}"' in response.content.decode()
    assert commands_sent(bus, "attack") == []
    assert not Row.objects.exists()


def test_a_form_without_id_is_refused(client: Client, bus):
    assert client.post(url("set"), fields(id="")).status_code == 422
    assert commands_sent(bus, "attack") == []


def test_an_open_vocabulary_takes_any_state(client: Client, bus):
    client.post(url("set", "A-17", "orders"), fields(state="at the customs"))
    (command,) = commands_sent(bus, "orders")
    assert command.state == "at the customs"


def test_only_if_unchanged_carries_the_version_seen(client: Client, bus):
    show("attack", "shop.example", "clear", offset=42)
    client.post(url("set"), fields(seen="1.42.0", unchanged="on"))
    client.post(url("set"), fields(seen="1.42.0"))
    first, second = sorted(commands_sent(bus, "attack"), key=lambda c: c.if_version is None)
    assert str(first.if_version) == "1.42.0"
    assert second.if_version is None


def test_the_same_form_twice_is_one_command(client: Client, bus):
    data = fields(end="15m")
    client.post(url("set"), data)
    again = client.post(url("set"), data, headers=HX)
    assert len(commands_sent(bus, "attack")) == 1
    assert Row.objects.count() == 1
    assert data["id"] in again.content.decode()


def test_the_same_form_twice_at_once_is_one_command(
    client: Client, bus, monkeypatch: pytest.MonkeyPatch
):
    """The other request writes the command down between our look and our own writing."""
    real = submission._insert
    data = fields()

    def late(*args: Any) -> Row | None:
        monkeypatch.setattr(submission, "_insert", real)
        client.post(url("set"), data)
        return real(*args)

    monkeypatch.setattr(submission, "_insert", late)
    assert client.post(url("set"), data).status_code == 302
    assert len(commands_sent(bus, "attack")) == 1
    assert Row.objects.count() == 1


def test_an_id_used_for_another_command_is_refused(client: Client, bus):
    data = fields()
    client.post(url("set"), data)
    for path, changed in ((url("set", "other"), {}), (url("set"), {"state": "suspicious"})):
        response = client.post(path, data | changed)
        assert response.status_code == 422
    assert len(commands_sent(bus, "attack")) == 1


def test_somebody_elses_id_is_refused(client: Client, bus):
    data = fields()
    client.post(url("set"), data)
    client.force_login(make_user("admin"))
    assert client.post(url("set"), data).status_code == 422


def test_without_a_broker_it_says_so_and_sends_once_it_is_back(
    client: Client, bus, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kafka, "REACH_S", 0)
    bus.bus.stop()
    data = fields(reason="typed with care")
    response = client.post(url("set"), data)
    assert response.status_code == 503
    assert "Not sent: Kafka does not answer" in text(response)
    assert 'value="typed with care"' in response.content.decode()
    assert Row.objects.get().status == "unsent"
    bus.bus.start()
    client.post(url("set"), data | {"reason": "typed again"})
    (command,) = commands_sent(bus, "attack")
    assert (command.id, command.reason) == (data["id"], "typed again")
    row = Row.objects.get()
    assert (row.status, row.reason) == ("sent", "typed again")


def test_a_confirmation_that_does_not_come_is_said_and_followed(
    client: Client, bus, monkeypatch: pytest.MonkeyPatch
):
    def lost(*_args: Any, on_delivery: OnDelivery, **_kwargs: Any) -> None:
        on_delivery(Unavailable("no confirmation within 9 s"))

    monkeypatch.setattr(bus.producer(), "send", lost)
    data = fields()
    response = client.post(url("set"), data, headers=HX)
    assert "Not confirmed" in text(response)
    assert "may still arrive" in text(response)
    assert "hx-trigger" in response.content.decode()
    answer(data["id"])
    assert "Applied" in text(client.get(f"/commands/{data['id']}/", headers=HX))


def test_an_answer_faster_than_the_confirmation_stands(
    client: Client, bus, monkeypatch: pytest.MonkeyPatch
):
    real = bus.producer().send

    def answered_at_once(*args: Any, on_delivery: OnDelivery, **kwargs: Any) -> None:
        def note(place: Any) -> None:
            answer(Row.objects.get().pk)
            on_delivery(place)

        real(*args, on_delivery=note, **kwargs)

    monkeypatch.setattr(bus.producer(), "send", answered_at_once)
    client.post(url("set"), fields())
    row = Row.objects.get()
    assert (row.status, row.outcome, row.offset) == ("answered", "applied", 0)


@pytest.mark.parametrize(
    ("outcome", "title", "words"),
    [
        ("applied", "Applied", r"version 1\.7\.0 after \d+ ms"),
        ("no-change", "No change", "nothing changed"),
        ("refused: the state has moved on", "Refused", "the state has moved on"),
    ],
)
def test_a_command_is_followed_to_its_outcome(
    client: Client, bus, outcome: str, title: str, words: str
):
    show("attack", "shop.example", "clear")
    data = fields()
    first = client.post(url("set"), data, headers=HX)
    assert re.search(r"Sent : set to Clear, partition \d, offset 0; waiting", text(first))
    path = f"/commands/{data['id']}/"
    assert f'hx-get="{path}"' in first.content.decode()
    answer(data["id"], outcome)
    settled = client.get(path, headers=HX)
    assert re.search(f"{title} : set to Clear, .*{words}", text(settled))
    assert "hx-get" not in settled.content.decode()
    page = client.get(path)
    assert "a drill" in text(page)
    assert "operator, by form" in text(page)


def test_a_command_that_never_left_is_not_sending_for_ever(client: Client, bus):
    client.post(url("set"), fields())
    Row.objects.update(status="sending", created_at=times.now_ms() - 60_000)
    response = client.get(f"/commands/{Row.objects.get().pk}/", headers=HX)
    assert "it may not have reached the log" in text(response)


def test_too_many_commands_are_held_back(client: Client, bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(submission, "COMMANDS", access.Limit("commands", 2, window=86_400))
    assert [client.post(url("set"), fields()).status_code for _ in range(3)] == [302, 302, 429]
    assert len(commands_sent(bus, "attack")) == 2


@pytest.mark.parametrize(
    "asset",
    ["10.0.0.0/8", "100% sure", "a b", "Zürich · 東京", "a/command/set", "x?y#z&w", "..", "a//b/"],
)
def test_any_asset_name_goes_through(client: Client, bus, asset: str):
    response = client.post(url("set", asset), fields())
    (command,) = commands_sent(bus, "attack")
    assert command.asset == asset
    assert response.status_code == 302
    page = client.post(url("set", asset), fields(reason=""), headers=HX)
    (action,) = re.findall(r'hx-post="(/s/attack/command/set/[^"]*)"', page.content.decode())
    client.post(html.unescape(action), fields())
    assert {command.asset for command in commands_sent(bus, "attack")} == {asset}


def test_unknown_scenario_and_command_are_not_there(client: Client, bus):
    assert client.post(url("set", scenario="weather"), fields()).status_code == 404
    assert client.post(url("explode"), fields()).status_code == 404


def test_forms_need_their_csrf_token(bus):
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    assert client.post(url("set"), fields()).status_code == 403
    assert commands_sent(bus, "attack") == []
