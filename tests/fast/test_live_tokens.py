"""A page's token: a place in the board's order, as an address has it."""

from __future__ import annotations

import pytest

from dashboard.live.rows import order_of
from dashboard.live.shown import order_of_token, token_of


@pytest.mark.parametrize(
    "asset", ["a", "a.b.c", "10.0.0.0/8", "%2F", "Zürich · 東京", "1.2.3", "\\"]
)
def test_a_token_names_a_place(asset: str):
    made = {"asset": asset, "severity": 3, "since": 1_790_000_000_000}
    assert order_of_token(token_of(made)) == order_of(made)


@pytest.mark.parametrize(
    "text",
    ["", "1.2", "1.2.", "-1.2.a", "1.-2.a", "a.2.b", "1.2.a\n", "1.2.a\0", "١.2.a", "1 .2.a",
     f"1.{10**18}.a", "1.2." + "a" * 256, "1." * 200],
)  # fmt: skip
def test_what_is_no_token_names_none(text: str):
    assert order_of_token(text) is None
