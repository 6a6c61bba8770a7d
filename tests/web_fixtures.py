"""What tests of pages and of the API share: users, a bus in memory, the job's part played."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.cache import caches
from django.utils import timezone

from bus.base import Message, TopicSpec
from bus.memory import MemoryBus
from dashboard.accounts import tokens
from dashboard.commands.models import Command as Row
from dashboard.core.kafka import Gateway, use
from dashboard.core.roles import Action
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.materialiser.writer import count, count_doubts
from dashboard.states.models import AssetState
from dashboard.states.queries import NOTHING, stored
from dashboard.states.record_rows import COLUMNS, row_of, seen_of
from domain.records import Cause, Command, StateRecord
from domain.scenario import Scenario
from domain.version import Version
from wire.source import decode_source
from wire.topics import Topics

ROLES = ("anonymous", "none", "manager", "operator", "admin")
"""Everybody who may come: without login, without role, and with each role."""


@contextmanager
def memory_bus(scenarios: dict[str, Scenario]) -> Iterator[Gateway]:
    """Send through a bus in memory that has the scenarios' topics."""
    bus, topics = MemoryBus(now_ms), Topics()
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs(scenarios.values()))
    with use(bus, topics) as gateway:
        yield gateway


def make_user(role: str) -> User:
    """A user with this role; `none` has no group."""
    user = User.objects.create(username=role)
    if role != "none":  # a test with transactions of its own leaves no group behind
        user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user


def forget_limits() -> None:
    """Empty every cache: no limit remembers anybody."""
    for name in settings.CACHES:
        caches[name].clear()


def bearer(user: User, *scopes: Action) -> dict[str, str]:
    """The header with a new token of the user, of these scopes, or of all."""
    token = tokens.issue(user, timezone.now(), scopes=scopes or tuple(tokens.SCOPES))
    return {"Authorization": f"Bearer {token}"}


def show(scenario: str, asset: str, state: str, offset: int = 1, **more: Any) -> AssetState:
    """Put an asset on the board, as the materialiser does; more: fields of its state record."""
    fields = {"previous": None, "since": 1_000, "unconfirmed": False} | more
    cause = Cause("report", 0, offset, 1_000, agent="waf-1")
    seen = seen_of(StateRecord(asset, state, version=Version(1, offset, 0), cause=cause, **fields))
    before = stored(scenario, [asset]).get(asset, NOTHING)
    moves = Counter({(scenario, before.state): -1}) if before.state else Counter()
    moves[scenario, state] += 1
    count(moves)
    doubts = Counter({(scenario, doubt): -1 for doubt in before.doubts})
    doubts.update((scenario, doubt) for doubt in seen.doubts)
    count_doubts(doubts)
    columns = dict(zip(COLUMNS, row_of(scenarios()[scenario], seen), strict=True))
    row, _ = AssetState.objects.update_or_create(scenario=scenario, asset=asset, defaults=columns)
    return row


def answer(command_id: Any, outcome: str = "applied", version: str = "1.7.0") -> None:
    """Answer a command, as the job and the materialiser do."""
    Row.objects.filter(pk=command_id).update(
        status="answered",
        outcome=outcome,
        version=Version.parse(version).sortable(),
        answered_at=now_ms(),
    )


def sent(gateway: Gateway, scenario: str) -> list[tuple[str, Any]]:
    """What reached the scenario's source topic: assets, and the records as the job reads them."""
    edges = gateway.bus.offsets([gateway.topics.reports(scenario)])
    ends = {place: end for place, (_, end) in edges.items()}
    reader = gateway.bus.reader({place: begin for place, (begin, _) in edges.items()})
    messages: list[Message] = []
    deadline = time.monotonic() + 30
    while reader.positions() != ends and time.monotonic() < deadline:
        messages += reader.poll(0.5, 100_000)
    reader.close()
    return [((m.key or b"").decode(), decode_source(m.key, m.value, m.timestamp)) for m in messages]


def commands_sent(gateway: Gateway, scenario: str) -> list[Command]:
    """The commands among what was sent."""
    return [record for _, record in sent(gateway, scenario) if isinstance(record, Command)]
