"""The order of this stage's tests."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the faults first: the product for the browser starts while the last of them run."""
    items.sort(key=lambda item: "e2e/faults" not in item.path.as_posix())
