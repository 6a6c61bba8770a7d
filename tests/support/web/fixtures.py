"""What tests without real processes are given; their conftest files take it from here.

Django's models may be imported only once it is set up: inside, not above.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

    from dashboard.core.common.kafka import Gateway
    from dashboard.notify.notifications.models import Channel
    from support.kafka.sinks import PlayedJob
    from support.spark.driver_harness import Stage
    from support.web.world import World

PLAYED_FROM = 1_790_000_000_000
"""When the played job begins, Unix ms."""


@pytest.fixture
def bus() -> Iterator[Gateway]:
    """Everything is sent through a bus in memory; no limit remembers anybody."""
    from dashboard.core.common.scenarios import scenarios
    from support.web.web_fixtures import forget_limits, memory_bus

    forget_limits()
    with memory_bus(scenarios()) as gateway:
        yield gateway


@pytest.fixture
def shop(bus: Gateway, db: None) -> None:
    """The site `shop` is on the board of attacks, and clear."""
    from support.web.web_fixtures import show

    show("attack", "shop", "clear")


@pytest.fixture
def job() -> PlayedJob:
    """The job's part, played on a bus in memory whose clock goes on by a second at each look."""
    from bus.memory import MemoryBus
    from domain.scenario_parser import load_scenarios
    from support.kafka.sinks import PlayedJob
    from support.run.stack import ROOT

    clock = itertools.count(PLAYED_FROM, 1000)
    shipped = load_scenarios(ROOT / "scenarios.toml")
    return PlayedJob(MemoryBus(lambda: next(clock)), shipped.values())


@pytest.fixture
def world() -> Iterator[World]:
    """That bus, with the job's part played on it."""
    from support.web.world import made_world

    with made_world() as world:
        yield world


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> int:
    """The time that it is for the web side and the bus, from now until the test ends."""
    from dashboard.core.common.times import now_ms
    from support.web.clocks import stop_clock

    now = now_ms()
    stop_clock(monkeypatch, now)
    return now


@pytest.fixture
def user(db: None, request: pytest.FixtureRequest) -> User:
    """Who uses `client`: with the role of the mark `role`, by default an operator."""
    from support.web.web_fixtures import make_user

    mark = request.node.get_closest_marker("role")
    return make_user(mark.args[0] if mark else "operator")


@pytest.fixture
def client(user: User) -> Client:
    """A browser in which the user is logged in."""
    from support.web.web_fixtures import logged_in

    return logged_in(user)


@pytest.fixture
def admin(db: None) -> Client:
    """A browser in which an admin is logged in."""
    from support.web.web_fixtures import logged_in_as

    return logged_in_as("admin")


@pytest.fixture
def headers(db: None) -> dict[str, str]:
    """An operator's token of all scopes, as a program sends it."""
    from support.web.web_fixtures import bearer, make_user

    return bearer(make_user("operator"))


@pytest.fixture
def channel(db: None) -> Channel:
    """A channel of mail."""
    from dashboard.notify.notifications.models import Channel

    return Channel.objects.create(name="SOC", kind="mail", address="soc@example.org", changed_at=1)


@pytest.fixture
def gateway(bus: Gateway) -> Iterator[Gateway]:
    """That bus, and a web process that has heard nothing yet."""
    from dashboard.board.live.live_view import live_view

    live_view.cache_clear()
    yield bus
    live_view.cache_clear()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A driver that runs its query."""
    from bus.memory import MemoryBus
    from support.spark.driver_harness import SCENARIOS, Stage

    stage = Stage(tmp_path, MemoryBus(lambda: int(time.time() * 1000)), monkeypatch)
    stage.file.write_text(SCENARIOS)
    stage.begin()
    stage.wait_for("running")
    yield stage
    stage.end()
