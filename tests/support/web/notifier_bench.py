"""The notifier at work on one rule, with a clock that the test sets: what reaches whom when."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.core.common import times
from dashboard.core.common.times import DAY_MS, MINUTE_MS
from dashboard.notify.notifications.channels import MailKind
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.delivery import alarm
from dashboard.notify.notifications.ingestion import ingest_incidents
from dashboard.notify.notifications.models import Channel, Message, Rota, Rule
from dashboard.watch.incidents.ingestion import IncidentChange
from dashboard.watch.incidents.models import Incident
from domain.notifications.events import BEGUN, ENDED
from support.web.clocks import at
from support.web.deliveries import deliver
from support.web.rotas import make_rota, put_on_call

NOON = at("2026-03-02T12:00")


@dataclass
class Bench:
    """The notifier at work on one rule of two stages.

    sent: what reached anybody, with its minute; refused: what a receiver answers if it takes
    nothing; is_down: whether the notifier runs; unread: what happened and nobody has read yet, None
    while it is read at once.
    """

    rule: Rule
    channel: Channel
    rota: Rota
    minute: int = 0
    refused: Exception | None = None
    is_down: bool = False
    unread: list[IncidentChange] | None = None
    sent: list[tuple[int, Message]] = field(default_factory=list)

    @property
    def now(self) -> int:
        """The time, Unix ms."""
        return NOON + self.minute * MINUTE_MS

    def take(self, message: Message) -> str:
        """Take a mail, as its server does."""
        if self.refused is not None:
            raise self.refused
        self.sent.append((self.minute, message))
        return "250 OK"

    def turn(self) -> None:
        """Have the notifier do what is due, unless it is down."""
        if self.is_down:
            return
        while decide(lambda: self.now):
            pass
        for _ in range(3):  # it looks every second, and holds a message each time
            deliver(lambda: self.now)
        alarm(lambda: self.now)

    def define(self, **definition: Any) -> None:
        """Change the rule."""
        self.rule.change(self.now, definition=self.rule.definition | definition)

    def happen(self, change: IncidentChange) -> None:
        """Let something happen to an incident."""
        if self.unread is None:
            self._read(change)
        else:
            self.unread.append(change)

    def read_on(self) -> None:
        """Read what nobody has read yet."""
        unread, self.unread = self.unread or [], None
        for change in unread:
            self._read(change)

    def _read(self, change: IncidentChange) -> None:
        Incident.objects.update_or_create(
            scenario=change.scenario, asset=change.asset, place=change.incident,
            defaults={"ended_at": change.at if change.kind == ENDED else None},
            create_defaults={
                "began_at": change.began_at, "state": change.state, "worst": change.worst,
            },
        )  # fmt: skip
        ingest_incidents([change], self.now)

    def at(self, minute: int) -> None:
        """Have the notifier do what is due in a minute."""
        self.minute = minute
        self.turn()

    def told(self, *kinds: str) -> list[int]:
        """When somebody was told, with messages of these kinds; by default of any but the end."""
        return [
            minute
            for minute, each in self.sent
            if (each.kind in kinds if kinds else each.kind != "resolved")
        ]


class Trouble:
    """An attack on a site."""

    def begin(self, bench: Bench, asset: str = "shop") -> None:
        """Let it begin."""
        self._happen(bench, asset, BEGUN, "under-attack")

    def end(self, bench: Bench, asset: str = "shop") -> None:
        """Let it end."""
        self._happen(bench, asset, ENDED, "clear")

    def _happen(self, bench: Bench, asset: str, kind: str, state: str) -> None:
        place = (f"{asset}-{kind}-{bench.minute}", bench.now, f"{asset}-1", bench.now)
        bench.happen(IncidentChange(kind, "attack", asset, *place, state, "under-attack"))


def made_bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a bench at noon, with a channel of mail, and a rota in which nina is on call."""
    soc = Channel.objects.create(name="SOC", kind="mail", address="soc@a.org", changed_at=1)
    bench = Bench(Rule.objects.create(name="Attacks", changed_at=1), soc, make_rota())
    monkeypatch.setattr(MailKind, "deliver", lambda _kind, message: bench.take(message))
    stopped = SimpleNamespace(now=lambda: times.utc_datetime(bench.now))
    monkeypatch.setattr(times, "timezone", stopped)
    put_on_call(bench.rota, "nina", end=NOON + 30 * DAY_MS)
    return bench
