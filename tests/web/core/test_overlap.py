"""Rows that go on at a time: found whatever their length, each once, by an index."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from dashboard.core.common.models import LENGTHS_MS, ongoing
from dashboard.core.common.times import HOUR_MS
from dashboard.notify.summaries.models import ImpairedSpan
from dashboard.watch.incidents.models import Incident

AT = 1_000 * HOUR_MS
EDGES = sorted({ms + near for ms in LENGTHS_MS for near in (-1, 0, 1)})
LENGTHS = st.one_of(st.none(), st.sampled_from([0, 1, *EDGES]), st.integers(0, 2 * LENGTHS_MS[-1]))
BEGINS = st.one_of(
    st.integers(AT - 2 * LENGTHS_MS[-1], AT + HOUR_MS),
    st.sampled_from([AT + near - ms for ms in (0, *EDGES) for near in (-1, 0, 1)]),
)


def span(number: int, begin: int, length: int | None) -> ImpairedSpan:
    end = None if length is None else begin + length
    return ImpairedSpan(
        scenario="attack", asset=f"site-{number}", place="p", begin=begin, end=end,
        state="under-attack", unconfirmed=False,
    )  # fmt: skip


def of_span(row: ImpairedSpan) -> Incident:
    return Incident(
        scenario="attack", asset=row.asset, place="p", began_at=row.begin, ended_at=row.end,
        state="under-attack", worst="under-attack",
    )  # fmt: skip


def assets_at(rows: Any, begin: str, end: str) -> list[str]:
    asset_lists = (
        rows.filter(each).values_list("asset", flat=True) for each in ongoing(AT, begin, end)
    )
    return sorted(asset for assets in asset_lists for asset in assets)


class AnyHistory(TestCase):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(BEGINS, LENGTHS), max_size=20))
    def test_each_row_that_goes_on_is_found_once(self, spans: list[tuple[int, int | None]]):
        rows = [span(number, *each) for number, each in enumerate(spans)]
        expected = sorted(
            row.asset for row in rows if row.begin < AT and (row.end is None or row.end > AT)
        )
        ImpairedSpan.objects.bulk_create(rows)
        Incident.objects.bulk_create(of_span(row) for row in rows)
        assert assets_at(ImpairedSpan.objects, "begin", "end") == expected
        assert assets_at(Incident.objects, "began_at", "ended_at") == expected


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("model", "columns"), [(ImpairedSpan, ("begin", "end")), (Incident, ("began_at", "ended_at"))]
)
def test_no_condition_reads_history_from_one_of_its_ends(model: Any, columns: tuple[str, str]):
    """But that of the longest rows, which are few."""
    open_, *bounded, _ = (
        model.objects.filter(each, scenario="attack").explain() for each in ongoing(AT, *columns)
    )
    begin, end = columns
    assert f"{end}=?" in open_
    assert all(f"{begin}>? AND {begin}<?" in plan for plan in bounded), bounded
    assert connection.vendor == "sqlite"
