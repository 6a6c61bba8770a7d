"""The figures of a summary, counted minute by minute from the records of a states topic.

It knows nothing of the product: records are JSON, a clock is the standard library's. All times of
the histories that it counts are whole minutes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import pairwise
from operator import itemgetter
from zoneinfo import ZoneInfo

MINUTE = 60_000
CLASSES = ("good", "bad", "unconfirmed", "maintenance")
Good = Callable[[int, str], bool]
"""Whether a state is good by the rule of a time."""
Spans = Sequence[tuple[int, int]]


@dataclass
class Condition:
    """What a record says. kind: of the time from then on, None while the asset is absent."""

    at: int
    state: str
    unconfirmed: bool
    pending: str
    kind: str | None


@dataclass
class LongIncident:
    """An unbroken time in bad states."""

    asset: str
    begin: int
    end: int | None = None


@dataclass
class Counted:
    """What a time adds up to; all by asset where nothing else is said."""

    times: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    days: Counter[date] = field(default_factory=Counter)
    slots: Counter[tuple[int, int]] = field(default_factory=Counter)
    false_alarms: int = 0

    def total(self, assets: Iterable[str] | None = None) -> tuple[int, ...]:
        """Return the time of each class of all assets, or of some."""
        chosen = self.times.keys() if assets is None else assets
        return tuple(sum(self.times[asset][kind] for asset in chosen) for kind in CLASSES)


def read(key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> tuple[str, dict]:
    """Return the asset and what its record says."""
    if value is None:
        return key.decode(), {"state": "", "cause": json.loads(headers["cause"])}
    return key.decode(), json.loads(value)


class History:
    """The history that records tell, in their order. ranks: states, the worst first."""

    def __init__(self, records: Iterable[tuple[str, dict]], ranks: Sequence[str], good: Good):
        self.ranks, self.good = ranks, good
        self.conditions: dict[str, list[Condition]] = defaultdict(list)
        self.incidents: list[LongIncident] = []
        self.false_alarms: list[int] = []
        self._open: dict[str, LongIncident] = {}
        self._counts: dict[str, Counted] = {}
        for asset, record in records:
            self._take(asset, record)

    def _take(self, asset: str, record: dict) -> None:
        past = self.conditions[asset]
        last = past[-1] if past else Condition(0, "", False, "", None)
        at, state = record["cause"]["time"], record["state"]
        unconfirmed = bool(record.get("unconfirmed"))
        waits = record.get("pending") or {}
        pending = waits.get("state", "")
        if state and pending and not self._worse(pending, state):
            pending = ""
        kind = last.kind
        if (state, unconfirmed) != (last.state, last.unconfirmed):
            kind = self._kind(at, state, unconfirmed)
        if last.pending and not pending and (not state or self._worse(last.pending, state)):
            self.false_alarms.append(at)
        if state != last.state:
            self._change(asset, at, last.state, state)
        past.append(Condition(at, state, unconfirmed, pending, kind))

    def _worse(self, one: str, other: str) -> bool:
        return self.ranks.index(one) < self.ranks.index(other)

    def _kind(self, at: int, state: str, unconfirmed: bool) -> str | None:
        if not state:
            return None
        if unconfirmed:
            return "unconfirmed"
        return "good" if self.good(at, state) else "bad"

    def _change(self, asset: str, at: int, before: str, after: str) -> None:
        was, is_now = (bool(state) and not self.good(at, state) for state in (before, after))
        running = self._open.get(asset)
        if running and not (was and is_now):
            running.end = at
            del self._open[asset]
        if is_now and asset not in self._open:
            self._open[asset] = attack = LongIncident(asset, at)
            self.incidents.append(attack)

    # ---- counting -------------------------------------------------------------------------------

    def count(
        self,
        begin: int,
        end: int,
        zone: str,
        windows: Mapping[str, Spans],
        service: Sequence[Sequence[int]] | None = None,
        gaps: Spans = (),
    ) -> Counted:
        """Count the minutes of a time. windows: of maintenance, by asset; service: by weekday the
        hours that count; gaps: what was not observed."""
        asked = repr((begin, end, zone, windows, service, gaps))
        if asked not in self._counts:
            self._counts[asked] = self._count(begin, end, zone, windows, service, gaps)
        return self._counts[asked]

    def _count(
        self,
        begin: int,
        end: int,
        zone: str,
        windows: Mapping[str, Spans],
        service: Sequence[Sequence[int]] | None,
        gaps: Spans,
    ) -> Counted:
        counted, where = Counted(), ZoneInfo(zone)
        clock = [datetime.fromtimestamp(at / 1000, where) for at in range(begin, end, MINUTE)]
        for asset in self.conditions:
            for minute, kind in zip(clock, self._minutes(asset, begin, end, windows), strict=True):
                at = int(minute.timestamp() * 1000)
                if kind is None or any(low <= at < high for low, high in gaps):
                    continue
                if service is not None and minute.hour not in service[minute.weekday()]:
                    continue
                counted.times[asset][kind] += MINUTE
                if kind == "bad":
                    counted.days[minute.date()] += MINUTE
                    counted.slots[minute.weekday(), minute.hour] += MINUTE
        counted.false_alarms = sum(begin <= at < end for at in self.false_alarms)
        return counted

    def _minutes(
        self, asset: str, begin: int, end: int, windows: Mapping[str, Spans]
    ) -> Iterator[str | None]:
        conditions, n, kind = self.conditions[asset], 0, None
        for at in range(begin, end, MINUTE):
            while n < len(conditions) and conditions[n].at <= at:
                kind = conditions[n].kind
                n += 1
            shut = any(low <= at < high for low, high in windows.get(asset, ()))
            yield "maintenance" if kind and shut else kind

    def during(self, begin: int, end: int) -> list[LongIncident]:
        """Return the incidents that overlap a time."""
        lasting = (each for each in self.incidents if each.end is None or each.end > each.begin)
        return [each for each in lasting if each.begin < end and (each.end or end) > begin]

    def flapping(self, begin: int, end: int) -> int:
        """Return how many incidents began in a time within 15 minutes after the asset's last."""
        number = 0
        for each in self.incidents:
            ends = [
                other.end
                for other in self.incidents
                if other.asset == each.asset and other.end is not None and other.begin < each.begin
            ]
            number += (
                begin <= each.begin < end and bool(ends) and each.begin - max(ends) < 15 * MINUTE
            )
        return number


def spread(delays: Sequence[int]) -> tuple[int, int | None, int | None, int | None]:
    """Return count, mean, and by nearest rank 95th percentile and median."""
    if not delays:
        return 0, None, None, None
    p95, median = (
        next(each for each in sorted(delays) if share(each, delays) >= part) for part in (95, 50)
    )
    return len(delays), round(sum(delays) / len(delays)), p95, median


def share(most: int, delays: Sequence[int]) -> float:
    """Return how many of 100 delays are no longer than this."""
    return 100 * sum(each <= most for each in delays) / len(delays)


# ---- to the millisecond -----------------------------------------------------------------------


@dataclass
class Life:
    """What happened to an asset, in spans of Unix ms. impaired: begin, end, and whether it was
    unconfirmed; acknowledged: by the begin of an incident."""

    there: list[tuple[int, int]] = field(default_factory=list)
    impaired: list[tuple[int, int, bool]] = field(default_factory=list)
    incidents: list[tuple[int, int | None]] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)
    false_alarms: list[int] = field(default_factory=list)

    def kinds(
        self,
        period: tuple[int, int],
        windows: Spans = (),
        gaps: Spans = (),
        hours: tuple[str, Sequence[Sequence[int]]] | None = None,
    ) -> Counter[str]:
        """Return how long it was of each kind in a period. hours: a zone, and by weekday the hours
        that count."""
        begin, end = period
        edges = [at for spans in (self.there, windows, gaps) for span in spans for at in span]
        edges += [at for low, high, _ in self.impaired for at in (low, high)]
        if hours:  # in every zone of today an hour begins at a quarter of an hour
            edges += range(begin - begin % (15 * MINUTE), end, 15 * MINUTE)
        cuts = sorted({begin, end, *(at for at in edges if begin < at < end)})
        kinds: Counter[str] = Counter()
        for low, high in pairwise(cuts):
            if hours and not _in_hours(low, *hours):
                continue
            kinds[self._kind(low, windows, gaps)] += high - low
        return kinds

    def _kind(self, at: int, windows: Spans, gaps: Spans) -> str:
        if not _within(at, self.there) or _within(at, gaps):
            return ""
        if _within(at, windows):
            return "maintenance"
        for low, high, unconfirmed in self.impaired:
            if low <= at < high:
                return "unconfirmed" if unconfirmed else "bad"
        return "good"


def _within(at: int, spans: Spans) -> bool:
    return any(low <= at < high for low, high in spans)


def _in_hours(at: int, zone: str, hours: Sequence[Sequence[int]]) -> bool:
    local = datetime.fromtimestamp(at // 1000, ZoneInfo(zone))
    return local.hour in hours[local.weekday()]


def unbroken(incidents: Iterable[tuple[int, int | None]]) -> int:
    """Return the number of unbroken times within which at least one of the incidents goes on."""
    number, reach = 0, float("-inf")
    for begin, end in sorted(incidents, key=itemgetter(0)):
        number += begin > reach
        reach = max(reach, float("inf") if end is None else end)
    return number
