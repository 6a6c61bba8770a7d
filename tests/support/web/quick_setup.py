"""What keeps tests without real processes fast; their conftest files take it from here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Passwords are hashed to be slow to guess, which no test here is about."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_readers() -> Iterator[None]:
    """Who reads a bus in memory to its end waits there no longer than it takes to see it."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("dashboard.serve.materialiser.worker", "dashboard.board.live.tailer"):
            patch.setattr(f"{module}.WAIT_S", 0.01)
        yield


@pytest.fixture(autouse=True)
def nobody_remembered() -> None:
    """No limit counts, and no figure keeps, what another test did."""
    from support.web.web_fixtures import forget_limits

    forget_limits()


@pytest.fixture(scope="session", autouse=True)
def static_files_listed_once() -> Iterator[None]:
    """A test client lists all static files anew, which is two fifths of what its pages take."""
    list_files = WhiteNoiseMiddleware.add_files_from_finders
    listed: dict[str, dict[str, StaticFile]] = {}

    def list_once(self: WhiteNoiseMiddleware) -> None:
        if self.static_prefix not in listed:
            list_files(self)
            listed[self.static_prefix] = dict(self.files)
        self.files.update(listed[self.static_prefix])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", list_once)
        yield
