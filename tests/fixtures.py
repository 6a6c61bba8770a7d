"""What tests without real processes are given; their conftest files take it from here.

Django's models may be imported only once it is set up: inside, not above.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django.test import Client
    from world import World

    from dashboard.core.kafka import Gateway


@pytest.fixture
def bus() -> Iterator[Gateway]:
    """Everything is sent through a bus in memory; no limit remembers anybody."""
    from web_fixtures import forget_limits, memory_bus

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


@pytest.fixture
def client(db: None) -> Client:
    """A browser in which an operator is logged in."""
    return browser_of("operator")


@pytest.fixture
def admin(db: None) -> Client:
    """A browser in which an admin is logged in."""
    return browser_of("admin")


def browser_of(role: str) -> Client:
    """Log a user with a role in; returns the browser."""
    from django.test import Client
    from web_fixtures import make_user

    browser = Client()
    browser.force_login(make_user(role))
    return browser
