"""A browser's socket: a snapshot of one scenario, then changes as they come."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import structlog
from autobahn.exception import Disconnected
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.urls import path

from dashboard.board.live.admission import ConnectionCounts, NoRoom, Rates, TooFast, admissions
from dashboard.board.live.feeds import AlarmStates, Changes
from dashboard.board.live.live_view import live_view
from dashboard.board.live.page_filter import (
    MAX_TOKEN,
    NO_PROBLEM,
    FilterProblem,
    PageFilter,
    order_of_token,
    problem_of,
    readable,
    shown,
)
from dashboard.board.live.snapshots import shared_reads
from dashboard.board.live.subscription import SocketSubscription
from dashboard.board.live.threads import beats, read_in_thread, turns, wakeups_of
from dashboard.core.common.metrics import LIMITED, SOCKETS, MetricFamily
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.filter_parser import FilterError
from dashboard.core.states.queries import ranking_of
from domain.names import MAX_NAME, MAX_STATE
from domain.scenario import Scenario

# ---- live ----------------------------------------------------------------------------------------
# Messages to a browser, as bytes.


def plain_changes(changes: Changes) -> bytes:
    """Return a `changes` message, made once for all sockets that are sent the same changes."""
    if not changes.body:
        changes.body = _body(changes)
    return changes.body


def _body(changes: Changes) -> bytes:
    """Return the message; each row was serialised once for all sockets."""
    beside = {name: getattr(changes, name) for name in ("gone", "watched", "marks", "alerts")}
    rest: dict[str, Any] = {"type": "changes"}
    rest.update(changes.figures.items())
    rest |= {name: news for name, news in beside.items() if news}
    rows = b",".join(entry.json() for entry in changes.entries)
    return msgspec.json.encode(rest)[:-1] + b',"rows":[' + rows + b"]}"


def numbered(seq: int, message: bytes) -> bytes:
    """Return a message that is to be acknowledged with this number."""
    return message[:-1] + b',"seq":%d}' % seq


# ---- consumer ------------------------------------------------------------------------------------
# A browser's socket: a snapshot of one scenario, then changes as they come.
#
# docs/live.md describes the messages. A socket that has not acknowledged what it was asked to is
# soon sent nothing more; who stays behind is dropped.

log = structlog.get_logger(__name__)

# At most one message with changes in this time, of each socket.
FLUSH_S = 0.125
# At most so many messages with changes a second, of all sockets: more open ones wait longer.
MOST_FLUSHES = 5_000
# At most one snapshot in this time, unless the browser asked for something else.
SNAPSHOT_S = 1.0
# How often a filter that asks how long ago something was is looked at anew.
RENEW_S = 30.0
# How often a filter that finds more than a page is counted anew, as of others no rows are told.
RECOUNT_S = 10.0
# At most so many of these a second: more open sockets wait longer.
MOST_RECOUNTS = 20
# How often a socket is told the time and when the job's last heartbeat came.
BEAT_S = 2.0
# How often it is looked up whether the session still holds, at the most.
CHECK_S = 5.0
# At most so many of these a second: more open sockets wait longer.
MOST_CHECKS = 50
# A browser that has not acknowledged for this long is dropped.
BEHIND_S = 20.0
# One of so many messages with changes is to be acknowledged; the next that is waits for it.
ASK_EVERY = 8
# Longer messages are always to be acknowledged, bytes.
LARGE = 65_536
# How long to wait before a board is read again after the database did not answer.
DATABASE_PAUSE_S = 0.5
# Longest message that a browser may send, characters.
MAX_MESSAGE = 8_192
# At most so many messages a second of all boards of a user, without the acknowledgements that are
# waited for.
MOST_MESSAGES = 20
# What a board says as it opens: its filter, and its alarm.
FIRST_MESSAGES = 2
# Longest text of a filter that is looked at, to say that it is too long.
MOST_TYPED = 2_000
# Most states in one filter.
MAX_STATES = 50
# Highest number of a filter: what a browser counts without error.
MOST_NUMBER = 2**53

BAD_MESSAGE, LOGIN_NEEDED, NO_ROLE, NO_SCENARIO, TOO_SLOW, WRONG_ORIGIN, FULL = (
    4400, 4401, 4403, 4404, 4408, 4409, 4429,
)  # fmt: skip


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of a browser: `filter`, `alarm`, `ack` or `resync`."""

    type: str
    states: list[str] = []
    q: str = ""
    rows: bool = True
    watch: str | None = None
    after: str | None = None
    sort: str = ""
    any: bool = False
    seq: int = 0
    number: Annotated[int, msgspec.Meta(ge=0, le=MOST_NUMBER)] = 0


class Closing(Exception):
    """The closing of the socket, with a code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


@lru_cache(maxsize=1)
def places() -> ConnectionCounts:
    """Return the room of this process."""
    bounds = settings.TALLYBOARD
    return ConnectionCounts(bounds.sockets, bounds.sockets_per_session, bounds.sockets_per_user)


@lru_cache(maxsize=1)
def rates() -> Rates:
    """Return what users send in this process. All boards of a user may open at once."""
    return Rates(MOST_MESSAGES, FIRST_MESSAGES * settings.TALLYBOARD.sockets_per_user)


class BoardConsumer(AsyncWebsocketConsumer):
    """One socket. Its flushing task runs along with the handling of what the browser says."""

    open_sockets = 0
    place: list[Any] | None = None
    subscription: SocketSubscription | None = None
    task: asyncio.Task[None] | None = None
    refused = False

    # ---- coming and going ----

    async def connect(self) -> None:
        """Accept, then close with a named reason for those to whom the board is not open."""
        await self.accept()
        try:
            await self._admit()
        except Closing as closing:
            await self._close(closing)
            return
        self._begin()

    async def _admit(self) -> None:
        headers = dict(self.scope["headers"])
        origin, host = headers.get(b"origin", b"").decode("latin1"), headers.get(b"host", b"")
        if urlsplit(origin).netloc != host.decode("latin1"):
            raise Closing(WRONG_ORIGIN, "the page is of another origin")
        self._take_place()
        await self._check_user(anew=True)
        if self.scope["url_route"]["kwargs"]["scenario"] not in scenarios():
            raise Closing(NO_SCENARIO, "there is no such scenario")

    def _take_place(self) -> None:
        """Reserve a place before anything is looked up. Raises Closing.

        Whoever has no session is refused further on.
        """
        key = getattr(self.scope.get("session"), "session_key", None)
        if key:
            try:
                self.place = places().take(key, self.scope["user"].pk)
            except NoRoom as full:
                LIMITED.labels("boards").inc()
                raise Closing(FULL, str(full)) from None

    def _begin(self) -> None:
        BoardConsumer.open_sockets += 1
        self.scenario = scenarios()[self.scope["url_route"]["kwargs"]["scenario"]]
        self.asked = asyncio.Event()
        self.number = 0
        self.changed = asyncio.Event()
        self.acked = asyncio.Event()
        self.acked.set()
        self.seq = 0
        self.sent = 0
        self.problem = NO_PROBLEM
        self.due_at = 0.0
        self.asked_at = 0.0
        wakeups = wakeups_of(asyncio.get_running_loop())
        self.subscription = SocketSubscription(
            self.scenario.name, partial(wakeups.set, self.changed)
        )
        live_view().subscribe(self.subscription)
        self.task = asyncio.create_task(self._guarded())

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the framework's form
        """Forget the socket."""
        if self.place is not None:
            places().give_back(self.place)
            self.place = None
        if self.subscription is not None:
            live_view().unsubscribe(self.subscription)
            self.subscription = None
            BoardConsumer.open_sockets -= 1
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()

    async def _close(self, closing: Closing) -> None:
        # The server under us sends no reason with the code, so it goes before it.
        body = {"type": "closing", "code": closing.code, "reason": closing.reason}
        await self.send(msgspec.json.encode(body).decode())
        await self.close(closing.code)

    # ---- what the browser says ----

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Handle an event.

        What a browser says is handled at once: Channels would first have a thread look for old
        connections to the database, though those of our reading threads are to stay open.
        """
        if message["type"] == "websocket.receive":
            await self.websocket_receive(message)
        else:
            await super().dispatch(message)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle one message; anything that is none closes the socket, and so does too much."""
        if self.subscription is None or self.refused:
            return
        try:
            await self._take(text_data, bytes_data)
        except Closing as closing:
            self.refused = True  # what was sent behind it is not looked at
            await self._close(closing)

    async def _take(self, text: str | None, data: bytes | None) -> None:
        assert self.subscription is not None
        if text is None or data:
            raise Closing(BAD_MESSAGE, "expected text, got bytes")
        if len(text) > MAX_MESSAGE:
            raise Closing(BAD_MESSAGE, f"expected at most {MAX_MESSAGE} characters")
        ask = _decode(text)
        if ask.type == "ack" and ask.seq == self.seq and not self.acked.is_set():
            self.acked.set()
            return
        self._count()
        if ask.type == "ack":
            return
        if ask.type == "alarm":
            states = _requested_filter(ask).states
            live_view().set_alarm(
                self.subscription, AlarmStates(states, ask.any) if states else None
            )
            return
        if ask.type == "filter":
            await self._refilter(self.subscription, ask)
        else:
            live_view().restart(self.subscription)
        self.asked_at = time.monotonic()
        self.asked.set()
        self.changed.set()

    def _count(self) -> None:
        """Count a message of the user. Raises Closing for too many."""
        try:
            rates().take(self.scope["user"].pk)
        except TooFast as why:
            LIMITED.labels("messages").inc()
            raise Closing(FULL, str(why)) from None

    async def _refilter(self, subscription: SocketSubscription, ask: Ask) -> None:
        """Show what is requested.

        For a text that is no filter send why, and keep the former filter.
        """
        page_filter = _requested_filter(ask)
        if page_filter.after is None:
            page_filter = replace(page_filter, ranking=ranking_of(self.scenario, ask.sort))
        try:
            page_filter = await read_in_thread(
                partial(_filtered, self.scenario, ask.q, page_filter)
            )
        except FilterError as error:
            before = subscription.filter
            page_filter = replace(page_filter, q=before.q, terms=before.terms, now=before.now)
            await self._send_problem(problem_of(error))
        else:
            await self._send_problem(NO_PROBLEM)
        if self.subscription is not None:
            live_view().refilter(subscription, page_filter)
            if ask.number != self.number:
                self.number = ask.number
                live_view().restart(subscription)

    # ---- what the browser is told ----

    async def _send_problem(self, problem: FilterProblem) -> None:
        """Send what is wrong with the filter, or that nothing is, unless that was sent last."""
        if problem != self.problem:
            self.problem = problem
            await self.send(msgspec.json.encode({"type": "problem", **problem}).decode())

    async def _guarded(self) -> None:
        try:
            await self._serve_through_faults()
        except Closing as closing:
            await self._close(closing)
        except asyncio.CancelledError:
            raise
        except Disconnected:
            pass  # the browser left while it was being told something
        except Exception:
            log.exception("a board's socket failed", scenario=self.scenario.name)
            await self.close(1011)

    async def _serve_through_faults(self) -> None:
        """Serve; wait for a database that is locked or away, then read the board again."""
        while self.subscription is not None:
            try:
                await self._serve()
            except DatabaseError as error:
                log.warning("the database does not answer a board", error=str(error))
                live_view().restart(self.subscription)
                self.changed.set()
                await asyncio.sleep(DATABASE_PAUSE_S)

    async def _serve(self) -> None:
        checked = beaten = snapshot_at = 0.0
        while (subscription := self.subscription) is not None:
            now = time.monotonic()
            self._check_behind(now)
            if now - checked > max(CHECK_S, BoardConsumer.open_sockets / MOST_CHECKS):
                await self._check_user(anew=False)
                checked = now
            if now - beaten > BEAT_S:
                await self._beat()
                beaten = now
            if now - snapshot_at > self._renewed_after(subscription):
                live_view().restart(subscription)
                self.changed.set()
            if not await self._something_changed():
                continue
            hurried = self.asked_at >= snapshot_at
            if subscription.stale and (hurried or now - snapshot_at > SNAPSHOT_S):
                snapshot_at = time.monotonic()
                await self._snapshot(subscription)
            elif not subscription.stale:
                await self._changes(subscription)
            await self._rest(subscription)
            if subscription.stale:
                self.changed.set()

    async def _rest(self, subscription: SocketSubscription) -> None:
        """Pause, so that sockets of one page are sent changes together and others in between."""
        page = (self.scenario.name, subscription.filter.page())
        await turns().wait(page, pause_s(BoardConsumer.open_sockets))

    def _renewed_after(self, subscription: SocketSubscription) -> float:
        """Return how old a snapshot may be that changes alone do not keep right, s."""
        recounted = max(RECOUNT_S, BoardConsumer.open_sockets / MOST_RECOUNTS)
        seconds = recounted if subscription.miscounted else math.inf
        return min(seconds, RENEW_S) if subscription.filter.timed else seconds

    async def _something_changed(self) -> bool:
        """Return whether there may be something to send.

        Before the browser has sent its request there is not: what it shows is not known until then.
        """
        if not (self.asked.is_set() and self.changed.is_set()):
            try:
                async with asyncio.timeout(BEAT_S / 2):
                    await self.asked.wait()
                    await self.changed.wait()
            except TimeoutError:
                return False
        self.changed.clear()
        return True

    async def _snapshot(self, subscription: SocketSubscription) -> None:
        view = live_view()
        view.begin(subscription)
        page_filter, number = subscription.filter, self.number  # others may be asked for meanwhile
        snapshot = await shared_reads().snapshot(self.scenario, page_filter)
        view.settle(subscription, snapshot.rows, snapshot.last, snapshot.offsets, snapshot.stopped)
        await self._ask_to_acknowledge()
        await self.send(snapshot.message(now=now_ms(), seq=self.seq, answers=number).decode())
        self.sent = ASK_EVERY - 1  # nothing more until it is acknowledged

    async def _changes(self, subscription: SocketSubscription) -> None:
        if self.sent % ASK_EVERY == ASK_EVERY - 1:
            await self._acknowledged()
        changes = live_view().take(subscription)
        if not changes:
            return
        rest = plain_changes(changes)
        self.sent += 1
        if self.sent % ASK_EVERY == 0 or len(rest) > LARGE:
            await self._ask_to_acknowledge()
            rest = numbered(self.seq, rest)
        await self.send(rest.decode())

    async def _ask_to_acknowledge(self) -> None:
        """Require an acknowledgement of what goes out next, once the last one has come."""
        await self._acknowledged()
        self.seq += 1
        self.due_at = time.monotonic() + BEHIND_S
        self.acked.clear()

    async def _acknowledged(self) -> None:
        try:
            async with asyncio.timeout(max(0, self.due_at - time.monotonic())):
                await self.acked.wait()
        except TimeoutError:
            self._check_behind(time.monotonic())

    def _check_behind(self, now: float) -> None:
        if now >= self.due_at and not self.acked.is_set():
            raise Closing(TOO_SLOW, f"no acknowledgement within {BEHIND_S:g} s")

    async def _beat(self) -> None:
        await self.send(beats().message(self.scenario.name, now_ms()).decode())

    async def _check_user(self, *, anew: bool) -> None:
        session = self.scope.get("session")
        stands = await admissions().of(getattr(session, "session_key", None), anew=anew)
        if stands == "anonymous":
            raise Closing(LOGIN_NEEDED, "the session has ended: log in again")
        if stands == "no role":
            raise Closing(NO_ROLE, "this user has no role that may read")


def pause_s(sockets: int) -> float:
    """Return the pause between two messages with changes to a socket, s, by the number of
    sockets."""
    return max(FLUSH_S, sockets / MOST_FLUSHES)


def _decode(text: str) -> Ask:
    try:
        ask = msgspec.json.decode(text, type=Ask)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Closing(BAD_MESSAGE, f"expected a message of this protocol: {error}") from None
    if ask.type not in ("filter", "alarm", "ack", "resync"):
        raise Closing(BAD_MESSAGE, "type: expected filter, alarm, ack or resync")
    return ask


def _requested_filter(ask: Ask) -> PageFilter:
    """Return what is requested, but for its text. Raises Closing for what no page requests."""
    names = [*ask.states, ask.watch or ""]
    if len(ask.after or "") > MAX_TOKEN:
        raise Closing(BAD_MESSAGE, f"after: expected at most {MAX_TOKEN} characters")
    if len(ask.q) > MOST_TYPED:
        raise Closing(BAD_MESSAGE, f"q: expected at most {MOST_TYPED} characters")
    if len(ask.states) > MAX_STATES or any(len(name) > MAX_NAME for name in names):
        raise Closing(BAD_MESSAGE, f"states: expected at most {MAX_STATES}, {MAX_NAME} long")
    states = readable(state for state in ask.states if len(state) <= MAX_STATE)
    return PageFilter(states, "", ask.rows, ask.watch, order_of_token(ask.after or ""))


def _filtered(scenario: Scenario, text: str, page_filter: PageFilter) -> PageFilter:
    """Return what is requested, with its text. Raises FilterError."""
    rest = {name: getattr(page_filter, name) for name in ("rows", "watch", "after", "ranking")}
    return shown(scenario, page_filter.states, text, now_ms(), **rest)


# ---- routing -------------------------------------------------------------------------------------
# Websocket addresses.

websocket_urlpatterns = [path("ws/board/<str:scenario>/", BoardConsumer.as_asgi())]


class Nowhere(AsyncWebsocketConsumer):
    """Every other address: refused (403) before there is a socket, whoever requests it."""

    async def connect(self) -> None:
        """Refuse the connection."""
        await self.close()


def metrics() -> Iterator[MetricFamily]:
    """Yield how many sockets are open."""
    yield SOCKETS.family([((), BoardConsumer.open_sockets)])
