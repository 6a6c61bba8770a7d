"""The order of this stage's files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby, zip_longest
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.hookimpl(trylast=True)  # after what a plain run leaves out has gone
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files of the folders by turns: those of the broker wait while those of Spark compute."""
    ours = [item for item in items if item.path.is_relative_to(FOLDER)]
    if len(ours) == len(items):
        folders = groupby(ours, lambda item: item.path.parent)
        by_turns = zip_longest(*(list(files(folder)) for _, folder in folders), fillvalue=[])
        items[:] = chain.from_iterable(chain.from_iterable(by_turns))


def files(items: Iterator[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield the tests of each file."""
    for _, tests in groupby(items, lambda item: item.path):
        yield list(tests)
