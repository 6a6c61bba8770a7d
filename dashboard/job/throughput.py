"""The speed of each bucket: its rate, the trend of its lag, when it will have caught up.

Pure: heartbeats and lags are passed in, with their times. Times in Unix ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeVar

from dashboard.core.times import MINUTE_MS
from dashboard.job.freshness import LATE_MS, SILENT_MS
from wire.job import AHEAD_MS, Heartbeat

K = TypeVar("K")
Trend = Literal["rising", "steady", "falling"]
Sign = Literal["unknown", "silent", "ahead", "behind", "hot", "idle", "well"]

# Heartbeats, and lags, that are remembered of one bucket: somewhat over two minutes.
KEPT = 150
# A rate is that of so long until now.
RATE_MS = 10_000
# Load, and thereby skew and idleness, is that of so long until now.
LOAD_MS = MINUTE_MS
# A trend is that of so long until now.
TREND_MS = 20_000
# Of less than this there is no trend yet.
TREND_LEAST_MS = 4_000
# Heartbeats come each second: a clock that moved less against now than this is steady.
STEADY_MS = 2_000
# So is one whose lag changed by no more than this part of it.
STEADY_PART = 0.05
# Less behind than this, there is nothing to catch up.
CAUGHT_UP_MS = 3_000
# A partition with this many times the even share of its scenario's load is hot.
HOT = 2.0
# Below so many records/s of the whole scenario no partition is.
HOT_LEAST = 1.0


class Beat(NamedTuple):
    """A heartbeat as it is kept. at: when it was appended; records: since the one before; late:
    reports among them that came too late to count."""

    at: int
    log_time: int
    records: int
    late: int = 0


class Speed(NamedTuple):
    """The speed of a bucket at one moment; what cannot be said is None.

    rate: records/s that it has applied of late; load: those of the last minute; trend: whether its
    clock falls further behind; catch_up_ms: how long until nothing is left, 0 where that is so;
    late: reports of the last minute that came too late to count.
    """

    rate: float | None = None
    load: float | None = None
    trend: Trend | None = None
    catch_up_ms: int | None = None
    late: int | None = None


class Pace:
    """The last minutes of one bucket."""

    def __init__(self) -> None:
        self._beats: deque[Beat] = deque(maxlen=KEPT)
        self._lags: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def beat(self, at: int, log_time: int, records: int, late: int = 0) -> None:
        """Record a heartbeat that was appended at `at`.

        One that is older than the newest is a replay.
        """
        if not self._beats or at > self._beats[-1].at:
            self._beats.append(Beat(at, log_time, records, late))

    def lagged(self, at: int, lag: int) -> None:
        """Record that at `at` the log held `lag` records that the bucket had not applied."""
        if not self._lags or at > self._lags[-1][0]:
            self._lags.append((at, lag))

    def speed(self, now: int) -> Speed:
        """Return the speed as of now."""
        rate, load = self._rate(now, RATE_MS), self._rate(now, LOAD_MS)
        late = sum(beat.late for beat in self._beats if beat.at > now - LOAD_MS)
        known = late if load is not None else None
        return Speed(rate, load, self._trend(now), self._catch_up_ms(now), known)

    def _rate(self, now: int, span: int) -> float | None:
        """Return records/s; None where it is silent or too new to say."""
        beats = [beat for beat in self._beats if beat.at > now - span]
        if len(beats) < 2 or now - beats[-1].at > SILENT_MS:
            return None
        passed = beats[-1].at - beats[0].at
        return 1000 * sum(beat.records for beat in beats[1:]) / passed

    def _trend(self, now: int) -> Trend | None:
        if self._beats and now - self._beats[-1].at > SILENT_MS:
            return "rising"  # time goes on, its clock does not
        beats = [beat for beat in self._beats if beat.at > now - TREND_MS]
        if not beats or beats[-1].at - beats[0].at < TREND_LEAST_MS:
            return None
        before, after = (beat.at - beat.log_time for beat in (beats[0], beats[-1]))
        caught_up = after <= CAUGHT_UP_MS
        if caught_up or abs(after - before) <= max(STEADY_MS, STEADY_PART * before):
            return "steady"
        return "rising" if after > before else "falling"

    def _catch_up_ms(self, now: int) -> int | None:
        """Return how long catching up takes at this pace, ms; None where it is silent or falls
        behind.

        By records where the log's end has been requested of late, else by the bucket's clock.
        """
        if not self._beats or now - self._beats[-1].at > SILENT_MS:
            return None
        if now - self._beats[-1].log_time <= CAUGHT_UP_MS:
            return 0
        lags = [lag for lag in self._lags if lag[0] > now - TREND_MS]
        behind = [(beat.at, beat.at - beat.log_time) for beat in self._beats]
        clock = [lag for lag in behind if lag[0] > now - TREND_MS]
        return _runs_out(lags) if _long_enough(lags) else _runs_out(clock)


def _long_enough(lags: list[tuple[int, int]]) -> bool:
    return bool(lags) and lags[-1][0] - lags[0][0] >= TREND_LEAST_MS


def _runs_out(lags: list[tuple[int, int]]) -> int | None:
    """Return when what is left is gone at the pace at which it shrank, ms; None if it did not."""
    if not _long_enough(lags):
        return None
    (begun, first), (ended, last) = lags[0], lags[-1]
    return round(last * (ended - begun) / (first - last)) if first > last else None


class Paces:
    """The paces of all buckets. For one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, Pace] = {}
        self.newest: dict[str, tuple[int, Heartbeat]] = {}
        """By bucket: the newest heartbeat, and when it was appended."""

    def heard(self, beat: Heartbeat, at: int) -> None:
        """Record a heartbeat that was appended at `at`."""
        known = self.newest.get(beat.bucket)
        if known is None or at >= known[0]:
            self.newest[beat.bucket] = (at, beat)
        late = beat.stale + beat.late + beat.silent
        self.of(beat.bucket).beat(at, beat.log_time, beat.records, late)

    def of(self, bucket: str) -> Pace:
        """Return the pace of one bucket."""
        return self._known.setdefault(bucket, Pace())


def skews(loads: Mapping[K, float | None]) -> dict[K, float | None]:
    """Return what each has of the load, as a multiple of the even share.

    None for all where there is no load, or where one is not known: the rest would look hot.
    """
    known = {name: load for name, load in loads.items() if load is not None}
    whole = sum(known.values())
    if not whole or len(known) < len(loads):
        return dict.fromkeys(loads)
    return {name: load * len(known) / whole for name, load in known.items()}


class Judged(NamedTuple):
    """The figures by which a bucket is judged. heard_at: its newest heartbeat, None if there is
    none; whole: records/s of its scenario; ahead: how far its clock is ahead of the job's own,
    ms."""

    heard_at: int | None
    log_time: int | None
    load: float | None
    skew: float | None
    whole: float
    ahead: int = 0


def signs(bucket: Judged, now: int) -> list[Sign]:
    """Return what stands out in a bucket, the most important first; `well` where nothing does."""
    if bucket.heard_at is None or bucket.log_time is None:
        return ["unknown"]
    kinds: list[Sign] = []
    if now - bucket.heard_at > SILENT_MS:
        kinds.append("silent")
    if bucket.ahead > AHEAD_MS:
        kinds.append("ahead")
    elif not kinds and now - bucket.log_time > LATE_MS:
        kinds.append("behind")
    if bucket.skew is not None and bucket.skew >= HOT and bucket.whole >= HOT_LEAST:
        kinds.append("hot")
    if bucket.load == 0:
        kinds.append("idle")
    return kinds or ["well"]
