"""The two engines, how their queries run, and what both rest on."""

from __future__ import annotations

from typing import Literal

Engine = Literal["kernel", "python"]
# How a query runs. catch-up: micro-batches up to the log's present end, then it ends by itself;
# leg: the batch alone that its checkpoint has planned.
Trigger = Literal["real-time", "micro-batch", "catch-up", "leg"]

# State partitions of a checkpoint. Fixed for the life of a checkpoint.
STATE_PARTITIONS = 2
