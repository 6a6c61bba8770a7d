"""A table in Redis: the cache shared by all, or a store server's share outside its process.

What belongs together changes in one script on the Redis server. An asset is replaced only by a
higher version, and the position moves along with what was read, and only from its expected value.
Two writers therefore do no harm, and a Redis that has lost everything is filled again from the
beginning.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import msgspec
import redis

from stores.base import Change, Displaced, KeptAsset, Unreachable
from stores.transformation import Transformation

FORMAT = 1
"""Incremented when the transformation or the keys change; the older keys are left to expire."""
KEPT_S = 6 * 86_400
"""Keys not renewed for this long may lack tombstones that the log has since dropped, so they
expire. The place expires first, so that the remaining keys are not mistaken for a complete table.
"""
PORTION = 1_000
_VERSION = 40
"""Length of a sortable version, which begins each value."""

# KEYS: values, names of active assets, times of purges, place. ARGV: the position before and after,
# seconds to keep, then four for each change: name, value (its version first), active, purged at.
_APPLY = f"""
if redis.call('HGET', KEYS[4], 'position') ~= ARGV[1] then return 0 end
for i = 4, #ARGV, 4 do
  local name, value = ARGV[i], ARGV[i + 1]
  local kept = redis.call('HGET', KEYS[1], name)
  if not kept or string.sub(kept, 1, {_VERSION}) < string.sub(value, 1, {_VERSION}) then
    redis.call('HSET', KEYS[1], name, value)
    if ARGV[i + 2] == '1' then redis.call('ZADD', KEYS[2], 0, name)
    else redis.call('ZREM', KEYS[2], name) end
    if ARGV[i + 3] == '' then redis.call('ZREM', KEYS[3], name)
    else redis.call('ZADD', KEYS[3], ARGV[i + 3], name) end
  end
end
redis.call('HSET', KEYS[4], 'position', ARGV[2])
redis.call('EXPIRE', KEYS[4], ARGV[3])
for i = 1, 3 do redis.call('EXPIRE', KEYS[i], ARGV[3] + 3600) end
return 1
"""
# Without a known place, nothing that is left may count: it may lack tombstones.
_BEGIN = """
if redis.call('HEXISTS', KEYS[4], 'position') == 0 then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
  redis.call('HSET', KEYS[4], 'position', ARGV[1])
end
"""
# Nothing is recorded of a partition whose place was lost meanwhile.
_RECORD = """
if redis.call('HEXISTS', KEYS[1], 'position') == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
"""
_RENEW = """
redis.call('EXPIRE', KEYS[4], ARGV[1])
for i = 1, 3 do redis.call('EXPIRE', KEYS[i], ARGV[1] + 3600) end
"""
_PRUNE = """
local names = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[1], 'LIMIT', 0, 5000)
for _, name in ipairs(names) do
  redis.call('HDEL', KEYS[1], name)
  redis.call('ZREM', KEYS[3], name)
end
return #names
"""
_encode = msgspec.json.Encoder().encode

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def _reached() -> Iterator[None]:
    """Raise Unreachable for any Redis error."""
    try:
        yield
    except redis.RedisError as error:
        raise Unreachable(f"Redis does not answer: {error}") from error


def _reaching(method: Callable[P, R]) -> Callable[P, R]:
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with _reached():
            return method(*args, **kwargs)

    call.__doc__ = method.__doc__
    return call


class RedisTable:
    """Assets of a scenario under a Redis key prefix.

    Each method raises Unreachable. Can be shared among threads.
    """

    def __init__(self, url: str, prefix: str, partitions: int, kept: Transformation) -> None:
        """partitions: their number; url: such as `redis://host:port/number`."""
        options: dict[str, Any] = {"socket_timeout": 2, "socket_connect_timeout": 2}
        with _reached():
            self._redis = redis.Redis.from_url(url, **options)
        self._prefix, self._partitions = f"{prefix}{kept.scenario}.{FORMAT}", partitions
        self._decode = msgspec.json.Decoder(kept.kept).decode
        self._apply = self._redis.register_script(_APPLY)
        self._begin = self._redis.register_script(_BEGIN)
        self._prune = self._redis.register_script(_PRUNE)
        self._renew = self._redis.register_script(_RENEW)
        self._record = self._redis.register_script(_RECORD)

    @property
    def instance(self) -> str:
        """The address of Redis, without the user."""
        place = self._redis.connection_pool.connection_kwargs
        return str(place.get("path") or f"{place.get('host')}:{place.get('port')}")

    @_reaching
    def apply(self, partition: int, changes: Sequence[Change], start: int, position: int) -> None:
        """Apply changes read from `start`. Raises Displaced if the table is not at `start`."""
        portions = [changes[i : i + PORTION] for i in range(0, len(changes), PORTION)] or [()]
        for number, portion in enumerate(portions, 1):
            # Between portions the position stays: applying a change twice has no effect.
            after = position if number == len(portions) else start
            given: list[Any] = [start, after, KEPT_S]
            for change in portion:
                given += _arguments(change)
            if not self._apply(keys=self._keys(partition), args=given):
                raise Displaced

    @_reaching
    def begin(self, partition: int, position: int) -> None:
        """Set the position of a partition that is not known yet."""
        self._begin(keys=self._keys(partition), args=[position])

    @_reaching
    def get(self, partition: int, key: str) -> KeptAsset | None:
        """Return an asset, or None."""
        return self._asset(self._redis.hget(self._keys(partition)[0], key))

    @_reaching
    def read(self, partition: int, key: str) -> tuple[bool, KeptAsset | None, int | None]:
        """Return whether the asset's partition is level with the log, the asset, and the as-of
        time.

        The as-of time is when the partition last had everything in the log, Unix ms.
        """
        values, _, _, place = self._keys(partition)
        with self._redis.pipeline() as pipeline:
            pipeline.hmget(place, "level", "as_of")
            pipeline.hget(values, key)
            (level, as_of), value = pipeline.execute()
        return level == b"1", self._asset(value), None if as_of is None else int(as_of)

    @_reaching
    def active(self, partitions: Collection[int], after: str, limit: int) -> list[KeptAsset]:
        """Return the first `limit` active assets after `after`, by name."""
        shares = [self._share(partition, after, limit) for partition in partitions]
        return list(heapq.merge(*shares, key=lambda asset: asset.name))[:limit]

    def _share(self, partition: int, after: str, limit: int) -> list[KeptAsset]:
        values, active, *_ = self._keys(partition)
        start = f"({after}" if after else "-"
        names: Any = self._redis.zrangebylex(active, start, "+", 0, limit)
        encoded: Any = self._redis.hmget(values, names) if names else []
        return [asset for value in encoded if (asset := self._asset(value))]

    @_reaching
    def count(self, partitions: Collection[int]) -> int:
        """Return the number of active assets in these partitions."""
        with self._redis.pipeline(transaction=False) as pipeline:
            for partition in partitions:
                pipeline.zcard(self._keys(partition)[1])
            return sum(pipeline.execute())

    @_reaching
    def positions(self) -> dict[int, int]:
        """Return the next offset to read for each partition in the table."""
        offsets = self._places("position")
        return {at: int(value) for at, value in offsets.items()}

    @_reaching
    def log(self) -> str:
        """Return the id of the topic that the positions are of, "" where unknown."""
        value: Any = self._redis.get(f"{self._prefix}.log")
        return value.decode() if value else ""

    @_reaching
    def set_log(self, log: str) -> None:
        """Record the id of the topic."""
        self._redis.set(f"{self._prefix}.log", log)

    @_reaching
    def level(self) -> set[int]:
        """Return the partitions that have reached the end of the log."""
        return {at for at, value in self._places("level").items() if value == b"1"}

    @_reaching
    def set_level(self, partition: int, reached: bool) -> None:
        """Set whether a partition has reached the end of the log."""
        self._record(keys=self._keys(partition)[3:], args=["level", int(reached)])

    @_reaching
    def as_of(self) -> dict[int, int]:
        """Return when each partition last had everything in the log, Unix ms, where known."""
        return {at: int(value) for at, value in self._places("as_of").items()}

    @_reaching
    def set_as_of(self, partitions: Collection[int], at: int) -> None:
        """Record that these partitions had everything in the log at a time (Unix ms)."""
        with self._redis.pipeline(transaction=False) as pipeline:
            for partition in partitions:
                self._record(self._keys(partition)[3:], ["as_of", at], client=pipeline)
            pipeline.execute()

    @_reaching
    def drop(self, partition: int) -> None:
        """Forget a partition."""
        self._redis.delete(*self._keys(partition))

    @_reaching
    def prune(self, before: int) -> None:
        """Forget assets that were purged before this time (Unix ms), and renew what is kept."""
        for partition in range(self._partitions):
            keys = self._keys(partition)
            while self._prune(keys=keys, args=[before]) == 5000:
                pass
            self._renew(keys=keys, args=[KEPT_S])

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def _places(self, field: str) -> dict[int, bytes]:
        with self._redis.pipeline(transaction=False) as pipeline:
            for partition in range(self._partitions):
                pipeline.hget(self._keys(partition)[3], field)
            values = pipeline.execute()
        return {at: value for at, value in enumerate(values) if value is not None}

    def _asset(self, value: Any) -> KeptAsset | None:
        return self._decode(value[_VERSION:]) if value and len(value) > _VERSION else None

    def _keys(self, partition: int) -> list[str]:
        """Return the keys of a partition, which a Redis cluster keeps on one node."""
        own = f"{{{self._prefix}.{partition}}}"
        return [f"{own}.values", f"{own}.active", f"{own}.purged", f"{own}.place"]


def _arguments(change: Change) -> tuple[str, bytes, str, str]:
    asset = change.asset
    if asset is None:
        return (change.key, change.version.encode(), "0", str(change.at))
    value = change.version.encode() + _encode(asset)
    return (change.key, value, "1" if asset.active else "0", "")
