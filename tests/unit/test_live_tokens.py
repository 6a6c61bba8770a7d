"""A page's token: a place in the board's order, as an address has it."""

from __future__ import annotations

import pytest

from dashboard.live.page_filter import order_of_token, token_of
from dashboard.states.board_rows import order_of
from dashboard.states.caveats import rank_of


@pytest.mark.parametrize(
    "asset", ["a", "a.b.c", "10.0.0.0/8", "%2F", "Zürich · 東京", "1.2.3", "\\"]
)
def test_a_token_names_a_place(asset: str):
    for rank in (-2, -1, 0, 3):
        made = {"asset": asset, "rank": rank, "since": 1_790_000_000_000}
        assert order_of_token(token_of(made)) == order_of(made)


def test_a_token_of_an_earlier_release_names_the_place_of_a_row_without_a_dispute():
    made = {"asset": "a.b", "rank": rank_of(2, None), "since": 1_790_000_000_000}
    assert order_of_token("2.1790000000000.a.b") == order_of(made)


@pytest.mark.parametrize(
    "text",
    ["", "1.2", "1.2.", "-1.2.a", "r-3.2.a", "r.2.a", "r--1.2.a",
     "R1.2.a", "1.-2.a", "a.2.b", "1.2.a\n", "1.2.a\0", "١.2.a", "1 .2.a",
     f"1.{10**18}.a", "1.2." + "a" * 256, "1." * 200],
)  # fmt: skip
def test_what_is_no_token_names_none(text: str):
    assert order_of_token(text) is None
