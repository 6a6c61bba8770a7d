"""A browser's socket: a snapshot of one scenario, then changes as they come.

docs/live.md describes the messages. A socket is told nothing further until it has acknowledged
what it was told last; who stays behind is dropped.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import msgspec
import structlog
from autobahn.exception import Disconnected
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.db import DatabaseError
from django.utils.module_loading import import_string

from dashboard.accounts.roles import may
from dashboard.commands.sending import now_ms
from dashboard.job.standing import standing
from dashboard.live.process import live_view
from dashboard.live.sharing import shared_reads
from dashboard.live.view import MAX_TOKEN, Filter, Subscription, order_of_token, plain_changes
from dashboard.scenarios import scenarios
from domain.names import MAX_NAME, MAX_STATE

log = structlog.get_logger(__name__)

FLUSH_S = 0.125
"""At most one message with changes in this time, of each socket."""
MOST_FLUSHES = 1_500
"""At most so many messages with changes a second, of all sockets: more open ones wait longer."""
SNAPSHOT_S = 1.0
"""At most one snapshot in this time, unless the browser asked for something else."""
BEAT_S = 2.0
"""How often a socket is told the time and when the job was last heard."""
CHECK_S = 5.0
"""How often it is looked up whether the session still holds, at the most."""
MOST_CHECKS = 50
"""At most so many of these a second: more open sockets wait longer."""
BEHIND_S = 20.0
"""A browser that has not acknowledged for this long is dropped."""
DATABASE_PAUSE_S = 0.5
"""How long to wait before a board is read again after the database did not answer."""
MAX_MESSAGE = 8_192
"""Longest message that a browser may send, characters."""
MAX_STATES = 50
"""Most states in one filter."""
MAX_SOCKETS = 2_000
"""Most sockets of one process."""

BAD_MESSAGE, LOGIN_NEEDED, NO_ROLE, NO_SCENARIO, TOO_SLOW, WRONG_ORIGIN, FULL = (
    4400, 4401, 4403, 4404, 4408, 4409, 4429,
)  # fmt: skip


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a browser may say: `filter`, `ack` or `resync`."""

    type: str
    states: list[str] = []
    q: str = ""
    rows: bool = True
    watch: str | None = None
    after: str | None = None
    seq: int = 0


class Closing(Exception):
    """The socket is to be closed, with a code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class BoardConsumer(AsyncWebsocketConsumer):
    """One socket. Its flushing task runs beside the handling of what the browser says."""

    open_sockets = 0
    subscription: Subscription | None = None
    task: asyncio.Task[None] | None = None

    # ---- coming and going ----

    async def connect(self) -> None:
        """Accept, then close with a named reason whom this is not for."""
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
            raise Closing(WRONG_ORIGIN, "the page that asks is not one of ours")
        await self._check_user()
        if self.scope["url_route"]["kwargs"]["scenario"] not in scenarios():
            raise Closing(NO_SCENARIO, "there is no such scenario")
        if BoardConsumer.open_sockets >= MAX_SOCKETS:
            raise Closing(FULL, "this server has no room for more open boards")

    def _begin(self) -> None:
        BoardConsumer.open_sockets += 1
        loop = asyncio.get_running_loop()
        self.scenario = scenarios()[self.scope["url_route"]["kwargs"]["scenario"]]
        self.changed = asyncio.Event()
        self.acked = asyncio.Event()
        self.seq = 0
        self.asked_at = 0.0
        self.subscription = Subscription(
            self.scenario.name, lambda: loop.call_soon_threadsafe(self.changed.set)
        )
        live_view().subscribe(self.subscription)
        self.task = asyncio.create_task(self._guarded())

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the framework's form
        """Forget the socket."""
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

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take one message; anything that is none closes the socket."""
        if self.subscription is None:
            return
        try:
            self._take(text_data, bytes_data)
        except Closing as closing:
            await self._close(closing)

    def _take(self, text: str | None, data: bytes | None) -> None:
        assert self.subscription is not None
        if text is None or data:
            raise Closing(BAD_MESSAGE, "expected text, got bytes")
        if len(text) > MAX_MESSAGE:
            raise Closing(BAD_MESSAGE, f"expected at most {MAX_MESSAGE} characters")
        ask = _decode(text)
        if ask.type == "ack":
            if ask.seq == self.seq:
                self.acked.set()
            return
        if ask.type == "filter":
            live_view().refilter(self.subscription, _filter(ask))
        else:
            live_view().restart(self.subscription)
        self.asked_at = time.monotonic()
        self.changed.set()

    # ---- what the browser is told ----

    async def _guarded(self) -> None:
        try:
            async with asyncio.timeout(BEAT_S):
                await self.changed.wait()  # most browsers ask at once
        except TimeoutError:
            self.changed.set()
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
        """Serve; a database that is locked or away is waited for, then the board is read anew."""
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
        while self.subscription is not None:
            now = time.monotonic()
            if now - checked > max(CHECK_S, BoardConsumer.open_sockets / MOST_CHECKS):
                await self._check_user()
                checked = now
            if now - beaten > BEAT_S:
                await self._beat()
                beaten = now
            if not await self._something_changed():
                continue
            hurried = self.asked_at >= snapshot_at
            if self.subscription.stale and (hurried or now - snapshot_at > SNAPSHOT_S):
                snapshot_at = time.monotonic()
                await self._snapshot(self.subscription)
            elif not self.subscription.stale:
                await self._changes(self.subscription)
            await asyncio.sleep(pause_s(BoardConsumer.open_sockets))
            if self.subscription is not None and self.subscription.stale:
                self.changed.set()

    async def _something_changed(self) -> bool:
        try:
            async with asyncio.timeout(BEAT_S / 2):
                await self.changed.wait()
        except TimeoutError:
            return False
        self.changed.clear()
        return True

    async def _snapshot(self, subscription: Subscription) -> None:
        view = live_view()
        view.begin(subscription)
        found = await shared_reads().snapshot(self.scenario, subscription.filter)
        view.settle(subscription, found.rows, found.more, found.offsets)
        self.seq += 1
        await self._send_and_wait(found.message(now=now_ms(), seq=self.seq))

    async def _changes(self, subscription: Subscription) -> None:
        changes = live_view().take(subscription)
        if changes:
            self.seq += 1
            await self._send_and_wait(plain_changes(self.seq, changes))

    async def _send_and_wait(self, body: bytes) -> None:
        self.acked.clear()
        await self.send(body.decode())
        try:
            async with asyncio.timeout(BEHIND_S):
                await self.acked.wait()
        except TimeoutError:
            raise Closing(TOO_SLOW, f"no acknowledgement within {BEHIND_S:g} s") from None

    async def _beat(self) -> None:
        view = live_view()
        worst = {
            name: sum(view.counts().get(name, {}).get(spec.name, 0) for spec in known.states[:1])
            for name, known in scenarios().items()
        }
        now, known = now_ms(), list(scenarios().values())
        body = {
            "type": "beat",
            "now": now,
            "heard": view.heard,
            "worst": worst,
            "standing": standing(view.signs.facts(), known, self.scenario.name, now),
        }
        await self.send(msgspec.json.encode(body).decode())

    async def _check_user(self) -> None:
        session = self.scope.get("session")
        standing = await _standing(getattr(session, "session_key", None))
        if standing == "anonymous":
            raise Closing(LOGIN_NEEDED, "the session has ended: log in again")
        if standing == "no role":
            raise Closing(NO_ROLE, "this user has no role that may read")


def pause_s(sockets: int) -> float:
    """From one message with changes to the next of a socket, while so many are open, s."""
    return max(FLUSH_S, sockets / MOST_FLUSHES)


def _decode(text: str) -> Ask:
    try:
        ask = msgspec.json.decode(text, type=Ask)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Closing(BAD_MESSAGE, f"expected a message of this protocol: {error}") from None
    if ask.type not in ("filter", "ack", "resync"):
        raise Closing(BAD_MESSAGE, "type: expected filter, ack or resync")
    return ask


def _filter(ask: Ask) -> Filter:
    names = [*ask.states, ask.q, ask.watch or ""]
    if len(ask.after or "") > MAX_TOKEN:
        raise Closing(BAD_MESSAGE, f"after: expected at most {MAX_TOKEN} characters")
    if len(ask.states) > MAX_STATES or any(len(name) > MAX_NAME for name in names):
        raise Closing(BAD_MESSAGE, f"states, q: expected at most {MAX_STATES}, {MAX_NAME} long")
    states = frozenset(state for state in ask.states if len(state) <= MAX_STATE)
    return Filter(states, ask.q, ask.rows, ask.watch, order_of_token(ask.after or ""))


async def _standing(session_key: str | None) -> str:
    """`reader`, `no role` or `anonymous`, as the session's user stands now."""
    if not session_key:
        return "anonymous"
    store: type[SessionBase] = import_string(f"{settings.SESSION_ENGINE}.SessionStore")
    user = await get_user({"session": store(session_key)})
    if not user.is_authenticated:
        return "anonymous"
    return "reader" if await database_sync_to_async(may)(user, "read") else "no role"
