"""A channel whose receiver does not answer rests, and holds up neither others nor its own order."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client

from dashboard.core.accounts.encryption import seal
from dashboard.core.common.outbound import LONGEST_RETRY_S, retry_after_ms
from dashboard.core.common.times import MINUTE_MS, now_ms
from dashboard.notify.notifications import channels, delivery, outbox
from dashboard.notify.notifications.delivery import (
    LONGEST_PAUSE_MS,
    MOST_AT_ONCE,
    MOST_RESTED,
    Deliveries,
    Receiver,
)
from dashboard.notify.notifications.models import FAILED, SENT, Channel, Message
from dashboard.notify.notifications.outbox import MessageDraft
from support.run.stack import wait_until
from support.web.deliveries import deliver
from support.web.receivers import HookServer, hook_server

pytestmark = pytest.mark.django_db


@pytest.fixture
def hooks(settings: Any) -> Iterator[HookServer]:
    """A receiver on this machine, which may be called."""
    changes = {"private_targets": True}
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update=changes)
    with hook_server() as server:
        yield server


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a receiver that takes connections and never answers."""
    monkeypatch.setattr(channels, "WEBHOOK_TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def channel(address: str, name: str = "hook") -> Channel:
    secret = seal("whsec_" + "A" * 32)
    return Channel.objects.create(
        name=name, kind="webhook", address=address, secret=secret, changed_at=1
    )


def letters(row: Channel, number: int = 1) -> list[Message]:
    """So many messages through a channel, one after the other."""
    [target] = outbox.targets_of_channel(row)
    at = now_ms() - 1_000
    return [
        outbox.put(target, MessageDraft("test", f"message {n}", "text"), at + n)
        for n in range(number)
    ]


def at(ms: int) -> Callable[[], int]:
    """A clock that stands."""
    return lambda: ms


def test_all_its_messages_rest_and_go_out_in_their_order(hooks: HookServer, silent: str) -> None:
    row, now = channel(silent), now_ms()
    letters(row, 3)
    deliver(at(now))
    row.refresh_from_db()
    assert (row.rests, row.rest_reason) == (1, "no answer within 1 s")
    assert [each.tries for each in Message.objects.order_by("created_at")] == [1, 0, 0]
    deliver(at(now + 4_999))
    assert Message.objects.filter(tries=1).count() == 1, "it rests"
    Channel.objects.update(address=hooks.url)
    deliver(at(now + MINUTE_MS))
    assert [posted.body.count(b"message") for posted in hooks.posted] == [1, 1, 1]
    order = [int(posted.body.partition(b"message ")[2][:1]) for posted in hooks.posted]
    assert order == [0, 1, 2]
    row.refresh_from_db()
    assert (row.rests, row.rests_until, row.rest_reason) == (0, 0, "")


def test_it_rests_longer_each_time(hooks: HookServer, silent: str) -> None:
    row = channel(silent)
    letters(row)
    pauses, now = [], now_ms()
    for _ in range(9):
        deliver(at(now))
        row.refresh_from_db()
        pauses.append(row.rests_until - now)
        now = row.rests_until
    assert pauses == [5_000 * 2**n for n in range(7)] + [LONGEST_PAUSE_MS] * 2


def test_what_is_refused_holds_up_no_other(hooks: HookServer) -> None:
    """A receiver that answers is there: only the message that it refuses is tried again."""
    hooks.answer = lambda posted: (500, b"no") if b"message 0" in posted.body else (200, b"")
    row = channel(hooks.url)
    letters(row, 3)
    deliver()
    assert [each.status for each in Message.objects.order_by("created_at")] == [FAILED, SENT, SENT]
    row.refresh_from_db()
    assert row.rests == 0


@pytest.mark.parametrize("status", [429, 503])
def test_who_asks_to_be_left_alone_is(hooks: HookServer, status: int) -> None:
    hooks.status, hooks.headers = status, {"Retry-After": "240"}
    row, now = channel(hooks.url), now_ms()
    letters(row, 2)
    deliver(at(now))
    row.refresh_from_db()
    assert row.rests_until == now + 240_000
    deliver(at(now + 239_999))
    assert len(hooks.posted) == 1
    hooks.status, hooks.headers = 200, {}
    deliver(at(now + 240_000))
    assert len(hooks.posted) == 3


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("40", 40_000),
        ("0", 0),
        ("9999999999999999", LONGEST_RETRY_S * 1000),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", LONGEST_RETRY_S * 1000),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_how_long_is_asked_for_is_read_and_bounded(text: str, ms: int | None) -> None:
    assert retry_after_ms(text) == ms


def test_each_page_tells_admins_how_many_channels_do_not_answer(admin_client: Client) -> None:
    said = "channels that do not answer"
    row = channel("https://hook.example/")
    caches["figures"].clear()
    assert said not in admin_client.get("/audit/").content.decode()
    row.rest("no answer within 5 s", now_ms() + MINUTE_MS)
    caches["figures"].clear()
    assert said in admin_client.get("/audit/").content.decode()
    row.end_rest()
    caches["figures"].clear()
    assert said not in admin_client.get("/audit/").content.decode()


def test_the_channels_page_says_that_it_rests(admin_client: Client, silent: str) -> None:
    row = channel(silent, "silent hook")
    row.rest("no answer within 5 s", now_ms() + MINUTE_MS)
    page = admin_client.get("/notifications/channels/").content.decode()
    assert "does not answer" in page
    assert "no answer within 5 s" in page


def test_a_test_by_an_admin_ends_the_rest(admin_client: Client, hooks: HookServer) -> None:
    row = channel(hooks.url)
    row.rest("no answer within 5 s", now_ms() + 10 * MINUTE_MS)
    assert (
        admin_client.post(f"/notifications/channels/{row.pk}/act/", {"do": "test"}).status_code
        == 302
    )
    deliver()
    assert len(hooks.posted) == 1


# ---- side by side -----------------------------------------------------------------------------


class Turns:
    """Deliveries that stand still until the test lets them go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.begun = threading.Event(), []  # type: ignore[var-annotated]
        self.due: list[Receiver] = []
        monkeypatch.setattr(delivery, "receivers_to_try", lambda _now: self.due)
        monkeypatch.setattr(delivery, "deliver_to", self.deliver_to)

    def deliver_to(self, receiver: Receiver, _clock: Any) -> bool:
        self.begun.append(receiver)
        self.open.wait(30)
        return False


def test_who_does_not_answer_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    deliveries = Deliveries()
    turns.due = [Receiver(1, "", ""), Receiver(None, "mail", "a@example.org")]
    assert deliveries.start() is False
    wait_until(lambda: len(turns.begun) == 2, 10, "not begun")
    turns.due = [*turns.due, Receiver(2, "", "")]
    deliveries.start()
    wait_until(lambda: len(turns.begun) == 3, 10, "not begun")
    assert turns.begun[-1] == Receiver(2, "", ""), "those under way are not begun again"
    turns.open.set()


def test_how_many_run_is_bounded_and_some_room_is_for_those_that_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(monkeypatch)
    for n in range(MOST_AT_ONCE):
        channel("http://127.0.0.1:1/", f"hook {n}")
    Channel.objects.update(rests=1)
    rested = [Receiver(pk, "", "") for pk in Channel.objects.values_list("pk", flat=True)]
    well = [Receiver(None, "mail", f"{n}@example.org") for n in range(MOST_AT_ONCE)]
    turns.due = [*rested, *well]
    Deliveries().start()
    wait_until(lambda: len(turns.begun) == MOST_AT_ONCE, 10, "not begun")
    assert sum(each.channel is not None for each in turns.begun) == MOST_RESTED
    turns.open.set()
