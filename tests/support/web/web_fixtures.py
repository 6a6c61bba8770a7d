"""What tests of pages and of the API share: users, a bus in memory, the job's part played."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from allauth.account.internal.flows.login import record_authentication
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import Group, User
from django.core.cache import caches
from django.http import HttpRequest
from django.test import Client
from django.utils import timezone

from bus.base import ConsumerRecord, TopicSpec
from bus.memory import MemoryBus
from dashboard.core.accounts import tokens
from dashboard.core.common.access import Action
from dashboard.core.common.kafka import Gateway, use
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states import stores
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import NOTHING, stored
from dashboard.core.states.rows import COLUMNS, record_row, seen_of
from dashboard.notify.notifications import models
from dashboard.operate.console.topic_copies import copies
from dashboard.serve.materialiser.writer import count, count_doubts
from dashboard.watch.annotations.models import Label
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.incidents.models import Case, Incident, Window
from domain.notifications.rule_parser import plain_rule, rule_from_plain
from domain.records import Cause, Command, StateRecord
from domain.scenario import Scenario
from domain.version import Version
from stores.global_store import GlobalStore
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


@contextmanager
def copied(scenario: str = "orders", *others: str) -> Iterator[GlobalStore]:
    """Have this process's copies of scenarios level with the bus's log; yield the first."""
    stores.forget()
    for copy in (tables := [*map(stores.global_store, (scenario, *others))]):
        while not copy.health().ready:
            copy.feed.step()
    yield tables[0]
    stores.forget()


def known_view(*records: tuple[bytes, bytes | None]) -> None:
    """This process's copy of the view of orders, caught up with these records."""
    copies.cache_clear()
    table = copies()["orders"]
    table.begin({0: (0, len(records))}, now_ms())
    table.apply(
        ConsumerRecord(table.view.topic, 0, offset, now_ms(), key, value, ())
        for offset, (key, value) in enumerate(records)
    )
    table.reach({0: len(records)})


def error_of(response: Any, field: str) -> str:
    """What a page says beside a field of its form, or above the form of one that is hidden."""
    body = response.content.decode()
    beside = rf'id="(?:[^"]*[_-])?{field}_error"[^>]*>\s*<p>(.*?)</p>'
    match = re.search(beside, body) or re.search(rf"\(Hidden field {field}\) (.*?)</p>", body)
    return match[1] if match else ""


def make_user(role: str, password: str = "") -> User:
    """A user with this role; `none` has no group. password: with which to log in, if at all."""
    user = User.objects.create(username=role)
    if password:
        user.set_password(password)
        user.save()
    if role != "none":  # a test with transactions of its own leaves no group behind
        user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user


def logged_in(user: User) -> Client:
    """Return a browser in which the user is logged in."""
    browser = Client()
    browser.force_login(user)
    return browser


def confirmed(browser: Client) -> Client:
    """Return a browser whose user has just given the password again."""
    request: Any = HttpRequest()
    request.session, request.user = browser.session, get_user(browser)
    record_authentication(request, request.user, "password", reauthenticated=True)
    request.session.save()
    return browser


def logged_in_as(role: str) -> Client:
    """Return a browser in which a new user of this role is logged in."""
    return logged_in(make_user(role))


def pages_of(client: Client, path: str, shown: Callable[[Client, str], list[str]]) -> list[str]:
    """Return what `shown` finds on all pages of a list, the newest first."""
    met, query = [], ""
    while True:
        met += shown(client, query)
        page = client.get(f"{path}{query}").content.decode()
        older = re.search(r'href="\?[^"]*before=(\d+)"', page)
        if older is None:
            return met
        query = f"?before={older[1]}"


INCIDENT = 4711
MESSAGE = "6f1d7a9e-0000-4000-8000-000000000001"


def known_incident(number: int = INCIDENT) -> None:
    """An open incident with this number, of an asset with a customer."""
    Label.objects.create(
        scenario="attack",
        asset="shop",
        key="customer",
        value="Acme",
        source="person",
        name="x",
        at=1,
    )
    case = Case.objects.create(pk=number, scenario="attack", began_at=now_ms())
    Incident.objects.create(
        pk=number, case=case, scenario="attack", asset="shop", place="1", began_at=now_ms(),
        state="suspicious", worst="under-attack",
    )  # fmt: skip


def known_notifications(number: int = INCIDENT, message: str = MESSAGE) -> None:
    """A rule, a channel and a rota with this number, and a message."""
    models.Channel.objects.create(
        pk=number, name="SOC", kind="mail", address="soc@example.org", changed_at=1
    )
    models.Rota.objects.create(pk=number, name="Night shift", kinds=["mail"], changed_at=1)
    definition = plain_rule(rule_from_plain({"stages": [{"channels": [number]}]}))
    models.Rule.objects.create(pk=number, name="Attacks", definition=definition, changed_at=1)
    models.Message.objects.create(
        pk=message, kind="opened", subject="1 site under attack", means="mail",
        recipient="soc@example.org", rule_id=number, created_at=now_ms(),
    )  # fmt: skip


def known_window(number: int = INCIDENT) -> None:
    """A running maintenance window over all with this number."""
    now = now_ms()
    Window.objects.create(
        pk=number, scenario="attack", name="racks", covers="all", begin=now - 60_000,
        end=now + 3_600_000, planned_end=now + 3_600_000, created_at=now,
    )  # fmt: skip


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
    columns = dict(zip(COLUMNS, record_row(scenarios()[scenario], seen), strict=True))
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
    messages: list[ConsumerRecord] = []
    deadline = time.monotonic() + 30
    while reader.positions() != ends and time.monotonic() < deadline:
        messages += reader.poll(0.5, 100_000)
    reader.close()
    return [((m.key or b"").decode(), decode_source(m.key, m.value, m.timestamp)) for m in messages]


def commands_sent(gateway: Gateway, scenario: str) -> list[Command]:
    """The commands among what was sent."""
    return [record for _, record in sent(gateway, scenario) if isinstance(record, Command)]
