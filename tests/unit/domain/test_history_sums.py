"""Sums by the hour and by asset and day, against a count of each minute."""

from __future__ import annotations

from collections import Counter
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.history.delays import mean, percentile
from domain.history.periods import Hour, hours
from domain.history.sums import BadSpan, Classes, Mask, Sources, Sums

ZONE = ZoneInfo("Europe/Berlin")
MINUTE = 60_000
BEGIN = 1_774_735_200_000  # 28 March 2026 23:00 in Berlin, the night of the change
HOURS = list(hours(BEGIN, BEGIN + 30 * 60 * MINUTE, ZONE))
END = HOURS[-1].end
LENGTH = (END - BEGIN) // MINUTE


def in_service(hour: Hour) -> bool:
    return hour.hour % 3 == 0


minutes = st.integers(-50, LENGTH + 50)
lives = st.lists(
    st.tuples(minutes, minutes, st.lists(st.tuples(minutes, minutes, st.booleans()), max_size=3)),
    max_size=4,
)
windows = st.lists(st.lists(st.tuples(minutes, minutes), max_size=2), min_size=4, max_size=4)


def at(minute: int) -> int:
    return BEGIN + minute * MINUTE


@given(lives, windows)
def test_sums_are_those_of_each_minute(lives: list, windows: list):
    assets: dict[str, list[str | None]] = {}
    came, went, impaired, on_board = [], [], [], {}
    cut_out = {}
    present = 0
    for n, ((born, end_of_life, spells), shut) in enumerate(zip(lives, windows, strict=False)):
        asset, gone = f"a{n}", max(born, end_of_life)
        kinds = assets[asset] = [
            "good" if born <= minute < gone else None for minute in range(LENGTH)
        ]
        present += born < 0 <= gone
        came += [at(born)] if 0 <= born < LENGTH else []
        went += [at(gone)] if 0 <= gone < LENGTH else []
        on_board[asset] = [(at(born), at(gone))]
        reached = born
        for begin, end, unconfirmed in sorted(spells):
            begin, end = max(begin, reached), min(end, gone)  # noqa: PLW2901 - cut to its life
            if begin < end and begin < LENGTH and end > 0:
                impaired.append(BadSpan(asset, at(begin), at(end), unconfirmed))
                for minute in range(max(0, begin), min(LENGTH, end)):
                    kinds[minute] = "unconfirmed" if unconfirmed else "bad"
            reached = max(reached, end)
        cut_out[asset] = [(at(a), at(b)) for a, b in shut]
        for a, b in shut:
            for minute in range(max(0, a), min(LENGTH, b)):
                kinds[minute] = kinds[minute] and "maintenance"
    sources = Sources(present, came, went, impaired, cut_out, on_board)
    sums = Sums(HOURS, in_service)
    sums.add(sources)
    check_hours(sums.by_hour(sources), assets)
    check_assets(sums, assets)


def check_hours(sums: list, assets: dict) -> None:
    for each in sums:
        low, high = ((time - BEGIN) // MINUTE for time in (each.hour.begin, each.hour.end))
        counted = Counter(kind for kinds in assets.values() for kind in kinds[low:high])
        for name in ("good", "bad", "unconfirmed", "maintenance"):
            assert getattr(each, name) == counted[name] * MINUTE


def check_assets(sums: Sums, assets: dict) -> None:
    expected: Counter = Counter()
    for hour in HOURS:
        for minute in range((hour.begin - BEGIN) // MINUTE, (hour.end - BEGIN) // MINUTE):
            for asset, kinds in assets.items():
                for service in (False, True) if in_service(hour) else (False,):
                    expected[asset, hour.day, service, kinds[minute]] += MINUTE
    for each in sums.by_asset():
        for service, own in ((False, each.whole), (True, each.service)):
            for name in Classes._fields:
                known = expected.pop((each.asset, each.day, service, name), 0)
                assert getattr(own, name) == known
    assert all(kind in ("good", None) for _, _, _, kind in expected)


@given(minutes, minutes)
def test_a_mask_measures_the_chosen_hours(one: int, two: int):
    low, high = sorted((max(0, min(LENGTH, one)), max(0, min(LENGTH, two))))
    chosen = sum(
        MINUTE
        for hour in HOURS
        if in_service(hour)
        for time in range(hour.begin, hour.end, MINUTE)
        if at(low) <= time < at(high)
    )
    assert Mask(HOURS, in_service).ms(at(low), at(high)) == chosen


def test_no_hours_are_no_sums():
    sums = Sums([], in_service)
    sums.add(Sources(3, impaired=[BadSpan("a", 0, 10, unconfirmed=False)]))
    assert (sums.by_hour(Sources(3)), sums.by_asset()) == ([], [])
    assert Mask([], in_service).ms(0, 10) == 0


@pytest.mark.parametrize(
    ("delays", "median", "p95"),
    [
        ([], None, None),
        ([7], 7, 7),
        ([1, 2], 1, 2),
        ([1, 2, 3], 2, 3),
        (list(range(1, 21)), 10, 19),
        (list(range(1, 101)), 50, 95),
    ],
)
def test_percentiles_are_by_nearest_rank(delays: list[int], median: int | None, p95: int | None):
    assert (percentile(delays, 50), percentile(delays, 95)) == (median, p95)
    assert mean(delays) == (round(sum(delays) / len(delays)) if delays else None)
