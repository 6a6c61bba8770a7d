"""A plain run takes a spread of many like cases, in which every value occurs."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import settings

from support.run.selection import FULL, QUICK, QUICK_SHARE, examples, sampled, spread

CASES = [(("form", a), ("text", b)) for a, b in product(range(4), range(30))]


@pytest.mark.parametrize("number", [30, 40, 119])
def test_every_value_occurs_in_a_spread(number: int) -> None:
    kept = spread(CASES, number, "tests/test_some.py::test_a_form")
    assert len(kept) == number
    assert {pair for at in kept for pair in CASES[at]} == {pair for case in CASES for pair in case}


def test_a_spread_is_of_its_size_and_of_all_there_is() -> None:
    assert len(spread(CASES, 3, "a")) == 3
    assert spread(CASES, 500, "a") == set(range(len(CASES)))


def test_a_spread_is_the_same_in_every_process_and_differs_between_tests() -> None:
    assert spread(CASES[:20], 3, "tests/test_some.py::test_a") == {2, 13, 14}
    assert spread(CASES, 20, "a") != spread(CASES, 20, "b")


def test_the_full_profile_tries_every_example() -> None:
    assert examples(60, FULL) == 60
    assert examples(60, QUICK) == 60 // QUICK_SHARE
    assert examples(1, QUICK) == 1
    assert settings.get_profile(FULL).max_examples == 100


def test_every_case_is_in_one_of_the_samples() -> None:
    shares = [sampled(CASES, 7, first) for first in range(7)]
    assert {case for share in shares for case in share} == set(CASES)
