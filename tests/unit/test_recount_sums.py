"""Hours added up from histories, against a count of every millisecond."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.batch_queries.hour_sums import HourSums, Status

EDGES = [100, 110, 130, 135, 150]
GOOD = {"clear", "calm"}

histories = st.lists(
    st.tuples(st.integers(80, 160), st.sampled_from(["clear", "calm", "bad", None]), st.booleans()),
    max_size=12,
    unique_by=lambda each: each[0],
).map(lambda rows: [Status(*row) for row in sorted(rows, key=lambda row: row[0])])
windows = st.lists(st.integers(90, 155), max_size=6, unique=True).map(
    lambda ends: list(zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False))
)


def kind_at(history: list[Status], excluded: list[tuple[int, int]], at: int) -> str:
    """What an asset was in one millisecond."""
    shown = [status for status in history if status.at <= at]
    if not shown or shown[-1].state is None:
        return ""
    if any(begin <= at < end for begin, end in excluded):
        return "maintenance"
    if shown[-1].unconfirmed:
        return "unconfirmed"
    return "good" if shown[-1].state in GOOD else "bad"


def incidents_of(history: list[Status]) -> list[tuple[int, int]]:
    """Begin and end of each unbroken time outside the good states."""
    incidents: list[tuple[int, int]] = []
    open_since = None
    for status in [*history, Status(10**6, None, False)]:
        bad = status.state is not None and status.state not in GOOD
        if bad and open_since is None:
            open_since = status.at
        if not bad and open_since is not None:
            incidents.append((open_since, status.at))
            open_since = None
    return incidents


@given(st.lists(st.tuples(histories, windows), max_size=4))
def test_each_hour_has_its_milliseconds(assets):
    names = [f"a{n}" if n else "" for n in range(len(assets))]  # the first: of all not named
    excluded = {name: spans for name, (_, spans) in zip(names, assets, strict=True)}
    sums = HourSums(EDGES, lambda state: state in GOOD, excluded)
    for n, (history, _) in enumerate(assets):
        sums.add(f"a{n}", history)
    for hour, (begin, end) in zip(sums.hours(), pairwise(EDGES), strict=True):
        kinds = [
            kind_at(history, spans, at) for history, spans in assets for at in range(begin, end)
        ]
        for kind in ("good", "bad", "unconfirmed", "maintenance"):
            assert getattr(hour, kind) == kinds.count(kind)


@given(st.lists(histories, max_size=4))
def test_incidents_are_those_that_overlap(assets):
    sums = HourSums(EDGES, lambda state: state in GOOD, {})
    for n, history in enumerate(assets):
        sums.add(f"a{n}", history)
    overlapping = [
        [begin for begin, end in incidents_of(history) if begin < EDGES[-1] and end > EDGES[0]]
        for history in assets
    ]
    assert sums.incidents == sum(map(len, overlapping))
    assert sums.affected == sum(map(bool, overlapping))
    begun = [begin for each in overlapping for begin in each if begin >= EDGES[0]]
    assert sum(hour.incidents for hour in sums.hours()) == len(begun)


@pytest.mark.parametrize("history", [[], [Status(160, "bad", False)], [Status(150, "bad", False)]])
def test_what_lies_after_the_hours_counts_nothing(history: list[Status]):
    sums = HourSums(EDGES, lambda state: state in GOOD, {})
    sums.add("a", history)
    assert (sums.assets, sums.incidents, sums.affected) == (0, 0, 0)
