"""A real PostgreSQL server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgresql import postgresql_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server; each test makes its database."""
    with postgresql_server(tmp_path_factory.mktemp("postgresql")) as server:
        yield server
