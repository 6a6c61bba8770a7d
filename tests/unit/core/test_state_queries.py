"""A page of the board is what sorting and filtering all rows would give, and reads few of them."""

from __future__ import annotations

import random
import re
from collections.abc import Collection
from itertools import cycle
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.core.common.scenarios import scenarios
from dashboard.core.states import queries as state_queries
from dashboard.core.states.caveats import place_of, rank_of
from dashboard.core.states.models import AssetState
from dashboard.core.states.name_search import candidates
from dashboard.serve.materialiser.writer import count
from support.histories.state_records import record
from support.run.selection import examples

pytestmark = pytest.mark.django_db

STATES = ("under-attack", "suspicious", "clear", "left-behind")
PIECES = (
    "shop", "Shop", "SHOP", "a", "b-", "12", "1234", ".example", "10.0.0.0/8", "%", "_", "\\", "'",
    '"', '""', "*", "(", ")", " AND ", " OR ", "NEAR", "^", ":", "-", "ß", "ss", "Ü", "ü", "Zürich",
    "東京", "🙂", "é", "e\u0301", "İ", "ı", "K", "k", " ",
)  # fmt: skip
NAMES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)
Wanted = tuple[Collection[str], str]


def board(names: Collection[str], scenario: str = "attack") -> list[AssetState]:
    """These assets in states and with times that often are the same; every fifth is purged."""
    chance = random.Random(len(names))
    rows = []
    for number, name in enumerate(names):
        purged = number % 5 == 4
        state = "" if purged else chance.choice(STATES)
        severity = 0 if purged else scenarios()[scenario].severity(state)
        disputed = "under-attack" if state and chance.random() < 0.3 else None
        rows.append(
            AssetState(
                scenario=scenario,
                asset=name,
                partition=0,
                state=state,
                severity=severity,
                rank=None if purged else rank_of(severity, disputed),
                disputed=disputed,
                since=1_000 + chance.randrange(3),
                version=f"{number}",
                changed_at=0,
                cause_type="report",
                record=msgspec.json.encode(record(name)).decode(),
                purged=purged,
                purged_at=1 if purged else None,
            )
        )
    AssetState.objects.bulk_create(rows)
    for row in rows:
        if not row.purged:
            count({(scenario, row.state): 1})
    return rows


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sets(NAMES, min_size=1, max_size=30), TEXTS)
def test_containing_is_what_the_database_compares(names: set[str], text: str) -> None:
    AssetState.objects.all().delete()
    board(sorted(names))
    rows = AssetState.objects.filter(purged=False)
    expected = rows.filter(asset__icontains=text)
    assert set(state_queries.containing(rows, text)) == set(expected)


def test_containing_looks_few_names_up() -> None:
    board(["shop.example", "blog.example"])
    with CaptureQueriesContext(connection) as queries:
        row = state_queries.containing(AssetState.objects.all(), "shop").get()
    assert row.asset == "shop.example"
    assert "json_each" in queries[-1]["sql"]


def order(row: AssetState, handled: Collection[int] = ()) -> state_queries.Order:
    unhandled = row.state != "clear" and row.pk not in handled
    place = place_of(rank_of(row.severity, row.disputed), unhandled)
    return (place, -row.since, row.asset)


def expected(wanted: Wanted, handled: Collection[int] = ()) -> list[AssetState]:
    """All that match, as the database itself compares text, sorted here."""
    states, q = wanted
    rows = AssetState.objects.filter(scenario="attack", purged=False, asset__icontains=q)
    matching = (row for row in rows if not states or row.state in states)
    return sorted(matching, key=lambda row: order(row, handled))


def check(
    wanted: Wanted,
    limit: int,
    after: AssetState | None,
    skip: Collection[str],
    handled: Collection[int] = (),
) -> None:
    """Hold what is found against all rows."""
    everything = expected(wanted, handled)
    past = order(after, handled) if after else None
    page = state_queries.find(
        "attack", *wanted, after=past, limit=limit, skip=skip, handled=handled
    )
    shown = [row for row in everything if past is None or order(row, handled) > past]
    names = [row.asset for row in shown if row.asset not in skip][:limit]
    assert [each.asset for each in page.records] == names
    if page.least:
        assert 0 < page.total <= len(everything)
    else:
        assert page.total == len(everything)


@pytest.mark.parametrize("counted", [2, 10_000])
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    names=st.sets(NAMES, max_size=25),
    q=st.one_of(st.just(""), TEXTS),
    states=st.sampled_from([(), ("clear",), ("clear", "under-attack"), ("odd",), ("left-behind",)]),
    limit=st.integers(1, 8),
    after=st.integers(-1, 24),
    skipped=st.integers(0, 3),
    held=st.integers(0, 4),
)
def test_a_page_is_what_sorting_everything_gives(
    counted: int, names: set[str], q: str, states: tuple[str, ...], limit: int, after: int,
    skipped: int, held: int, monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setattr(state_queries, "COUNTED", counted)
    AssetState.objects.all().delete()
    state_queries.StateCount.objects.all().delete()
    rows = board(sorted(names))
    start = rows[after % len(rows)] if rows and after >= 0 else None
    skip = {row.asset for row in rows[:skipped]}
    handled = {row.pk for row in rows[::2][:held] if row.state not in ("", "clear")}
    check((states, q), limit, start, skip, handled)


CELLS = st.sampled_from([(None, None), (None, 7.0), (None, -1.5), ("many", None), ("more", None)])
"""Text and number of a detail."""


@pytest.mark.parametrize("counted", [2, 10_000])
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    names=st.sets(NAMES, max_size=25),
    cells=st.lists(CELLS, min_size=1, max_size=7),
    q=st.one_of(st.just(""), TEXTS),
    states=st.sampled_from([(), ("clear",), ("under-attack", "left-behind")]),
    lowest=st.booleans(),
    limit=st.integers(1, 8),
    held=st.integers(0, 4),
)
def test_the_first_by_a_detail_are_the_first_of_all_that_match(
    counted: int, names: set[str], cells: list[Any], q: str, states: tuple[str, ...], lowest: bool,
    limit: int, held: int, monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setattr(state_queries, "COUNTED", counted)
    AssetState.objects.all().delete()
    state_queries.StateCount.objects.all().delete()
    rows = board(sorted(names))
    for row, cell in zip(rows, cycle(cells), strict=False):
        row.detail_2, row.amount_2 = cell
        row.save(update_fields=["detail_2", "amount_2"])
    skip = {row.asset for row in rows[:2]}
    handled = {row.pk for row in rows[::2][:held] if row.state not in ("", "clear")}
    everything = expected((states, q), handled)
    page = state_queries.find(
        "attack", states, q, limit=limit, skip=skip, handled=handled,
        ranking=state_queries.Ranking(1, lowest),
    )  # fmt: skip
    assert page.ranked or counted == 2
    first = everything
    if page.ranked:
        first = [row for row in everything if row.detail_2 or row.amount_2 is not None]
        first.sort(key=lambda row: row.detail_2 or "", reverse=not lowest)
        first.sort(key=lambda row: row.amount_2 or 0, reverse=not lowest)
        first.sort(key=lambda row: row.amount_2 is not None, reverse=not lowest)
        first += [row for row in everything if row not in first]
        assert page.total == len(everything)
    names_found = [each.asset for each in page.records]
    assert names_found == [row.asset for row in first if row.asset not in skip][:limit]


def pages(limit: int, states: Collection[str] = (), q: str = "") -> list[str]:
    """Page after page until there is none."""
    shown: list[str] = []
    after = None
    while records := state_queries.find("attack", states, q, after=after, limit=limit).records:
        shown += [each.asset for each in records]
        after = order(AssetState.objects.get(asset=shown[-1]))
    return shown


@pytest.mark.parametrize("wanted", [((), ""), (("clear", "suspicious"), ""), ((), "e-1")])
def test_page_after_page_shows_everything_once(wanted: Wanted):
    board([f"site-{n}.example" for n in range(60)])
    assert pages(7, *wanted) == [row.asset for row in expected(wanted)]


def test_of_many_matches_it_is_said_that_there_are_at_least_so_many(monkeypatch):
    monkeypatch.setattr(state_queries, "COUNTED", 5)
    board([f"site-{n}.example" for n in range(20)])
    for q in ("example", "e"):
        page = state_queries.find("attack", q=q, limit=3)
        assert (len(page.records), page.least) == (3, True)
        assert 3 <= page.total <= 5
    assert state_queries.find("attack", q="site-12", limit=3)[1:3] == (1, False)


def test_without_the_index_of_parts_the_board_is_walked(monkeypatch):
    board(["alpha", "beta", "alphabet"])
    monkeypatch.setattr("dashboard.core.states.queries.candidates", lambda _text, _most: None)
    check(((), "alpha"), 5, None, ())
    assert len(state_queries.find("attack", q="alpha").records) == 2


def test_another_scenario_with_the_same_names_is_another_board():
    board(["shop-1", "shop-2"])
    assert state_queries.find("orders", q="shop")[:3] == ([], 0, False)


@pytest.mark.parametrize("q", ["a\0b", "shop\n", "\x7f"])
def test_a_text_that_no_name_can_hold_finds_nothing(q: str):
    board(["shop"])
    assert state_queries.find("attack", q=q)[:3] == ([], 0, False)


# ---- the index of names' parts ------------------------------------------------------------------


def test_the_index_knows_what_comes_and_goes():
    rows = board(["shop-1", "shop-2", "mail"])
    assert candidates("SHOP", 10) == [rows[0].pk, rows[1].pk]
    assert candidates("shop", 1) == [rows[0].pk]
    AssetState.objects.filter(asset="shop-1").delete()
    AssetState.objects.filter(asset="shop-2").update(state="suspicious")
    assert candidates("shop", 10) == [rows[1].pk]
    assert candidates("sh", 10) is None, "too short"


def test_a_long_text_is_no_harder():
    name = "".join(chr(0x4E00 + n) for n in range(255))
    board([name])
    assert [r.asset for r in state_queries.find("attack", q=name).records] == [name]


def test_the_index_outlives_every_migration():
    """A migration that makes the table anew would drop SQLite's triggers."""
    assert connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE name LIKE 'states\\_nameparts\\_%' "
                       "ESCAPE '\\' AND type = 'trigger' ORDER BY name")  # fmt: skip
        assert [name for (name,) in cursor.fetchall()] == [
            "states_nameparts_added",
            "states_nameparts_gone",
        ]


# ---- how it is read -----------------------------------------------------------------------------


def plans(read: Any) -> list[str]:
    """What SQLite does for each query of `read()`."""
    with CaptureQueriesContext(connection) as captured:
        read()
    query_plans = []
    with connection.cursor() as cursor:
        for query in captured.captured_queries:
            cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
            query_plans.append(" | ".join(detail for *_, detail in cursor.fetchall()))
    return query_plans


@pytest.mark.parametrize(
    "wanted",
    [
        {}, {"states": ["clear"]}, {"q": "zz"},
        {"q": "zz", "states": ["clear"]}, {"after": (5, -1_001, "m")},
        {"states": ["clear", "suspicious"], "after": (3, -1_001, "m")},
    ],
)  # fmt: skip
def test_a_page_is_a_range_of_an_index(wanted: dict[str, Any]):
    board([f"site-{n}" for n in range(30)])
    query_plans = plans(lambda: state_queries.find("attack", limit=5, **wanted))
    assert any("USING INDEX board_order" in plan for plan in query_plans)
    for plan in query_plans:
        assert "TEMP B-TREE" not in plan
        assert not re.search(r"SCAN states_assetstate", plan)
    if "after" in wanted:
        from_the_top = [
            plan for plan in query_plans if "board_order" in plan and "rank" not in plan
        ]
        assert len(from_the_top) <= 1, "but for the look at the last rank it starts at the page"


def test_rows_are_read_by_their_ids():
    board([f"site-{n}" for n in range(30)])
    query_plans = plans(lambda: state_queries.find("attack", q="site-1", limit=5))
    looked_up = [plan for plan in query_plans if "states_assetstate" in plan]
    assert looked_up
    assert all("USING INTEGER PRIMARY KEY (rowid=?)" in plan for plan in looked_up)


def test_many_assets_are_looked_up_by_one_query_on_the_index():
    board([f"site-{n}" for n in range(3_000)])
    names = [f"site-{n}" for n in range(0, 6_000, 2)]
    assert len(state_queries.stored("attack", names)) == 1_500
    (plan,) = plans(lambda: state_queries.stored("attack", names))
    assert re.search(r"SEARCH states_assetstate USING INDEX \S+ \(scenario=\? AND asset=\?\)", plan)


def test_assets_by_name_are_a_range_of_an_index():
    """The query of the REST API's pages."""
    board([f"site-{n}" for n in range(30)])
    rows = AssetState.objects.filter(scenario="attack", purged=False, asset__gt="site-2")
    (plan,) = plans(lambda: list(rows.order_by("asset").values_list("asset", "record")[:11]))
    assert re.search(r"SEARCH states_assetstate USING INDEX \S+ \(scenario=\? AND asset>\?\)", plan)
    assert "TEMP B-TREE" not in plan
