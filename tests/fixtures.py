"""What tests without real processes are given; their conftest files take it from here.

Django's models may be imported only once it is set up: inside, not above.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from world import World

    from dashboard.core.kafka import Gateway


@pytest.fixture
def bus() -> Iterator[Gateway]:
    """Everything is sent through a bus in memory; no limit remembers anybody."""
    from webkit import forget_limits, memory_bus

    from dashboard.core.scenarios import scenarios

    forget_limits()
    with memory_bus(scenarios()) as gateway:
        yield gateway


@pytest.fixture
def world() -> Iterator[World]:
    """That bus, with the job's part played on it."""
    from world import made_world

    with made_world() as world:
        yield world
