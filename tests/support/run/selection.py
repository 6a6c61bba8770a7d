"""Which of many like cases a plain run takes, and how many examples Hypothesis tries.

`make test` takes a spread of them; `make test-all` takes every case and every example. `gate.py`
has what a plain run leaves out besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from random import Random
from typing import TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

QUICK, FULL = "quick", "full"
"""Profiles of Hypothesis: for a plain run, which tries the same examples each time, so that what it
refuses is due to a change; and for `make test-all`, which tries others each time."""

QUICK_SHARE = 5
"""A plain run tries one in so many examples."""


def register_profiles() -> None:
    """Make both profiles known to Hypothesis, and load the quick one."""
    settings.register_profile(FULL, deadline=None)
    few = examples(100, QUICK)
    settings.register_profile(QUICK, deadline=None, max_examples=few, derandomize=True)
    settings.load_profile(QUICK)


def examples(full: int, profile: str | None = None) -> int:
    """Return how many of so many generated examples the profile tries (default: the loaded one)."""
    if profile == FULL or (profile is None and is_whole()):
        return full
    return max(1, full // QUICK_SHARE)


def sampled(cases: Sequence[T], share: int, first: int = 0) -> Sequence[T]:
    """Return one in so many cases, from the first on; all of them in a whole run."""
    return cases if is_whole() else cases[first::share]


def is_whole() -> bool:
    """Return whether this run takes every case: `make test-all`."""
    return settings.get_current_profile_name() == FULL


def mark_extensive(items: Sequence[pytest.Item]) -> None:
    """Mark as `extensive` what `@pytest.mark.spread(number)` leaves out of a test's cases."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    for name, group in groupby(functions, lambda item: item.nodeid.partition("[")[0]):
        cases = list(group)
        marker = cases[0].get_closest_marker("spread")
        if marker is None:
            continue
        kept = spread([axes(case) for case in cases], marker.args[0], name)
        for at, case in enumerate(cases):
            if at not in kept:
                case.add_marker(pytest.mark.extensive)


def axes(case: pytest.Function) -> tuple[tuple[str, int], ...]:
    """Return which value of each parameter a case has, as (name, index)."""
    return tuple(case.callspec.indices.items()) if hasattr(case, "callspec") else ()


def spread(cases: Sequence[Iterable[tuple[str, int]]], number: int, seed: str) -> set[int]:
    """Return the indices of so many cases, in which as many values as possible occur."""
    order = list(range(len(cases)))
    Random(seed).shuffle(order)
    return {at for at, _ in zip(_newest_first(cases, order), range(number), strict=False)}


def _newest_first(cases: Sequence[Iterable[tuple[str, int]]], order: list[int]) -> Iterator[int]:
    """First the cases that bring a value not seen so far, then the others, each in this order."""
    seen: set[tuple[str, int]] = set()
    others = []
    for at in order:
        if seen.issuperset(cases[at]):
            others.append(at)
        else:
            seen.update(cases[at])
            yield at
    yield from others
