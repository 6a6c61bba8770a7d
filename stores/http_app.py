"""The HTTP interface of a store server, for other servers, the web process and redirected clients.

Each request needs a ticket. Answers to requests with a nonce are signed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from domain.names import MAX_NAME, name_ok
from stores.base import Many, NotRun, One, StoreProblem, now_ms
from stores.envelopes import answer_many, answer_one
from stores.owner_store import HEALTH, MISDIRECTED
from stores.proofs import FORWARDED, NONCE, SIGNATURE, TICKET, signature
from stores.server import NotOwner, StoreServer
from stores.tickets import opens

VIA = "owner"
MAX_PAGE = 1000
RETRY_S = 1


class RequestRefused(Exception):
    """A request that is refused: its status, its reason, and what was expected."""

    def __init__(self, status: int, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.reason = status, reason


class StoreApp:
    """The operations of one process: a server for each of its scenarios, all at one address."""

    def __init__(self, servers: Mapping[str, StoreServer], address: str, secret: str) -> None:
        """servers: by scenario."""
        self._servers, self._address, self._secret = servers, address, secret
        self._refusals: Counter[str] = Counter()

    def application(self) -> Starlette:
        """Return the operations as an ASGI application.

        Each request runs in a thread, because it reads files and asks other servers.
        """
        routes = {
            f"{HEALTH}/{{scenario}}": self._health,
            "/{scenario}/{asset:path}": self._one,
            "/{scenario}": self._many,
        }
        return Starlette(
            routes=[Route(path, self._safe(do)) for path, do in routes.items()],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _application: Starlette) -> AsyncIterator[None]:
        """Leave the groups once no more requests are being answered."""
        yield
        for server in self._servers.values():
            await asyncio.to_thread(server.stop)

    def _safe(self, operation: Callable[[Request], Response]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            return self._signed(request, outcome(request))

        def outcome(request: Request) -> Response:
            try:
                self._admit(request)
                return operation(request)
            except RequestRefused as refusal:
                return self._refused(refusal.status, refusal.reason, str(refusal))
            except NotOwner as problem:
                return self._refused(MISDIRECTED, problem.reason, str(problem))
            except NotRun as problem:
                return self._refused(404, problem.reason, str(problem))
            except StoreProblem as problem:
                return self._refused(503, problem.reason, str(problem))

        return answer

    def _admit(self, request: Request) -> None:
        """Raise RequestRefused for a request without a valid ticket."""
        target, ticket = _target(request)
        if not opens(ticket, self._secret, self._address, target, now_ms()):
            raise RequestRefused(
                401, "not-authenticated", "a ticket in force for this path and query"
            )

    def _signed(self, request: Request, answer: Response) -> Response:
        """Return an answer, signed if the request has a nonce."""
        nonce = request.headers.get(NONCE, "")
        if nonce:
            parts = (nonce, _target(request)[0], answer.status_code, bytes(answer.body))
            answer.headers[SIGNATURE] = signature(self._secret, self._address, *parts)
        return answer

    def _refused(self, status: int, reason: str, detail: str) -> Response:
        self._refusals[reason] += 1
        headers = {"Retry-After": str(RETRY_S)} if status == 503 else None
        return _json({"status": status, "reason": reason, "detail": detail}, status, headers)

    def _server(self, request: Request) -> StoreServer:
        """Return the server of the scenario in the path. Raises NotRun."""
        name = request.path_params["scenario"]
        if name not in self._servers:
            raise NotRun(
                f"This server keeps {', '.join(self._servers)}: "
                f"set its TALLYBOARD_STORES_SCENARIOS to keep {name[:MAX_NAME]}."
            )
        return self._servers[name]

    def _one(self, request: Request) -> Response:
        """Return one asset: with `?local=1` only from here, with `?redirect=1` its owner's URL."""
        server, key = self._server(request), request.path_params["asset"]
        if not name_ok(key):
            raise RequestRefused(422, "invalid", "name: 1 to 255 characters, no control character")
        if request.query_params.get("redirect") == "1" and not _is_own(server, key):
            return RedirectResponse(server.others.redirection(key), 307)
        local = request.query_params.get("local") == "1"
        ask = server.local_get if local else _asker(server, request)
        return _json(answer_one(server.kept, VIA, lambda: ask(key)))

    def _many(self, request: Request) -> Response:
        """Return active assets from all servers, some partitions, or with `?local=1` only from
        here."""
        server, (after, limit) = self._server(request), _page(request)

        def ask() -> Many:
            if request.query_params.get("local") == "1":
                return server.local_all(after, limit)
            if "partitions" in request.query_params:
                return server.all(_numbers(request), after, limit)
            return server.others.all(after, limit)

        return _json(answer_many(server.kept, VIA, limit, ask))

    def _health(self, request: Request) -> Response:
        return _json(self._server(request).health(self._refusals))


def _asker(server: StoreServer, request: Request) -> Callable[[str], One]:
    """Return the function that answers: this server, or its owner if that is another, asked
    once."""
    if FORWARDED in request.headers:
        return server.get

    def ask(key: str) -> One:
        try:
            return server.get(key)
        except StoreProblem:
            return server.others.get(key)

    return ask


def _is_own(server: StoreServer, key: str) -> bool:
    try:
        server.get(key)
    except StoreProblem:
        return False
    return True


def _target(request: Request) -> tuple[str, str]:
    """Return the requested path and query, and the ticket.

    The ticket is in a header or, for a redirected client, the last parameter of the query.
    """
    path, query = (request.scope[part].decode("latin-1") for part in ("raw_path", "query_string"))
    given = request.headers.get(TICKET, "").removeprefix("Ticket ")
    if not given and "ticket=" in query:
        query, _, given = query.rpartition("ticket=")
        query = query.removesuffix("&")
    return f"{path}?{query}" if query else path, given


def _page(request: Request) -> tuple[str, int]:
    after, limit = request.query_params.get("after", ""), request.query_params.get("limit", "100")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= MAX_PAGE):
        raise RequestRefused(422, "invalid", f"limit: a number from 1 to {MAX_PAGE}")
    if len(after) > MAX_NAME:
        raise RequestRefused(422, "invalid", f"after: at most {MAX_NAME} characters")
    return after, int(limit)


def _numbers(request: Request) -> list[int]:
    parts = request.query_params["partitions"].split(",")
    if len(parts) > 10_000 or not all(p.isascii() and p.isdigit() and len(p) < 9 for p in parts):
        raise RequestRefused(422, "invalid", "partitions: numbers with commas between")
    return sorted({int(part) for part in parts})


def _json(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, headers, "application/json")
