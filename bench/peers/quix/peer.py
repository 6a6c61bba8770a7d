"""The fold in Quix Streams: a stateful function over RocksDB with a changelog.

Quix Streams has no timers: a vote expires when its asset's next report comes. Run by the Python of
an environment of its own, with options as `name=value`.
"""

from __future__ import annotations

import functools
import struct
import sys
import time
from typing import Any

import orjson
from quixstreams import Application, State, message_context
from quixstreams.models import TopicConfig

STATES = ("attack", "clear")
ATTACK, CLEAR, UNKNOWN = 0, 1, 255
REFRESH_MS = 30_000
LEAST_FORGET_MS = 900_000
HEAD = struct.Struct("<BBqqqI")
VOTE = struct.Struct("<Bqqqqqqq")

# agent -> [state, reported at, time, offset, expires, silent since, turned worse at, flaps until]
Votes = dict[str, list[int]]


class Asset:
    """What is remembered of one asset."""

    __slots__ = ("emitted_at", "offset", "previous", "since", "state", "step", "votes")

    def __init__(self, data: bytes | None) -> None:
        self.state = self.previous = UNKNOWN
        self.since = self.emitted_at = self.offset = self.step = 0
        self.votes: Votes = {}
        if data:
            self._read(data)

    def _read(self, data: bytes) -> None:
        head = HEAD.unpack_from(data)
        self.state, self.previous, self.since, self.emitted_at, self.offset, self.step = head
        at = HEAD.size
        while at < len(data):
            end = at + 1 + data[at]
            agent = data[at + 1 : end].decode()
            self.votes[agent] = list(VOTE.unpack_from(data, end))
            at = end + VOTE.size

    def data(self) -> bytes:
        """Return it as bytes."""
        head = (self.state, self.previous, self.since, self.emitted_at, self.offset, self.step)
        parts = [HEAD.pack(*head)]
        for agent, vote in self.votes.items():
            name = agent.encode()
            parts += (bytes((len(name),)), name, VOTE.pack(*vote))
        return b"".join(parts)

    def count(self, state: int, *, live: bool = True) -> int:
        """Return how many live, or silent, votes say `state`."""
        return sum(v[0] == state and (not v[5]) == live for v in self.votes.values())


class Fold:
    """The majority of the latest reports: see Fold.java."""

    def __init__(self, lifetime_ms: int) -> None:
        self._lifetime = lifetime_ms
        self._forget = max(3 * lifetime_ms, LEAST_FORGET_MS)

    def __call__(
        self, value: bytes, key: bytes, time_ms: int, _headers: Any, state: State
    ) -> list[tuple[bytes, str]]:
        """Apply a record; return the state records that it causes: value, and the answer's id."""
        asset, place = Asset(state.get_bytes("asset")), message_context()
        report = orjson.loads(value)
        where = (key.decode(), place.partition, place.offset)
        out = self._fire(asset, where, time_ms)
        if report["type"] == "set":
            out.append(self._answer(asset, where, report, time_ms))
        elif not self._take(asset, where, report, time_ms, out):
            return out
        state.set_bytes("asset", asset.data())
        return out

    def _answer(
        self, asset: Asset, where: tuple[str, int, int], command: dict[str, Any], now: int
    ) -> tuple[bytes, str]:
        asset.state, asset.since, asset.emitted_at = STATES.index(command["state"]), now, now
        asset.offset, asset.step = where[2], 0
        return record(asset, where, "set", now, command=command["id"]), command["id"]

    def _take(
        self,
        asset: Asset,
        where: tuple[str, int, int],
        report: dict[str, Any],
        now: int,
        out: list[tuple[bytes, str]],
    ) -> bool:
        agent, said, at = (
            report["agent"],
            STATES.index(report["state"]),
            report.get("reported_at", now),
        )
        before = asset.votes.get(agent)
        if now - at >= self._lifetime:
            return bool(out)
        if before and min(at, now) < min(before[1], before[2]):
            return bool(out)
        expires = min(at, now) + self._lifetime
        asset.votes[agent] = [said, at, now, where[2], expires, 0, *self._turns(before, said, now)]
        if before is None:
            asset.votes = dict(sorted(asset.votes.items()))
        shown = asset.state
        move(asset, said, now)
        asset.offset, asset.step = where[2], 0
        visible = before is None or before[0] != said or before[5]
        if visible or asset.state != shown or now - asset.emitted_at >= REFRESH_MS:
            asset.emitted_at = now
            out.append((record(asset, where, "report", now, agent), ""))
        return True

    def _turns(self, before: list[int] | None, said: int, now: int) -> tuple[int, int]:
        """Return when a vote turned worse last, within a lifetime, and until when it flaps."""
        if before is None:
            return 0, 0
        lately = before[6] and before[6] + self._lifetime > now
        if said < before[0]:
            return now, now + self._lifetime if lately else 0
        return (before[6], before[7]) if lately else (0, 0)

    def _fire(self, asset: Asset, where: tuple[str, int, int], now: int) -> list[tuple[bytes, str]]:
        out = []
        while (due := self._due(asset)) <= now:
            expiring = [v for v in asset.votes.values() if not v[5] and v[4] <= due]
            for vote in expiring:
                vote[5] = due
            calming = [v for v in asset.votes.values() if v[7] and v[7] <= due]
            for vote in calming:
                vote[6:] = 0, 0
            if not expiring and not calming:
                gone = [a for a, v in asset.votes.items() if v[5] and v[5] + self._forget <= due]
                for agent in gone:
                    del asset.votes[agent]
            asset.step += 1
            asset.emitted_at = due
            kind = "doubt-end" if calming else "vote-forgotten"
            kind = "vote-expiry" if expiring else kind
            out.append((record(asset, (where[0], where[1], asset.offset), kind, due), ""))
        return out

    def _due(self, asset: Asset) -> int:
        votes = asset.votes.values()
        times = [v[5] + self._forget if v[5] else v[4] for v in votes]
        times += (v[7] for v in votes if v[7])
        return min(times, default=1 << 62)


def move(asset: Asset, said: int, now: int) -> None:
    """Move the state to what the majority says."""
    attack, clear = asset.count(ATTACK), asset.count(CLEAR)
    following = asset.state
    if 2 * attack > attack + clear:
        following = ATTACK
    elif said == CLEAR and 2 * clear > attack + clear + asset.count(ATTACK, live=False):
        following = CLEAR
    if following == UNKNOWN:
        following = said
    if following != asset.state:
        asset.previous, asset.state, asset.since = asset.state, following, now


def marks(asset: Asset) -> dict[str, Any]:
    """Return the marks of a state record."""
    live = sum(not vote[5] for vote in asset.votes.values())
    reason = None
    if not live:
        reason = "0 of 1 voters"
    elif not asset.count(asset.state):
        reason = f"nobody says it is this {'bad' if asset.state == ATTACK else 'good'}"
    fields: dict[str, Any] = {"unconfirmed": reason is not None}
    if reason:
        fields["unconfirmed_reason"] = reason
    worse = any(vote[0] == ATTACK or vote[7] for vote in asset.votes.values())
    if asset.state == CLEAR and worse:
        fields["disputed"] = STATES[ATTACK]
    return fields


def record(
    asset: Asset,
    where: tuple[str, int, int],
    kind: str,
    now: int,
    agent: str | None = None,
    command: str | None = None,
) -> bytes:
    """Return a state record as the product writes it: docs/wire-format.md."""
    name, partition, offset = where
    value: bytes = orjson.dumps(
        {
            "asset": name,
            "state": STATES[asset.state],
            "previous": None if asset.previous == UNKNOWN else STATES[asset.previous],
            "since": asset.since,
            **marks(asset),
            "version": f"1.{asset.offset}.{asset.step}",
            "cause": {
                "type": kind,
                "partition": partition,
                "offset": offset,
                "time": now,
                "agent": agent,
                "user": None,
                "command": command,
            },
            "votes": [vote_json(who, vote) for who, vote in asset.votes.items()],
            "pending": None,
            "override": None,
            "answer": command and {"command": command, "outcome": "applied"},
        }
    )
    return value


def vote_json(agent: str, vote: list[int]) -> dict[str, Any]:
    """Return a vote as it is written."""
    state, reported_at, time_ms, offset, expires, silent, turned, until = vote
    flapping = {"state": STATES[ATTACK], "time": turned, "until": until}
    return {
        "agent": agent,
        "state": STATES[state],
        "reported_at": reported_at,
        "time": time_ms,
        "offset": offset,
        "expires": expires,
        "weight": 1,
        "detail": None,
        **({"silent": silent} if silent else {}),
        **({"flapping": flapping} if until else {}),
    }


def headers_of(value: tuple[bytes, str], *_: Any) -> list[tuple[str, bytes]]:
    """Return the headers of a state record."""
    return [("command", value[1].encode()), ("outcome", b"applied")] if value[1] else []


def keyed(_value: bytes, key: bytes | None, _time_ms: int, _headers: Any) -> bool:
    """Return whether a record is of an asset: no tick, and no rule. Tells once that it runs."""
    tell_running()
    return key is not None


@functools.cache
def tell_running() -> None:
    """Tell who started the program that it runs: Quix Streams says so nowhere else."""
    print(f"running {time.time() * 1000:.0f}", flush=True)


def application(options: dict[str, str]) -> Application:
    """Return the application with its settings."""
    producer = {
        "compression.type": "none",
        "linger.ms": 5,
        "batch.size": 262_144,
        "queue.buffering.max.messages": 500_000,
        "partitioner": "murmur2_random",
    }
    return Application(
        broker_address=options["bootstrap"],
        consumer_group=options["application"],
        auto_offset_reset="earliest",
        state_dir=options["state"],
        producer_extra_config=producer,
        # A process that is started again takes its place at once, not when its session has ended.
        consumer_extra_config={"group.instance.id": options["instance"]},
        auto_create_topics=True,
        loglevel="WARNING",
    )


def main() -> None:
    """Run until it is told to end."""
    options = dict(argument.split("=", 1) for argument in sys.argv[1:])
    app = application(options)
    raw = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
    source = app.topic(options["source"], config=TopicConfig(4, 1), **raw)
    sink = app.topic(options["sink"], key_serializer="bytes", value_serializer="bytes")
    frame = app.dataframe(source)
    frame = frame.filter(keyed, metadata=True)
    fold = Fold(int(options["lifetime-ms"]))
    frame = frame.apply(fold, stateful=True, metadata=True, expand=True)
    frame = frame.set_headers(headers_of)
    frame = frame.apply(lambda value: value[0])
    frame.to_topic(sink)
    app.run()


if __name__ == "__main__":
    main()
