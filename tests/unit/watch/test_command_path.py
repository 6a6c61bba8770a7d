"""The way of a command from its form to its outcome: downwards, but for what is registered."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from django.template import context as template_context
from django.test import Client

from dashboard.core.common import times

pytestmark = pytest.mark.django_db

ROOT = str(Path(times.__file__).parents[3])
LEVELS = [
    "domain", "config", "bus", "wire", "agents", "stores", "core", "watch", "notify", "retail",
    "operate", "board", "serve",
]  # fmt: skip
"""Packages and rooms, the lowest first, as docs/architecture.md has them."""
MOST_CLIMBS = 4
HX = {"HX-Request": "true"}


def level(frame: FrameType) -> int | None:
    """The level of a frame's module, None for one that is not the product's."""
    parts = str(frame.f_globals.get("__name__")).split(".")
    name = parts[1] if parts[0] == "dashboard" and len(parts) > 1 else parts[0]
    ours = frame.f_code.co_filename.startswith(ROOT) and name in LEVELS
    return LEVELS.index(name) if ours else None


def climb(frame: FrameType) -> bool:
    """Whether a frame was called from a lower level; clock, and frame of the page, are not looked
    at."""
    own = level(frame)
    if own is None or frame.f_code is times.now_ms.__code__:
        return False
    caller = frame.f_back
    while caller is not None and level(caller) is None:
        if caller.f_code.co_filename == template_context.__file__:
            return False
        caller = caller.f_back
    below = None if caller is None else level(caller)
    return below is not None and below < own


@contextmanager
def climbs() -> Iterator[list[str]]:
    """The calls upwards from a view on, as they are made."""
    seen: list[str] = []

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and climb(frame):
            seen.append(f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}")

    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    ("headers", "state"), [({}, "clear"), (HX, "clear"), (HX, "on-fire")],
    ids=["page", "fragment", "refused"],
)  # fmt: skip
def test_a_command_climbs_seldom_between_rooms(
    client: Client, bus: Any, headers: dict[str, str], state: str
) -> None:
    url = "/s/attack/command/set/shop.example/"
    typed = {"state": state, "reason": "a drill"}
    client.post(url, typed | {"id": str(uuid.uuid4())}, headers=headers)  # templates are loaded
    with climbs() as seen:
        client.post(url, typed | {"id": str(uuid.uuid4())}, headers=headers)
    assert "dashboard.watch.commands.views.command" in seen, "the guard of roles calls the view"
    seen.remove("dashboard.watch.commands.views.command")
    assert len(seen) <= MOST_CLIMBS, seen
    if state == "clear":
        assert "dashboard.operate.dead_letters.apps._settle" in seen, "a call upwards is seen"
