"""A page's token: a place in the board's order, as an address has it."""

from __future__ import annotations

import pytest

from dashboard.board.live.page_filter import order_of_token, token_of_order
from dashboard.core.states.board_rows import order_of


@pytest.mark.parametrize(
    "asset", ["a", "a.b.c", "10.0.0.0/8", "%2F", "Zürich · 東京", "1.2.3", "\\"]
)
def test_a_token_names_a_place(asset: str):
    for rank, alarming in ((-2, True), (-1, True), (0, False), (3, True), (3, False)):
        row = {"asset": asset, "rank": rank, "since": 1_790_000_000_000, "alarming": alarming}
        assert order_of_token(token_of_order(order_of(row))) == order_of(row)


@pytest.mark.parametrize(
    "text",
    ["", "r1.2", "r1.2.", "1.2.a", "-1.2.a", "r-3.2.a", "r.2.a", "r--1.2.a",
     "R1.2.a", "r1.-2.a", "ra.2.b", "r1.2.a\n", "r1.2.a\0", "r١.2.a", "r1 .2.a",
     f"r1.{10**18}.a", "r1.2." + "a" * 256, "r1." * 200],
)  # fmt: skip
def test_what_is_no_token_names_none(text: str):
    assert order_of_token(text) is None
