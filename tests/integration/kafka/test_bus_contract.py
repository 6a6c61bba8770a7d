"""Kafka and its twin in memory keep one contract."""

from __future__ import annotations

import math
import time
import uuid

import pytest

from bus.base import Bus
from bus.kafka import KafkaBus
from bus.memory import MemoryBus
from support.kafka.bus_contract import *  # noqa: F403
from support.run.stack import EmbeddedBroker


@pytest.fixture(params=["kafka", "memory"])
def bus(request: pytest.FixtureRequest) -> Bus:
    if request.param == "memory":
        memory = MemoryBus(lambda: int(time.time() * 1000))
        memory.longest_wait_s = math.inf  # as it is outside tests
        return memory
    broker: EmbeddedBroker = request.getfixturevalue("broker")
    return KafkaBus({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def prefix() -> str:
    return f"bus-{uuid.uuid4().hex[:8]}"
