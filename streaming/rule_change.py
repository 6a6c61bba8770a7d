"""What an ask for another rule comes to: its parameters, judged by what the driver carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from domain.overlay import canonical, differing, overlay_text
from domain.scenario import Scenario, ScenarioError
from streaming.engine import Engine
from streaming.engine_assignment import EngineAssignment, ProcessNeeded, Refused
from streaming.overlays import Book
from wire.job import Control, Overlay


class Wanted(msgspec.Struct, frozen=True):
    """An ask's parameters. keys: the whole overlay from now on, empty to take it back; base: the
    version that it was made from."""

    scenario: str
    keys: dict[str, Any]
    base: str


def changed(book: Book, mine: Mapping[str, Scenario], ask: Control, now: int) -> tuple[str, Book]:
    """Return the scenario that an ask is about, and the book as it asks for. Raises Refused.

    now: Unix ms.
    """
    try:
        wanted = msgspec.convert(ask.parameters, Wanted)
    except msgspec.ValidationError as error:
        raise Refused(f"parameters: {error}") from None
    name = wanted.scenario
    if name not in mine:
        raise Refused(f"scenario: expected one of {', '.join(mine)}, got {name[:40]!r}")
    if book.overlay(name).id == ask.id:
        return name, book  # its file was written before the job ended
    if wanted.base != book.version(name):
        raise Refused(
            f"{name}: another change came between; look at the rule as it is now, and ask again"
        )
    try:
        keys = canonical(book.configured[name], wanted.keys)
        overlay = Overlay(keys, ask.user, ask.reason, now, ask.id)
        return name, book.changed(name, overlay)
    except ScenarioError as error:
        raise Refused(str(error)) from None


def share(sharing: EngineAssignment, engine: Engine, book: Book) -> dict[str, Scenario]:
    """Return the engine's share of the changed book. Raises Refused if a reload is not enough."""
    try:
        return sharing.anew(engine, book.rules)
    except ProcessNeeded as needed:
        raise Refused(f"{needed}: that takes scenarios.toml and a new process") from None


def in_toml(before: Scenario, after: Scenario) -> str:
    """Return what changed, as TOML in one line."""
    keys = differing(before, after)
    if not keys:
        return "the rule stays as it was"
    return " ".join(overlay_text(keys).split())
