"""The order of this stage's files."""

from __future__ import annotations

from itertools import chain, groupby, zip_longest
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.hookimpl(trylast=True)  # after what a plain run leaves out has gone
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files of the folders by turns: those of the broker wait while those of Spark compute.

    Those with the fewest tests come first: they take longest for each.
    """
    if all(item.path.is_relative_to(FOLDER) for item in items):
        files = [list(tests) for _, tests in groupby(items, lambda item: item.path)]
        folders = groupby(files, lambda file: file[0].path.parent)
        by_size = (sorted(files, key=len) for _, files in folders)
        items[:] = chain.from_iterable(chain.from_iterable(zip_longest(*by_size, fillvalue=[])))
