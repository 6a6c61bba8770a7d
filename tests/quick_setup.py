"""What keeps tests without real processes fast; their conftest files take it from here."""

from __future__ import annotations

import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def quick_passwords(settings: Settings) -> None:
    """Passwords are hashed to be slow to guess, which no test here is about."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def quick_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads a bus in memory to its end waits there no longer than it takes to see it."""
    for module in ("dashboard.materialiser.worker", "dashboard.live.tailer"):
        monkeypatch.setattr(f"{module}.WAIT_S", 0.01)


@pytest.fixture(autouse=True)
def nobody_remembered() -> None:
    """No limit counts, and no figure keeps, what another test did."""
    from web_fixtures import forget_limits

    forget_limits()
