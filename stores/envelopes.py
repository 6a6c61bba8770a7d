"""The metadata around an answer: its path, its source, how old it is and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from stores.base import AssetRecord, KeptAsset, Many, One, Order, now_ms
from stores.transformation import Transformation


class AssetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One asset.

    version, age_ms: of its state record, age since the cause; took_ms: time until the answer was
    available; as_of: when the instance last had everything in the log, Unix ms, None if it cannot
    tell; complete: whether it answers for that asset, and is not behind.
    """

    via: str
    instance: str
    version: str | None
    age_ms: int | None
    took_ms: float
    as_of: int | None = None
    complete: bool
    asset: Any


class OrderAnswer(AssetAnswer, frozen=True, kw_only=True):
    """One order."""

    asset: Order | None = msgspec.field(name="order")


class RecordAnswer(AssetAnswer, frozen=True, kw_only=True):
    """One asset of another scenario."""

    asset: AssetRecord | None


class AssetsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Active assets by name.

    version: by partition, the next offset not included; age_ms: age of the newest asset; as_of: as
    in `AssetAnswer`; count: number of all active assets; following: the name after which to
    continue.
    """

    via: str
    instance: str
    version: str
    age_ms: int | None
    took_ms: float
    as_of: int | None = None
    complete: bool
    count: int
    following: str | None = msgspec.field(name="next")
    assets: Any = msgspec.field(name="items")


class OrdersAnswer(AssetsAnswer, frozen=True, kw_only=True):
    """Orders."""

    assets: list[Order] = msgspec.field(name="items")


class RecordsAnswer(AssetsAnswer, frozen=True, kw_only=True):
    """Assets of another scenario."""

    assets: list[AssetRecord] = msgspec.field(name="items")


class Envelopes(msgspec.Struct, frozen=True):
    """The envelopes for what a transformation produces: for one asset, for many."""

    one: type[AssetAnswer]
    many: type[AssetsAnswer]


_ENVELOPES = {
    Order: Envelopes(OrderAnswer, OrdersAnswer),
    AssetRecord: Envelopes(RecordAnswer, RecordsAnswer),
}


def envelopes_of(kept: Transformation) -> Envelopes:
    """Return the envelopes in which the stores of a scenario answer."""
    return _ENVELOPES[kept.kept]


def answer_one(kept: Transformation, via: str, ask: Callable[[], One]) -> AssetAnswer:
    """Return the result of `ask` in its envelope. Raises what `ask` raises."""
    begun = time.perf_counter()
    one = ask()
    asset = one.asset
    return envelopes_of(kept).one(
        via=via,
        instance=one.instance,
        version=asset.version if asset else None,
        age_ms=_age_ms([asset] if asset else []),
        took_ms=_since_ms(begun),
        as_of=one.as_of,
        complete=one.complete,
        asset=asset,
    )


def answer_many(
    kept: Transformation, via: str, limit: int, ask: Callable[[], Many]
) -> AssetsAnswer:
    """Return the result of `ask`, a page of `limit` assets, in its envelope.

    Raises what `ask` raises.
    """
    begun = time.perf_counter()
    many = ask()
    return envelopes_of(kept).many(
        via=via,
        instance=many.instance,
        version=" ".join(f"{at}:{position}" for at, position in sorted(many.positions.items())),
        age_ms=_age_ms(many.assets),
        took_ms=_since_ms(begun),
        as_of=many.as_of,
        complete=many.complete,
        count=many.total,
        following=many.assets[-1].name if 0 < limit == len(many.assets) else None,
        assets=_listed(many.assets),
    )


def _listed(assets: Sequence[KeptAsset]) -> list[KeptAsset]:
    return assets if isinstance(assets, list) else list(assets)


def _age_ms(assets: Iterable[KeptAsset]) -> int | None:
    newest = max((asset.changed_at for asset in assets), default=None)
    return None if newest is None else max(0, now_ms() - newest)


def _since_ms(begun: float) -> float:
    return round((time.perf_counter() - begun) * 1000, 3)
