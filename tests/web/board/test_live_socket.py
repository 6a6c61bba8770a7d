"""The socket: who is let in, what it is told, whom it drops; nothing is lost on the way."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from threading import Event
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.test import Client as Browser
from django.utils import timezone
from prometheus_client import REGISTRY

from bus.base import LoginRefused
from bus.follower import PAUSES_S, Follower
from bus.memory import MemoryBus
from dashboard.asgi import application
from dashboard.board.live import consumer, feeds, snapshots, threads
from dashboard.board.live.admission import Rates
from dashboard.board.live.consumer import BoardConsumer
from dashboard.board.live.live_view import LiveView, live_view
from dashboard.board.live.page_filter import LIMIT, PageFilter, token_of_order
from dashboard.board.live.snapshots import read
from dashboard.board.live.tailer import Tailer
from dashboard.board.live.threads import until_turn_s
from dashboard.core.common.access import Role
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import now_ms
from dashboard.core.states.board_rows import order_of
from dashboard.core.states.queries import Ranking
from dashboard.serve.materialiser.worker import Materialiser
from dashboard.watch.annotations import labels
from domain.records import Command, Report
from support.kafka.counted_stop import CountedStop
from support.kafka.sinks import PlayedJob
from support.web.liveboard import made_bodies
from support.web.liveclient import Client, assert_snapshot_plus_events
from support.web.web_fixtures import make_user

pytestmark = pytest.mark.django_db(transaction=True)

HOST = b"localhost"


@pytest.fixture(autouse=True)
def view() -> Iterator[None]:
    """A view of this test alone, and hurried sockets."""
    live_view.cache_clear()
    consumer.rates.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer, "FLUSH_S", 0.01)
        patch.setattr(consumer, "BEAT_S", 0.2)
        patch.setattr(consumer, "CHECK_S", 0.1)
        yield
    live_view.cache_clear()


class World:
    """Job, materialiser and tailer, each a step at a time."""

    def __init__(self) -> None:
        self.bus = MemoryBus(now_ms)
        self.job = PlayedJob(self.bus, scenarios().values())
        self.materialiser = Materialiser(self.bus, topics(), scenarios(), now_ms)
        self.tailer = Tailer(self.bus, topics(), scenarios(), live_view())

    def report(self, asset: str, state: str, *agents: str) -> None:
        for agent in agents or ("waf-1", "waf-2"):
            self.job.put("attack", Report(asset, agent, state))

    def purge(self, asset: str) -> None:
        self.job.put("attack", Command("purge", asset, str(uuid.uuid4()), "olga", "gone"))

    def write(self) -> None:
        while through_locks(self.materialiser.step, self.materialiser.close):
            pass

    def tail(self) -> None:
        while through_locks(self.tailer.step, self.tailer.close):
            pass
        through_locks(self.tailer.maintain, self.tailer.close)


def through_locks(step: Callable[[], object], start_again: Callable[[], object]) -> bool:
    """A step as the loops take it: threads that share a database in memory lock each other."""
    try:
        return bool(step())
    except OperationalError:
        start_again()
        return True


@pytest.fixture
def world() -> World:
    return World()


def cookie(role: str) -> str:
    for each in Role:  # what migrations made was flushed after an earlier test
        Group.objects.get_or_create(name=each.value)
    browser = Browser()
    browser.force_login(make_user(role))
    return browser.cookies[settings.SESSION_COOKIE_NAME].value


class Talk:
    """A browser at its socket."""

    def __init__(self, socket: WebsocketCommunicator) -> None:
        self.socket, self.client = socket, Client()

    async def say(self, **message: Any) -> None:
        await self.socket.send_to(text_data=json.dumps(message))

    async def next(self, kind: str, ack: bool = True) -> dict[str, Any]:
        """The next message of this kind; those before it are applied, and acknowledged."""
        while True:
            message: dict[str, Any] = json.loads(await self.socket.receive_from(timeout=5))
            self.client.apply(message)
            if ack and "seq" in message:
                await self.say(type="ack", seq=message["seq"])
            if message["type"] == kind:
                return message

    async def until(self, reached: Callable[[], bool]) -> None:
        """Take changes until the client has come so far."""
        async with asyncio.timeout(10):
            while not reached():
                message = json.loads(await self.socket.receive_from(timeout=5))
                self.client.apply(message)
                if "seq" in message:
                    await self.say(type="ack", seq=message["seq"])

    async def end(self) -> tuple[int, str]:
        """The code and the reason with which the server closes."""
        reason = ""
        while True:
            event = await self.socket.receive_output(timeout=5)
            if event["type"] == "websocket.close":
                return event["code"], reason
            if event["type"] == "websocket.send":
                reason = json.loads(event["text"]).get("reason", reason)


@asynccontextmanager
async def talk(session: str = "", scenario: str = "attack", origin: bytes = b"http://localhost"):
    headers = [(b"host", HOST), (b"origin", origin)]
    if session:
        headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode()))
    socket = WebsocketCommunicator(application, f"/ws/board/{scenario}/", headers=headers)
    connected, _ = await socket.connect(timeout=5)
    try:
        yield Talk(socket) if connected else None
    finally:
        await socket.disconnect()
        await sync_to_async(threads.close)()  # nothing is read while the database is emptied


# ---- what it is told ------------------------------------------------------------------------


async def test_a_snapshot_then_changes(world: World):
    session = await sync_to_async(cookie)("manager")
    await sync_to_async(world.report)("a.example", "clear")
    await sync_to_async(world.job.run)()
    await sync_to_async(world.write)()
    async with talk(session) as browser:
        await browser.say(type="filter", states=[], q="")
        first = await browser.next("snapshot")
        assert [row["asset"] for row in first["rows"]] == ["a.example"]
        assert first["counts"] == {"clear": 1}
        await sync_to_async(world.report)("b.example", "under-attack")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        await browser.until(lambda: browser.client.counts.get("under-attack") == 1)
        assert browser.client.rows["b.example"]["state"] == "under-attack"


async def test_doubts_are_counted_marked_and_filtered(world: World):
    session = await sync_to_async(cookie)("manager")
    await sync_to_async(world.report)("a.example", "clear", "waf-1")
    await sync_to_async(world.job.run)()
    await sync_to_async(world.write)()
    async with talk(session) as browser:
        await browser.say(type="filter", states=[], q="is:disputed")
        first = await browser.next("snapshot")
        assert first["doubts"] == {"disputed": 0, "unconfirmed": 1, "silent": 0, "doubt": 0}
        assert first["rows"] == []
        await sync_to_async(world.report)("b.example", "clear")
        await sync_to_async(world.report)("b.example", "under-attack", "waf-3")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        await browser.until(lambda: browser.client.doubts["disputed"] == 1)
        row = browser.client.rows["b.example"]
        assert (row["disputed"], row["doubts"]) == ("under-attack", ["disputed"])
        assert row["rank"] == 2 * row["severity"]
        assert "a.example" not in browser.client.rows
        await sync_to_async(world.report)("b.example", "clear", "waf-3")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        await browser.until(lambda: browser.client.doubts["disputed"] == 0)
        assert browser.client.rows == {}
        await sync_to_async(world.report)("b.example", "critical", "waf-3")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        await browser.until(lambda: browser.client.doubts["doubt"] == 1)
        row = browser.client.rows["b.example"]
        assert (row["disputed"], row["doubts"]) == ("critical", ["disputed", "doubt"])
        assert row["doubt"] == {
            "why": "waf-3 (says critical, which this board does not know)",
            "of": [["waf-3", "says critical, which this board does not know"]],
            "voteless": [],
            "more": 0,
        }


async def test_no_gap_and_no_stale_row_whatever_the_database_does_meanwhile(world: World):
    session = await sync_to_async(cookie)("operator")
    moods = ("under-attack", "clear", "suspicious", "under-attack")

    def act(turn: int) -> None:
        for number in range(12):
            if (number + turn) % 5 == 0:
                world.purge(f"s{number}")
            else:
                world.report(f"s{number}", moods[(number * turn) % 4])
        world.job.run()
        if turn % 3:
            world.write()
        if turn % 2:
            world.tail()

    async with talk(session) as browser:
        await browser.say(type="filter", states=[], q="")
        await browser.next("snapshot")
        for turn in range(8):
            await sync_to_async(act)(turn)
            if turn == 4:
                await browser.say(type="resync")
        await sync_to_async(world.tail)()
        fresh = await sync_to_async(lambda: _fresh(PageFilter()))()
        versions = {row["asset"]: row["version"] for row in fresh["rows"]}
        await browser.until(
            lambda: {a: r["version"] for a, r in browser.client.rows.items()} == versions
        )
        assert_snapshot_plus_events(browser.client, fresh, LIMIT)
        assert versions


def _fresh(wanted: PageFilter) -> dict[str, Any]:
    snapshot = read(scenarios()["attack"], wanted, live_view().overlay("attack"))
    return {**snapshot.merged._asdict(), "marks": snapshot.marks}


async def test_a_filter_is_the_servers_too(world: World):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(world.report)("shop.example", "clear")
    await sync_to_async(world.report)("mail.example", "under-attack")
    await sync_to_async(world.job.run)()
    await sync_to_async(world.tail)()
    async with talk(session) as browser:
        await browser.say(type="filter", states=["clear"], q="SHOP")
        first = await browser.next("snapshot")
        assert [row["asset"] for row in first["rows"]] == ["shop.example"]
        assert first["total"] == 1
        assert first["counts"] == {"clear": 1, "under-attack": 1}
        await sync_to_async(world.report)("shop.example", "under-attack")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        await browser.until(lambda: not browser.client.rows)


async def test_nothing_is_shown_before_it_is_known_what(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumer, "BEAT_S", 0.02)
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(fold_reports)(world, ("shop", "clear"), ("mail", "clear"))
    async with talk(session) as browser:
        live_view().set_figure("attack", "counts", {"clear": 3})  # wakes whoever is told of counts
        for _ in range(5):
            await browser.next("beat")
        assert not browser.client.rows
        await browser.say(type="filter", q="shop")
        first = await browser.next("snapshot")
        assert [row["asset"] for row in first["rows"]] == ["shop"]


async def test_a_snapshot_says_which_filter_it_answers(world: World):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(fold_reports)(world, ("shop", "clear"), ("mail", "clear"))
    async with talk(session) as browser:
        await browser.say(type="filter", q="s")
        assert (await browser.next("snapshot"))["answers"] == 0
        await browser.say(type="filter", q="sh", number=1)
        await browser.say(type="filter", q="sh", number=2, watch="mail")
        while (later := await browser.next("snapshot"))["answers"] < 2:
            pass
        assert [row["asset"] for row in later["rows"]] == ["shop"]
        await browser.say(type="filter", q="nothing:here", number=3)  # the former one stays
        assert (await browser.next("snapshot"))["answers"] == 3
        assert set(browser.client.rows) == {"shop"}


async def test_what_a_socket_is_told_of_in_part_is_counted_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumer, "RECOUNT_S", 0.05)
    monkeypatch.setattr(snapshots, "LIMIT", 1)
    monkeypatch.setattr(feeds, "FEW_HELD", 1)
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(fold_reports)(world, ("shop-1", "clear"), ("shop-2", "suspicious"))
    async with talk(session) as browser:
        await browser.say(type="filter", q="shop")
        assert (await browser.next("snapshot"))["total"] == 2
        await sync_to_async(fold_reports)(world, ("shop-3", "clear"), ("mail", "under-attack"))
        assert (await browser.next("snapshot"))["total"] == 3


async def test_a_watched_asset_is_told_without_rows(world: World):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(world.tail)()
    async with talk(session) as browser:
        await browser.say(type="filter", rows=False, watch="10.0.0.0/8")
        assert (await browser.next("snapshot"))["rows"] == []
        await sync_to_async(world.report)("10.0.0.0/8", "clear")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        while not (message := await browser.next("changes")).get("watched"):
            pass
        assert message["rows"] == []


async def test_the_job_is_heard_of(world: World):
    session = await sync_to_async(cookie)("operator")
    async with talk(session) as browser:
        await browser.say(type="filter")
        assert (await browser.next("beat"))["heartbeat_at"] is None
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        while (beat := await browser.next("beat"))["heartbeat_at"] is None:
            pass
        assert abs(beat["now"] - beat["heartbeat_at"]) < 60_000


async def test_a_later_page_is_told_of_what_lies_on_it(world: World):
    session = await sync_to_async(cookie)("operator")
    for name in ("a", "b", "c"):
        await sync_to_async(world.report)(f"{name}.example", "clear")
        await sync_to_async(world.job.run)()
    await sync_to_async(world.write)()
    async with talk(session) as browser:
        await browser.say(type="filter")
        first = await browser.next("snapshot")
        assert (first["next"], first["least"], first["total"]) == (None, False, 3)
        top, middle, last = [row["asset"] for row in first["rows"]]
        await browser.say(type="filter", after=token_of_order(order_of(first["rows"][0])))
        later = await browser.next("snapshot")
        assert [row["asset"] for row in later["rows"]] == [middle, last]
        assert later["total"] == 3
        await sync_to_async(world.report)(top, "under-attack")
        await sync_to_async(world.report)(middle, "under-attack")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        await browser.until(lambda: list(browser.client.rows) == [last])


async def test_what_is_no_token_shows_the_first_page(world: World):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(world.report)("a.example", "clear")
    await sync_to_async(world.job.run)()
    await sync_to_async(world.tail)()
    async with talk(session) as browser:
        await browser.say(type="filter", after="nonsense")
        assert len((await browser.next("snapshot"))["rows"]) == 1


def asking(view: LiveView) -> int:
    """Return how many sockets wait for a snapshot to be read."""
    return sum(sub._reading for sub in view._subscriptions.get("attack", ()))


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - other tasks reach it
            await asyncio.sleep(0.01)


async def test_sockets_that_show_the_same_are_told_of_one_reading(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(world.report)("a.example", "clear")
    await sync_to_async(world.job.run)()
    await sync_to_async(world.tail)()
    readings: list[PageFilter] = []
    held = Event()

    def slow(scenario: Any, wanted: PageFilter, overlay: Any) -> Any:
        readings.append(wanted)
        held.wait(10)
        return read(scenario, wanted, overlay)

    monkeypatch.setattr("dashboard.board.live.snapshots.read", slow)
    monkeypatch.setattr(threads, "READERS", 8)  # filters are read while boards are held up
    async with AsyncExitStack() as stack:
        browsers = [await stack.enter_async_context(talk(session)) for _ in range(6)]
        for browser in browsers:
            await browser.say(type="filter")
        await reached(lambda: asking(live_view()) == 6)
        held.set()
        for browser in browsers:
            assert len((await browser.next("snapshot"))["rows"]) == 1
    assert len(readings) <= snapshots.READERS + 1


async def test_boards_of_one_page_are_sent_the_same_message_made_once(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    made = made_bodies(monkeypatch)
    session = await sync_to_async(cookie)("operator")
    tailer = Tailer(world.bus, topics(), scenarios(), live_view())
    await sync_to_async(tailer.step)()
    async with AsyncExitStack() as stack:
        browsers = [await stack.enter_async_context(talk(session)) for _ in range(4)]
        for browser in browsers:
            await browser.say(type="filter")
            await browser.next("snapshot")
        for asset in ("a.example", "b.example", "c.example"):
            made.clear()
            await sync_to_async(reported)(world, tailer, asset)
            for browser in browsers:
                await browser.until(partial(browser.client.rows.__contains__, asset))
    assert len([body for body in made if b'"c.example"' in body]) == 1


def reported(world: World, tailer: Tailer, asset: str) -> None:
    """Report an asset, and have the web process read what becomes of it."""
    world.report(asset, "clear")
    world.job.run()
    tailer.step()


async def test_a_board_that_lags_is_sent_all_at_once_when_it_has_acknowledged(world: World):
    session = await sync_to_async(cookie)("operator")
    tailer = Tailer(world.bus, topics(), scenarios(), live_view())
    await sync_to_async(tailer.step)()
    async with talk(session) as quick, talk(session) as slow:
        for browser in (quick, slow):
            await browser.say(type="filter")
        await quick.next("snapshot")
        first = await slow.next("snapshot", ack=False)
        for asset in ("a.example", "b.example", "c.example"):
            await sync_to_async(reported)(world, tailer, asset)
            await quick.until(partial(quick.client.rows.__contains__, asset))
        assert not slow.client.rows
        await slow.say(type="ack", seq=first["seq"])
        message = await slow.next("changes")
        assert {row["asset"] for row in message["rows"]} == set(quick.client.rows)
        await sync_to_async(reported)(world, tailer, "d.example")
        for browser in (quick, slow):
            await browser.until(partial(browser.client.rows.__contains__, "d.example"))
        assert slow.client.rows == quick.client.rows


@pytest.mark.parametrize(("page", "now"), [(0, 0.0), (7, 3.01), (-5, 1e6), (63, 0.2499)])
def test_boards_of_one_page_have_their_turns_together(page: int, now: float):
    rest = until_turn_s(0.25, page, now)
    assert 0 < rest <= 0.25
    assert until_turn_s(0.25, page, now + rest / 2) == pytest.approx(rest / 2)


@pytest.mark.parametrize(("sockets", "seconds"), [(1, 0.125), (500, 0.125), (1_000, 0.2)])
def test_more_sockets_are_told_less_often(
    sockets: int, seconds: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumer, "FLUSH_S", 0.125)
    assert consumer.pause_s(sockets) == pytest.approx(seconds)


def at_the_end(world: World) -> bool:
    """Return whether the tailer has read all there is."""
    assert world.tailer._reader is not None
    reached = world.tailer._reader.positions()
    return reached == {
        place: end for place, (_, end) in world.bus.offsets({t for t, _ in reached}).items()
    }


async def test_the_database_is_waited_for_when_it_is_too_far_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dashboard.board.live.tailer.MOST_AHEAD", 3)

    def act() -> tuple[int, bool, bool]:
        for number in range(3):
            world.report(f"s{number}", "clear")
        world.job.run()
        world.tail()
        for number in range(3, 6):
            world.report(f"s{number}", "clear")
        world.job.run()
        world.tail()
        ahead, waits = live_view().ahead(), not at_the_end(world)
        world.write()
        world.tail()  # finds that the database has caught up, and nothing else
        world.tail()
        return ahead, waits, at_the_end(world)

    assert await sync_to_async(act)() == (3, True, True)


class RefusingBus(MemoryBus):
    """A bus that takes a login only after it was tried so often."""

    refusals = 2

    def ensure_topics(self, *arguments: Any, **options: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            raise LoginRefused("no such user")
        super().ensure_topics(*arguments, **options)


def test_a_tailer_that_is_refused_says_so_and_goes_on(world: World):
    bus = RefusingBus(now_ms)
    stop = CountedStop(2)
    tailer = Tailer(bus, topics(), scenarios(), live_view())
    Follower(tailer, stop).run()
    assert stop.asked == list(PAUSES_S[:2])
    refusal = live_view().signs.facts().refusal
    assert refusal is not None
    assert refusal.why == "no such user"
    assert tailer.step() == 0
    assert live_view().signs.facts().refusal is None
    tailer.close()


# ---- whom it refuses and drops ----------------------------------------------------------------


async def test_the_anonymous_are_told_nothing():
    async with talk() as browser:
        code, reason = await browser.end()
        assert (code, "log in" in reason) == (4401, True)


async def test_a_user_without_a_role_is_told_nothing():
    async with talk(await sync_to_async(cookie)("none")) as browser:
        assert (await browser.end())[0] == 4403


async def test_an_unknown_scenario_is_named():
    async with talk(await sync_to_async(cookie)("operator"), "nothing") as browser:
        assert (await browser.end())[0] == 4404


@pytest.mark.parametrize("origin", [b"http://evil.example", b"http://localhost:9999", b"null", b""])
async def test_a_page_of_somebody_else_gets_nothing(origin: bytes):
    session = await sync_to_async(cookie)("operator")
    async with talk(session, origin=origin) as browser:
        if browser is not None:  # let in as far as the reason for the refusal
            assert (await browser.end())[0] == 4409


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '"x"', '{"type":"drop"}', '{"type":"filter","states":"clear"}',
        '{"type":"filter","more":1}', '{"type":"filter","number":-1}',
        json.dumps({"type": "filter", "q": "x" * 3_000}),
        json.dumps({"type": "filter", "states": ["a"] * 60}), "x" * 9000,
        '{"type":"ack","seq":"1"}',
    ],
)  # fmt: skip
async def test_a_message_that_is_none_closes_with_a_reason(text: str):
    async with talk(await sync_to_async(cookie)("operator")) as browser:
        await browser.socket.send_to(text_data=text)
        code, reason = await browser.end()
        assert code == 4400
        assert "expected" in reason


async def test_bytes_close_with_a_reason():
    async with talk(await sync_to_async(cookie)("operator")) as browser:
        await browser.socket.send_to(bytes_data=b"\xff")
        assert (await browser.end()) == (4400, "expected text, got bytes")


@pytest.mark.parametrize("role", ["", "admin"])
@pytest.mark.parametrize("path", ["/ws/x/", "/ws/", "/ws/board/", "/ws/board/attack/more/", "/"])
async def test_a_socket_of_no_such_address_is_refused(path: str, role: str, caplog):
    headers = [(b"host", HOST), (b"origin", b"http://localhost")]
    if role:
        session = await sync_to_async(cookie)(role)
        headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode()))
    socket = WebsocketCommunicator(application, path, headers=headers)
    assert (await socket.connect(timeout=5))[0] is False
    await socket.wait()
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_session_that_rests_too_long_closes():
    session = await sync_to_async(cookie)("operator")
    async with talk(session) as browser:
        await browser.next("beat")
        await sync_to_async(Session.objects.update)(expire_date=timezone.now())
        assert await browser.end() == (4401, "the session has ended: log in again")


async def test_the_end_of_the_session_closes():
    async with talk(await sync_to_async(cookie)("operator")) as browser:
        await browser.say(type="filter")
        await browser.next("snapshot")
        await sync_to_async(Session.objects.all().delete)()
        assert (await browser.end())[0] == 4401


async def test_a_role_taken_away_closes():
    async with talk(await sync_to_async(cookie)("operator")) as browser:
        await browser.say(type="filter")
        await browser.next("snapshot")
        user = await User.objects.aget()
        await sync_to_async(user.groups.clear)()
        assert (await browser.end())[0] == 4403


async def test_who_does_not_acknowledge_is_told_nothing_more_and_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumer, "BEHIND_S", 0.5)
    async with talk(await sync_to_async(cookie)("operator")) as browser:
        await browser.say(type="filter")
        await browser.next("snapshot", ack=False)
        await sync_to_async(world.report)("a.example", "clear")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        code, reason = await browser.end()
        assert (code, "acknowledgement" in reason) == (4408, True)
        assert not browser.client.rows


def messages_refused() -> float:
    return REGISTRY.get_sample_value("tallyboard_limited_total", {"limit": "messages"}) or 0


async def test_the_boards_of_a_user_have_a_rate_together(monkeypatch: pytest.MonkeyPatch):
    """Filters from several sockets of one login, as fast as they can be written."""
    rates, filters, refused = Rates(0.001, 50), 0, messages_refused()
    monkeypatch.setattr(consumer, "rates", lambda: rates)
    shown = BoardConsumer._refilter

    async def counted(self: Any, *arguments: Any) -> None:
        nonlocal filters
        filters += 1
        await shown(self, *arguments)

    monkeypatch.setattr(BoardConsumer, "_refilter", counted)
    session, other = [await sync_to_async(cookie)(role) for role in ("operator", "manager")]
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(talk(session)) for _ in range(3)]
        for number in range(30):
            for browser in sockets:
                await browser.say(type="filter", q=f"shop-{number}")
        for browser in sockets:
            code, reason = await browser.end()
            assert (code, "messages a second: wait a little" in reason) == (4429, True)
        assert filters == 50
        assert messages_refused() == refused + 3  # what came behind is not looked at
        async with talk(other) as another:
            await another.say(type="filter")
            await another.next("snapshot")


@pytest.mark.parametrize(
    "message",
    [{"type": "filter"}, {"type": "resync"}, {"type": "alarm"}, {"type": "ack", "seq": 4711}],
)
async def test_every_message_counts_that_was_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, message: dict[str, Any]
):
    rates = Rates(0.001, 2)
    monkeypatch.setattr(consumer, "rates", lambda: rates)
    async with talk(await sync_to_async(cookie)("operator")) as browser:
        for _ in range(3):
            await browser.say(**message)
        assert (await browser.end())[0] == 4429


async def test_an_acknowledgement_that_is_waited_for_counts_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    rates = Rates(0.001, 1)
    monkeypatch.setattr(consumer, "rates", lambda: rates)
    async with talk(await sync_to_async(cookie)("operator")) as browser:
        await browser.say(type="filter")
        await browser.next("snapshot")
        for number in range(3):
            await sync_to_async(world.report)(f"{number}.example", "clear")
            await sync_to_async(world.job.run)()
            await sync_to_async(world.tail)()
            await browser.next("changes")
        acknowledged = await browser.next("beat")
        assert acknowledged["type"] == "beat"


async def test_a_closed_socket_is_forgotten():
    before = consumer.BoardConsumer.open_sockets
    async with talk(await sync_to_async(cookie)("operator")) as browser:
        await browser.say(type="filter")
        await browser.next("snapshot")
        assert consumer.BoardConsumer.open_sockets == before + 1
        assert live_view().sockets() == 1
    assert consumer.BoardConsumer.open_sockets == before
    assert live_view().sockets() == 0


async def test_a_database_that_does_not_answer_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(world.report)("a.example", "clear")
    await sync_to_async(world.job.run)()
    await sync_to_async(world.tail)()
    faults = iter([OperationalError("database is locked")] * 2)

    def locked(*arguments: Any) -> Any:
        for fault in faults:
            raise fault
        return read(*arguments)

    monkeypatch.setattr("dashboard.board.live.snapshots.read", locked)
    async with talk(session) as browser:
        await browser.say(type="filter", states=[], q="")
        first = await browser.next("snapshot")
        assert [row["asset"] for row in first["rows"]] == ["a.example"]


# ---- annotations and alarms ---------------------------------------------------------------------


def acknowledge(user: str, *assets: str) -> None:
    """As a form of another process does: this one finds it in the database."""
    from dashboard.watch.annotations import acknowledgements
    from dashboard.watch.annotations.row_marks import marks_changed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks_changed, "send", lambda *_, **_kwargs: None)
        known, now = scenarios()["attack"], now_ms()
        who = User.objects.get(username=user)
        acknowledgements.acknowledge(known, list(assets), who, "on it", now + 60_000, now)


async def held_until(browser: Talk, who: dict[str, str | None], counted: dict[str, int]) -> None:
    """Take changes until they say who has which asset in hand, and how many that are by state."""
    said: dict[str, str | None] = {}
    counts: dict[str, int] | None = None
    async with asyncio.timeout(10):
        while said != who or counts != counted:
            message = await browser.next("changes")
            said |= {asset: ack and ack[0] for asset, _, ack, *_ in message.get("marks", [])}
            counts = message.get("acknowledged", counts)


async def test_an_acknowledgement_is_told_with_the_snapshot_and_when_it_comes_and_ends(
    world: World,
):
    session = await sync_to_async(cookie)("operator")
    for asset in ("a.example", "b.example"):
        await sync_to_async(world.report)(asset, "suspicious")
    await sync_to_async(world.job.run)()
    await sync_to_async(world.write)()
    await sync_to_async(acknowledge)("operator", "a.example")
    await sync_to_async(world.tail)()
    async with talk(session) as browser:
        await browser.say(type="filter", states=[], q="")
        first = await browser.next("snapshot")
        held, free = sorted(first["marks"], key=lambda mark: mark[0])
        assert (held[0], held[2][0], held[2][4]) == ("a.example", "operator", "on it")
        assert (free[0], free[2], free[5]) == ("b.example", None, held[5])
        assert held[5] > 0
        assert first["acknowledged"] == {"suspicious": 1}
        await sync_to_async(acknowledge)("operator", "b.example")
        await sync_to_async(world.tail)()
        await held_until(browser, {"b.example": "operator"}, {"suspicious": 2})
        await sync_to_async(world.report)("b.example", "under-attack")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.write)()
        await sync_to_async(world.tail)()
        await held_until(browser, {"b.example": None}, {"suspicious": 1})


async def test_a_browser_is_alarmed_of_what_comes_and_not_of_what_was_there(world: World):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(world.report)("old.example", "under-attack")
    await sync_to_async(world.job.run)()
    await sync_to_async(world.write)()
    async with talk(session) as browser:
        await browser.say(type="filter", states=["clear"], q="")
        await browser.next("snapshot")
        await browser.say(type="alarm", states=["under-attack"], any=True)
        await browser.say(type="resync")
        await browser.next("snapshot")
        await sync_to_async(world.report)("new.example", "under-attack")
        await sync_to_async(world.report)("calm.example", "clear")
        await sync_to_async(world.job.run)()
        await sync_to_async(world.tail)()
        async with asyncio.timeout(10):
            while "alerts" not in (message := await browser.next("changes")):
                pass
        n, named = message["alerts"]
        assert (n, [each[:2] for each in named]) == (1, [["new.example", "under-attack"]])


# ---- the filter language ----------------------------------------------------------------------


def fold_reports(world: World, *reports: tuple[str, str], written: bool = True) -> None:
    """These reports folded, in the database or not yet, and read by the tailer."""
    for asset, state in reports:
        world.report(asset, state)
    world.job.run()
    if written:
        world.write()
    world.tail()


def command(world: World, kind: Any, asset: str, **more: Any) -> None:
    world.job.put("attack", Command(kind, asset, str(uuid.uuid4()), "olga", "a drill", **more))
    fold_reports(world, written=False)


async def test_a_row_comes_and_goes_by_what_a_filter_asks(world: World):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(fold_reports)(world, ("shop", "clear"), ("mail", "clear"))
    async with talk(session) as browser:
        await browser.say(type="filter", q="-override:yes shop agent:waf-1")
        first = await browser.next("snapshot")
        assert [row["asset"] for row in first["rows"]] == ["shop"]
        await sync_to_async(command)(world, "set", "shop", state="under-attack")
        await browser.until(lambda: not browser.client.rows)
        await sync_to_async(command)(world, "release", "shop")
        await browser.until(lambda: "shop" in browser.client.rows)


async def test_a_text_that_is_no_filter_leaves_the_rows(world: World):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(fold_reports)(world, ("shop", "clear"), ("mail", "under-attack"))
    async with talk(session) as browser:
        await browser.say(type="filter", q="shop -override:yes")
        await browser.next("snapshot")
        await browser.say(type="filter", q="shop -sate:x")
        problem = await browser.next("problem")
        assert (problem["meant"], problem["start"], problem["end"]) == ("state:", 6, 11)
        assert set(browser.client.rows) == {"shop"}
        await browser.say(type="filter", q="-shop -override:yes")
        assert (await browser.next("problem"))["message"] == ""
        assert [row["asset"] for row in (await browser.next("snapshot"))["rows"]] == ["mail"]


async def test_labels_that_change_are_shown_without_a_record(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snapshots, "LOOK_S", 0.0)
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(labels.choose_chips)("attack", ["tier"])
    await sync_to_async(labels.put)("attack", {"other": {"tier": "silver"}}, "ada", 1)
    await sync_to_async(fold_reports)(world, ("written", "clear"))
    await sync_to_async(fold_reports)(world, ("ahead", "clear"), written=False)
    async with talk(session) as browser:
        await browser.say(type="filter", q="tier:gold")
        assert (await browser.next("snapshot"))["rows"] == []
        for asset in ("written", "ahead"):
            await sync_to_async(labels.put)("attack", {asset: {"tier": "gold"}}, "ada", 1)
        await sync_to_async(world.tail)()
        await browser.until(lambda: len(browser.client.rows) == 2)
        assert {str(row["labels"]) for row in browser.client.rows.values()} == {
            "[['tier', 'gold']]"
        }
        await sync_to_async(fold_reports)(world, ("new", "clear"), written=False)
        await sync_to_async(labels.put)("attack", {"ahead": {"tier": None}}, "ada", 1)
        await sync_to_async(world.tail)()
        await browser.until(lambda: set(browser.client.rows) == {"written"})


def rated(world: World, **rates: int) -> None:
    """Somebody reports these rates of sites, which the database does not know yet."""
    for asset, rate in rates.items():
        detail = json.dumps({"rate": rate})
        world.job.put("attack", Report(asset, "waf-1", "clear", detail=detail))
    fold_reports(world, written=False)


async def test_the_first_rows_by_a_detail_follow_it(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(snapshots, "LIMIT", 2)
    monkeypatch.setattr(feeds, "FEW_HELD", 2)
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(rated)(world, a=5, b=9, c=7)
    await sync_to_async(world.write)()
    async with talk(session) as browser:
        browser.client.ranking = Ranking(1)
        await browser.say(type="filter", sort="rate")
        first = await browser.next("snapshot")
        assert [row["asset"] for row in first["rows"]] == ["b", "c"]
        assert (first["ranked"], first["next"], first["total"]) == (True, None, 3)
        await sync_to_async(rated)(world, d=8)
        await browser.until(lambda: [r["asset"] for r in browser.client.shown(2)] == ["b", "d"])
        fresh = await sync_to_async(lambda: _fresh(PageFilter(ranking=Ranking(1))))()
        assert_snapshot_plus_events(browser.client, fresh, 2)
        await browser.say(type="filter", sort="-rate", number=1)
        assert [row["asset"] for row in (await browser.next("snapshot"))["rows"]] == ["a", "c"]
        await browser.say(type="filter", sort="votes", number=2)
        assert (await browser.next("snapshot"))["ranked"] is False


NETWORK = "192.0.2.0/25"


def network(world: World, state: str, *, written: bool = False) -> None:
    """Somebody says that the network is in this state, which the database knows or not yet."""
    drill = Command("set", NETWORK, str(uuid.uuid4()), "olga", "a drill", state=state)
    world.job.put("connectivity", drill)
    fold_reports(world, written=written)


@pytest.mark.parametrize("written", [True, False])
async def test_what_a_row_lies_behind_is_known_as_it_fails_and_recovers(
    world: World, monkeypatch: pytest.MonkeyPatch, written: bool
):
    monkeypatch.setattr(snapshots, "LOOK_S", 0.0)
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(labels.put)("attack", {"shop": {"network": NETWORK}}, "ada", 1)
    await sync_to_async(fold_reports)(world, ("mail", "clear"), written=written)
    await sync_to_async(network)(world, "up", written=written)

    def fresh() -> dict[str, Any]:
        return {**_fresh(PageFilter()), "causes": snapshots.causes("attack", live_view())}

    async with talk(session) as browser:
        await browser.say(type="filter")
        assert (await browser.next("snapshot"))["causes"] == {}
        await sync_to_async(fold_reports)(world, ("shop", "clear"), written=written)
        await browser.until(lambda: "shop" in browser.client.rows)
        assert [browser.client.rows[name]["behind"] for name in ("shop", "mail")] == [NETWORK, ""]
        for state, causes in (("down", {NETWORK: "Down"}), ("up", {}), ("down", {NETWORK: "Down"})):
            await sync_to_async(network)(world, state, written=written)
            await browser.until(lambda causes=causes: browser.client.causes == causes)
            assert_snapshot_plus_events(browser.client, await sync_to_async(fresh)(), LIMIT)
        await sync_to_async(labels.put)("attack", {"shop": {"network": None}}, "ada", 1)
        await sync_to_async(world.tail)()
        await browser.until(lambda: browser.client.rows["shop"]["behind"] == "")
        await browser.until(lambda: browser.client.causes == {})
        assert_snapshot_plus_events(browser.client, await sync_to_async(fresh)(), LIMIT)


async def test_a_filter_of_time_is_looked_at_anew(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumer, "RENEW_S", 0.0)
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(fold_reports)(world, ("shop", "clear"))
    async with talk(session) as browser:
        await browser.say(type="filter", q="since:>2s")
        assert (await browser.next("snapshot"))["rows"] == []
        await browser.until(lambda: "shop" in browser.client.rows)


async def test_a_filter_of_acknowledgements_follows_them(world: World):
    session = await sync_to_async(cookie)("operator")
    await sync_to_async(fold_reports)(
        world, ("a.example", "suspicious"), ("b.example", "suspicious")
    )
    async with talk(session) as browser:
        await browser.say(type="filter", q="ack:no")
        assert len((await browser.next("snapshot"))["rows"]) == 2
        await sync_to_async(acknowledge)("operator", "a.example")
        await sync_to_async(world.tail)()
        await browser.until(lambda: set(browser.client.rows) == {"b.example"})
