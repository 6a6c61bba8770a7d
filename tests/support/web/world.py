"""A bus in memory with the job's part played on it, for pages that command and look on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bus.memory import MemoryBus
from dashboard.board.live.live_view import live_view
from dashboard.board.live.tailer import Tailer
from dashboard.core.common.kafka import Gateway
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import now_ms
from dashboard.serve.materialiser.worker import Materialiser
from domain.records import Command, Report
from support.kafka.sinks import PlayedJob
from support.web.web_fixtures import forget_limits, memory_bus


class World:
    """Reports and commands in; what the job makes of them into the database or the live view."""

    def __init__(self, gateway: Gateway) -> None:
        assert isinstance(gateway.bus, MemoryBus)
        self.gateway, self.bus = gateway, gateway.bus
        self.job = PlayedJob(self.bus, scenarios().values())

    def report(self, asset: str, state: str, *agents: str, scenario: str = "attack") -> None:
        """One report of each agent."""
        for agent in agents or ("waf-1", "waf-2"):
            self.job.put(scenario, Report(asset, agent, state))

    def command(
        self,
        kind: Any,
        asset: str,
        user: str = "olga",
        scenario: str = "attack",
        reason: str = "a drill",
        **more: Any,
    ) -> str:
        """A command that another process gives; its id."""
        id_ = str(uuid.uuid4())
        self.job.put(scenario, Command(kind, asset, id_, user, reason, **more))
        return id_

    def later(self, ms: int) -> None:
        """The broker's clock jumps ahead, and time passes in every bucket."""
        clock = self.bus._clock
        self.bus._clock = lambda: clock() + ms
        self.job.tick()

    def write(self) -> None:
        """Fold what there is, and materialise it."""
        self.job.run()
        self.materialise()

    def materialise(self) -> None:
        """Materialise what was sent to the topics."""
        materialiser = Materialiser(self.bus, topics(), scenarios(), now_ms)
        while materialiser.step():
            pass
        materialiser.close()

    def tail(self) -> None:
        """Fold what there is, and let the web process's tailer alone read it."""
        self.job.run()
        tailer = Tailer(self.bus, topics(), scenarios(), live_view())
        while tailer.step():
            pass


@contextmanager
def made_world() -> Iterator[World]:
    """A world to send through; the live view begins and ends empty."""
    forget_limits()
    live_view.cache_clear()
    with memory_bus(scenarios()) as gateway:
        yield World(gateway)
    live_view.cache_clear()
