"""What goes into one message with changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dashboard.annotations.row_marks import Mark
from dashboard.live.alarms import Raised
from dashboard.live.entries import Entry

Figure = Literal["counts", "acknowledged", "doubts"]
"""How many assets of a scenario are in each state, how many of them are acknowledged, and how many
there is each doubt of."""


@dataclass(slots=True)
class Changes:
    """The content of one message. figures: those that have changed; marks: what is new, and those
    of the entries; alerts: of how many the browser is to be alarmed; body: the message, once it was
    made, for all sockets that are sent the same."""

    entries: list[Entry] = field(default_factory=list)
    gone: list[tuple[str, str]] = field(default_factory=list)
    figures: Mapping[Figure, Mapping[str, int]] = field(default_factory=dict)
    watched: str | None = None
    marks: list[Mark] = field(default_factory=list)
    alerts: tuple[int, list[Raised]] | None = None
    body: bytes = b""

    def __bool__(self) -> bool:
        """Return whether there is anything to send."""
        rows = self.entries or self.gone or self.marks
        return bool(rows or self.figures or self.watched or self.alerts)
