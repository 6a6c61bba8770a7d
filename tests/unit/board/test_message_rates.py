"""How many messages the boards of a user may send: so many at once, then so many a second."""

from __future__ import annotations

import pytest

from dashboard.board.live.admission import Rates, TooFast


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def taken(rates: Rates, user: str, tries: int = 1_000) -> int:
    """How many messages of a user pass now."""
    for number in range(tries):
        try:
            rates.take(user)
        except TooFast:
            return number
    return tries


def test_a_burst_passes_and_then_so_many_a_second():
    clock = Clock()
    rates = Rates(20, 50, clock)
    assert taken(rates, "olga") == 50
    clock.now += 1
    assert taken(rates, "olga") == 20
    clock.now += 0.5
    assert taken(rates, "olga") == 10


def test_a_rest_fills_the_bucket_and_no_more():
    clock = Clock()
    rates = Rates(20, 50, clock)
    assert taken(rates, "olga") == 50
    clock.now += 3_600
    assert taken(rates, "olga") == 50


def test_a_steady_rate_is_never_refused():
    clock = Clock()
    rates = Rates(20, 50, clock)
    for _ in range(2_000):
        rates.take("olga")
        clock.now += 1 / 20


def test_what_is_refused_costs_nothing():
    clock = Clock()
    rates = Rates(20, 50, clock)
    for _ in range(3):
        taken(rates, "olga")
    clock.now += 1
    assert taken(rates, "olga") == 20


def test_each_user_has_a_bucket():
    rates = Rates(20, 50, Clock())
    assert taken(rates, "olga") == 50
    assert taken(rates, "ivan") == 50


def test_the_refusal_says_of_what_there_is_too_much():
    rates = Rates(20, 1, Clock())
    rates.take("olga")
    with pytest.raises(TooFast, match="send more than 20 messages a second"):
        rates.take("olga")
