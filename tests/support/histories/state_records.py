"""State records as they stand in the topic, with everything that a test does not say."""

from __future__ import annotations

from typing import Any

import msgspec

from wire.sink import StateValue, state_value

Record = dict[str, Any]
"""A state record, as JSON has it."""


def vote(agent: str = "waf-1", state: str = "clear", **more: Any) -> Record:
    """Return a vote."""
    made = {"agent": agent, "state": state, "reported_at": 5, "time": 5, "offset": 1,
            "expires": 9, "weight": 1, "detail": None}  # fmt: skip
    return made | more


def doubt(
    agent: str = "waf-1",
    reason: str = "contradiction",
    said: str | None = "under-attack",
    **more: Any,
) -> Record:
    """Return a doubt of an agent."""
    made = {"agent": agent, "reason": reason, "said": said, "time": 5, "offset": 1, "until": 9,
            "weight": 1}  # fmt: skip
    return made | more


def record(asset: str = "shop", state: str = "clear", offset: int = 1, **more: Any) -> Record:
    """Return a state record."""
    cause = {"type": "report", "partition": 0, "offset": offset, "time": 5, "agent": "waf-1",
             "user": None, "command": None}  # fmt: skip
    made: Record = {
        "asset": asset, "state": state, "previous": None, "since": 5, "unconfirmed": False,
        "version": f"1.{offset}.0", "cause": cause, "votes": [], "pending": None,
        "override": None, "answer": None,
    }  # fmt: skip
    return made | more


def as_read(made: Record) -> StateValue:
    """Return a record as the product reads it."""
    return state_value(msgspec.json.encode(made))
