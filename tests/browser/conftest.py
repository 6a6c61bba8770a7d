"""A real Chromium, and the whole product for it to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.test import find_browser
from stack import Stack


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, object]) -> dict[str, object]:
    """Launch the system's Chromium; root may not use its sandbox."""
    path = find_browser()
    assert path, "no Chromium: install the package chromium"
    return {**browser_type_launch_args, "executable_path": path, "args": ["--no-sandbox"]}


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[Stack]:
    """The whole product with its demo, shared by the session: `.url`, `.logins`, `.kill(name)`."""
    stack = Stack(tmp_path_factory.mktemp("product"), jars_dir=jars_dir)
    stack.start(timeout_s=180)
    yield stack
    assert stack.stop() < 10
