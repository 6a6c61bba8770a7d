"""What a query is to know of its buckets, for either engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.python_rules import rule_functions
from streaming.fold.epochs import EpochStart
from streaming.state.buckets import BucketId

# How a seed begins that Spark hands out to Python's workers, before its name.
HANDED_OUT = "handed-out:"


@dataclass(frozen=True)
class Plan:
    """The plan of the buckets, for the processor.

    epoch: of the checkpoint; partitions: of each scenario's source topic; rules: the first rule of
    each bucket, as JSON, which also covers what came before it in the log; start: how the epoch
    begins; keys: the file of the keys that sign commands, None where nobody looks at signatures;
    job: which heartbeats name, empty for the main one.
    """

    prefix: str
    epoch: int
    partitions: Mapping[str, int]
    rules: Mapping[BucketId, str] = field(default_factory=dict)
    start: EpochStart = field(default_factory=EpochStart)
    keys: str | None = None
    job: str = ""

    def json(self, *, real_time: bool) -> str:
        """Return the plan as JSON, as the kernel reads it."""
        fields = {
            "prefix": self.prefix,
            "epoch": self.epoch,
            "real_time": real_time,
            "partitions": dict(self.partitions),
            "rules": {str(bucket): rule for bucket, rule in self.rules.items()},
            "functions": rule_functions(),
            "seeds": self.start.seeds,
            "quiet": self.start.quiet,
            "bounds": self.start.bounds,
            "logs": self.start.logs,
            "keys": self.keys,
            "job": self.job,
        }
        return json.dumps(fields)
