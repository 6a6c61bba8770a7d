"""Messages between the driver and a batch query's process: lines of JSON."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from wire.batch_query import ReadState, Snapshot
from wire.job import Outcome, Step


class ReadRequest(msgspec.Struct, frozen=True, tag="read-state"):
    """Read a checkpoint's committed state. partitions: of the scenario's source topic."""

    id: str
    wanted: ReadState
    partitions: int
    checkpoint: str
    engine: Literal["kernel", "python"]
    epoch: int


class ReplayRequest(msgspec.Struct, frozen=True, tag="what-if"):
    """Replay a scenario's log under two rules, both as plain data. buckets: as in WhatIf."""

    id: str
    since: int
    running: dict[str, Any]
    proposed: dict[str, Any]
    buckets: dict[str, Snapshot] = {}


Request = ReadRequest | ReplayRequest


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """How the batch query ended."""

    outcome: Outcome
    why: str = ""


class Stepped(msgspec.Struct, frozen=True, tag="step"):
    """How far the batch query has come."""

    step: Step


Line = Ended | Stepped
