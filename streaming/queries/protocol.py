"""What passes between the driver and a batch query: requests, answers, errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from py4j.protocol import Py4JNetworkError

from bus.base import Bus, BusError, Delivered
from streaming.fold.query import PARTITIONS
from streaming.spark.restart_policy import first_line
from streaming.spark.session import start_session
from wire.batch_query import ReadState, Result, Snapshot, encode_result
from wire.job import AskStep, Outcome
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings


# ---- errors --------------------------------------------------------------------------------------
# Why a batch query is not carried out.


class QueryRefused(Exception):
    """Nothing was done; the message says what was expected."""


# ---- protocol ------------------------------------------------------------------------------------
# Messages between the driver and a batch query's process: lines of JSON.


class ReadRequest(msgspec.Struct, frozen=True, tag="read-state"):
    """Read a checkpoint's committed state. partitions: of the scenario's source topic."""

    id: str
    parameters: ReadState
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

    step: AskStep


OutputRecord = Ended | Stepped


# ---- publisher -----------------------------------------------------------------------------------
# What a batch query brings back, into `job.results`: in parts, each confirmed.

CONFIRM_S = 30.0

# Called with how much is done, of how much, and of what.
OnStep = Callable[[int, int, str], None]


class Publisher:
    """Sends the parts of one result, in order."""

    def __init__(self, bus: Bus, topics: Topics, ask: str) -> None:
        self._producer, self._topic, self.ask = bus.producer(), topics.results, ask
        self._faults: list[BusError] = []
        self.parts = 0

    def send(self, result: Result) -> None:
        """Enqueue a part. Raises BusError."""
        self._producer.send(
            self._topic, self.ask.encode(), encode_result(result), on_delivery=self._delivered
        )
        self.parts += 1
        self._producer.poll(0)

    def _delivered(self, outcome: Delivered | BusError) -> None:
        if isinstance(outcome, BusError):
            self._faults.append(outcome)

    def confirm(self) -> None:
        """Return once all parts are in the topic. Raises BusError."""
        left = self._producer.flush(CONFIRM_S)
        if self._faults or left:
            raise self._faults[0] if self._faults else BusError(f"{left} parts are not confirmed")

    def close(self) -> None:
        """Close the connection."""
        self._producer.close()


def reason(error: Exception, settings: Settings) -> str:
    """Return why a batch query failed, for its answer."""
    if isinstance(error, (ConnectionError, Py4JNetworkError)):
        return (
            f"Spark's JVM ended, as it does when its heap of {settings.batch_query_memory} is "
            f"full: raise TALLYBOARD_BATCH_QUERY_MEMORY"
        )
    return f"{type(error).__name__}: {first_line(str(error))}"


# ---- session -------------------------------------------------------------------------------------
# The Spark session of a batch query: small, and apart from that of the query.

# How far behind the query a batch query stands when both want the processor.
NICE = 10


def scratch_of(settings: Settings) -> Path:
    """Return where a batch query keeps what it needs while it runs; there is one at a time."""
    return settings.data_dir / "batch-query"


def start_batch_session(settings: Settings, folder: Path | None = None) -> SparkSession:
    """Start Spark for one batch query, in a folder that is emptied first.

    folder: another than that of the job's batch queries. Raises VersionProblem or KernelProblem.
    """
    os.nice(NICE)
    scratch = folder or scratch_of(settings)
    shutil.rmtree(scratch, ignore_errors=True)
    own = {
        "data_dir": scratch,
        "spark_master": f"local[{settings.batch_query_cores}]",
        "spark_memory": settings.batch_query_memory,
        "spark_ui_port": 0,
    }
    spark = start_session(settings.model_copy(update=own), settings.batch_query_cores)
    spark.conf.set(PARTITIONS, str(settings.batch_query_cores))
    return spark


def width(spark: SparkSession) -> int:
    """Return how many tasks of a session fold, and sort, at once."""
    return int(str(spark.conf.get(PARTITIONS)))
