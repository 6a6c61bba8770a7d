"""Queries the store servers: the owner of a key, or all of them for all assets.

The servers speak HTTP, so that a redirect means the same to a client, a browser and another server.
A request carries a ticket for itself alone and no secret. An answer not signed for the caller is
rejected.
"""

from __future__ import annotations

import heapq
import hmac
import random
import secrets
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar
from urllib.parse import quote

import msgspec

from stores.base import Health, Many, NotReady, NotRun, One, StoreProblem, Unreachable, now_ms
from stores.directory import Directory, Unlisted
from stores.envelopes import AssetAnswer, AssetsAnswer, Envelopes, envelopes_of
from stores.http_client import HttpClient
from stores.proofs import FORWARDED, NONCE, SIGNATURE, TICKET, signature
from stores.tickets import ticket
from stores.transformation import Transformation
from wire.partitioner import partition_of

PATIENCE_S = 3.0
"""How long to retry for a partition that is moving before reporting that it moves."""
PAUSE_S = 0.05
TIMEOUT_S = 2.0
ANSWER_S = 5.0
"""Timeout of a whole answer; each step of it has `TIMEOUT_S`."""
MAX_ANSWER = 16 << 20
"""Largest answer, bytes: a thousand orders with long names take a third of it, and so do a thousand
records with a dozen votes each."""
HEALTH = "/_health"
"""Where a server reports its health, by scenario. No scenario's name begins like this."""
MISDIRECTED = 421
"""Status of a server's answer to a request for something it does not own."""

R = TypeVar("R")


class ServerHealth(msgspec.Struct, frozen=True):
    """A server's report on its share of a scenario.

    partitions: those it answers for; standby: those it keeps warm for others; ready: whether it
    answers for everything assigned to it; records: active assets in its partitions; lag: number of
    their records it has not read.
    """

    scenario: str
    instance: str
    address: str
    partitions: list[int]
    standby: list[int]
    ready: bool
    records: int
    lag: int | None
    keeps: str
    refused: dict[str, int]
    """Number of refused requests, by reason."""


class Fetcher(Protocol):
    """Sends a request to a server."""

    def __call__(self, address: str, path: str, expected: type[R]) -> R:
        """Return the server's answer. Raises NotReady, Unreachable."""


class OwnerStore:
    """The store servers of a scenario as one store. Can be shared among threads."""

    def __init__(
        self,
        directory: Directory,
        secret: str,
        kept: Transformation,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.directory, self._secret, self._patience_s = directory, secret, patience_s
        self._paths, self._envelopes = Paths(kept.scenario), envelopes_of(kept)
        self._http = HttpClient(TIMEOUT_S, ANSWER_S, MAX_ANSWER)
        self._pool = ThreadPoolExecutor(8, "stores")

    def get(self, key: str) -> One:
        """Return an asset from its owner. Raises StoreProblem."""
        path = self._paths.one(key)
        return self._patiently(
            lambda: _one(self._asked(self.owner(key), path, self._envelopes.one))
        )

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first active assets after `after` from all owners. Raises StoreProblem."""
        missing = set(range(self.directory.partitions()))
        answers: list[AssetsAnswer] = []

        def ask() -> None:
            problem: StoreProblem | None = None
            for partitions, answer in self._scattered(frozenset(missing), after, limit):
                if isinstance(answer, AssetsAnswer):
                    answers.append(answer)
                    missing.difference_update(partitions)
                else:
                    problem = answer
            if missing:
                raise problem or NotReady(f"Nobody answers for {_named(missing)} just now.")

        self._patiently(ask)
        return _gathered(answers, limit)

    def count(self) -> int:
        """Return the number of active assets. Raises StoreProblem."""
        return self.all(limit=1).total

    def health(self) -> Health:
        """Return the joint health of the servers."""
        try:
            servers = [each for each in self.servers() if isinstance(each, ServerHealth)]
            missing = set(range(self.directory.partitions()))
        except StoreProblem as problem:
            return Health("", False, 0, None, str(problem))
        missing.difference_update(*(each.partitions for each in servers))
        lags = [each.lag for each in servers]
        return Health(
            instance=", ".join(each.address for each in servers),
            ready=not missing,
            records=sum(each.records for each in servers),
            lag=None if missing or None in lags else sum(lag or 0 for lag in lags),
            detail=f"Nobody answers for {_named(missing)} just now." if missing else "",
        )

    def owner(self, key: str) -> str:
        """Return the address of a key's owner. Raises StoreProblem."""
        partition = partition_of(key.encode(), self.directory.partitions())
        address = self.directory.owners().get(partition)
        if address is None:
            raise NotReady(f"Nobody owns {_named([partition])} just now.")
        return address

    def redirection(self, key: str) -> str:
        """Return the URL at which a key's owner answers this request for a short time.

        The owner has just answered for itself, so nobody is sent to a program that now uses its
        address. Raises StoreProblem.
        """

        def ask() -> str:
            owner = self.owner(key)
            self._asked(owner, self._paths.health, ServerHealth)
            return owner

        address, path = self._patiently(ask), self._paths.one(key)
        return f"http://{address}{path}?ticket={ticket(self._secret, address, path, now_ms())}"

    # ---- single servers ----

    def servers(self) -> list[ServerHealth | Unreachable]:
        """Return each server's report, or why there is none. Raises StoreProblem."""
        return list(self._pool.map(self._health, (s.address for s in self.directory.servers())))

    def alone(self, address: str = "") -> LocalStore:
        """Return one server as if there were no others; any server if no address is given.

        Raises NotRun, Unreachable.
        """
        known = [each.address for each in self.directory.servers()]
        if not known or (address and address not in known):
            raise NotRun(f"No store server answers at {address}." if address else "None runs.")
        one = address or random.choice(known)
        return LocalStore(one, self._asked, self._paths, self._envelopes)

    def close(self) -> None:
        """Close the connections to servers."""
        self._http.close()

    def _health(self, address: str) -> ServerHealth | Unreachable:
        try:
            return self._asked(address, self._paths.health, ServerHealth)
        except StoreProblem as problem:
            return Unreachable(f"{address}: {problem}")

    def _scattered(
        self, partitions: Collection[int], after: str, limit: int
    ) -> list[tuple[list[int], AssetsAnswer | StoreProblem]]:
        """Return the answers of these partitions' owners, or why there are none."""
        by_owner: dict[str, list[int]] = {}
        for partition, address in self.directory.owners().items():
            if partition in partitions:
                by_owner.setdefault(address, []).append(partition)
        ask = partial(self._share, after=after, limit=limit)
        answers = self._pool.map(ask, by_owner, by_owner.values())
        return list(zip(by_owner.values(), answers, strict=True))

    def _share(
        self, address: str, partitions: list[int], after: str, limit: int
    ) -> AssetsAnswer | StoreProblem:
        numbers = ",".join(map(str, sorted(partitions)))
        path = self._paths.many(f"partitions={numbers}", after, limit)
        try:
            return self._asked(address, path, self._envelopes.many)
        except (NotReady, Unreachable) as problem:
            return problem

    def _asked(self, address: str, path: str, expected: type[R]) -> R:
        """Return a server's answer. Raises NotReady, Unreachable."""
        opening, nonce = ticket(self._secret, address, path, now_ms()), secrets.token_hex(16)
        headers = {TICKET: f"Ticket {opening}", NONCE: nonce, FORWARDED: "1"}
        status, answered, body = self._http.get(address, path, headers)
        computed = signature(self._secret, address, nonce, path, status, body)
        if not hmac.compare_digest(answered.get(SIGNATURE, "").encode(), computed.encode()):
            raise Unreachable(
                f"{address} answers {status} without the stores' signature: expected one made with "
                "the TALLYBOARD_STORES_SECRET of this process."
            )
        if status == 200:
            return msgspec.json.decode(body, type=expected)
        if status in (MISDIRECTED, 503):
            raise NotReady(f"{address} does not answer for this just now.")
        if status == 401:
            raise Unreachable(f"{address} takes no ticket (401): compare its clock with this one.")
        raise Unreachable(f"{address} answers {status}.")

    def _patiently(self, ask: Callable[[], R]) -> R:
        """Return the result of `ask`, retrying while partitions move.

        Raises StoreProblem when time is up, or if Kafka does not answer, which already took its
        time.
        """
        end = time.monotonic() + self._patience_s
        while True:
            try:
                return ask()
            except Unlisted:
                raise
            except (NotReady, Unreachable):
                if time.monotonic() >= end:
                    raise
            self.directory.expire()
            time.sleep(PAUSE_S)


class LocalStore:
    """One server alone, as seen by a client that knows no others."""

    def __init__(self, address: str, asked: Fetcher, paths: Paths, envelopes: Envelopes) -> None:
        self.address, self._asked = address, asked
        self._paths, self._envelopes = paths, envelopes

    def get(self, key: str) -> One:
        """Return an asset as this server alone knows it. Raises StoreProblem."""
        path = f"{self._paths.one(key)}?local=1"
        return _one(self._asked(self.address, path, self._envelopes.one))

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first active assets after `after` that this server alone has."""
        path = self._paths.many("local=1", after, limit)
        return _gathered([self._asked(self.address, path, self._envelopes.many)], limit)


class Paths:
    """The paths at which a server answers for a scenario."""

    def __init__(self, scenario: str) -> None:
        self._scenario, self.health = scenario, f"{HEALTH}/{scenario}"

    def one(self, key: str) -> str:
        """Return the path of an asset."""
        return f"/{self._scenario}/{quote(key, safe='')}"

    def many(self, whose: str, after: str, limit: int) -> str:
        """Return the path of a page of assets. whose: the parameter that selects the share."""
        return f"/{self._scenario}?{whose}&limit={limit}&after={quote(after, safe='')}"


def _one(answer: AssetAnswer) -> One:
    return One(answer.asset, answer.instance, answer.complete, answer.as_of)


def _gathered(answers: list[AssetsAnswer], limit: int) -> Many:
    lists = (answer.assets for answer in answers)
    assets = list(heapq.merge(*lists, key=lambda asset: asset.name))[:limit]
    times = [answer.as_of for answer in answers if answer.as_of is not None]
    pairs = (pair.split(":") for answer in answers for pair in answer.version.split())
    return Many(
        assets,
        sum(answer.count for answer in answers),
        {int(partition): int(position) for partition, position in pairs},
        ", ".join(sorted({answer.instance for answer in answers})),
        all(answer.complete for answer in answers),
        min(times) if times and len(times) == len(answers) else None,
    )


def _named(partitions: Collection[int]) -> str:
    return f"partition {', '.join(map(str, sorted(partitions)))}"
