"""What Alertmanager's alerts say of an asset, until each of them is resolved.

Several alerts may speak for one agent of an asset, whose vote is the worst of those that fire. They
are kept by fingerprint: neither the order in which they come, nor a second Alertmanager, nor a
restart lets one that is resolved speak for one that fires.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from django.db import models, transaction
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.common.models import AgentRow
from dashboard.core.states.queries import listed
from domain.names import MAX_NAME, MAX_STATE
from domain.scenario import Scenario

MAX_FINGERPRINT = 64
"""Longest fingerprint, characters; Alertmanager's have 16."""


class AlertSource(NamedTuple):
    """Whose vote an alert is part of."""

    asset: str
    agent: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert as it was received.

    fingerprint: identifies it among those of its source; state: what it says while it fires;
    detail: JSON text; starts_at: when it began, Unix ms, or None if that cannot be read; ended_at:
    when it was resolved, Unix ms, or None while it fires.
    """

    source: AlertSource
    fingerprint: str
    state: str
    detail: str
    starts_at: int | None
    ended_at: int | None

    @property
    def at(self) -> int:
        """When it last changed, Unix ms, or 0 if unknown."""
        return max(self.starts_at or 0, self.ended_at or 0)


class FiringAlertQuerySet(models.QuerySet["FiringAlert"]):
    def record(self, scenario: str, alerts: Iterable[Alert], now: int) -> None:
        """Store what alerts say, received at `now` (Unix ms), and of one the newest word.

        An alert that was resolved before its like began again resolves nothing.
        """
        ordered = sorted(alerts, key=lambda alert: (alert.at, alert.ended_at is None))
        newest = {(alert.source, alert.fingerprint): alert for alert in ordered}.values()
        with transaction.atomic():
            for alert in newest:
                if alert.ended_at is not None:
                    self._resolve(scenario, alert, now)
            self._fire(scenario, [each for each in newest if each.ended_at is None], now)

    def _resolve(self, scenario: str, alert: Alert, now: int) -> None:
        rows = self._of(scenario, alert)
        if alert.starts_at is not None:
            rows = rows.filter(Q(starts_at=None) | Q(starts_at__lte=alert.starts_at))
        rows.update(ended_at=alert.ended_at, seen_at=now)

    def _of(self, scenario: str, alert: Alert) -> FiringAlertQuerySet:
        asset, agent = alert.source
        return self.filter(
            scenario=scenario, asset=asset, agent=agent, fingerprint=alert.fingerprint
        )

    def _fire(self, scenario: str, alerts: Collection[Alert], now: int) -> None:
        rows = {
            (alert.source, alert.fingerprint): FiringAlert(
                scenario=scenario,
                asset=alert.source.asset,
                agent=alert.source.agent,
                fingerprint=alert.fingerprint,
                state=alert.state,
                detail=alert.detail,
                starts_at=alert.starts_at,
                seen_at=now,
            )
            for alert in alerts
        }
        FiringAlert.objects.bulk_create(
            rows.values(),
            batch_size=500,
            update_conflicts=True,
            unique_fields=["scenario", "asset", "agent", "fingerprint"],
            update_fields=["state", "detail", "starts_at", "ended_at", "seen_at"],
        )

    def by_source(
        self, scenario: Scenario, sources: Collection[AlertSource], now: int
    ) -> dict[AlertSource, list[Alert]]:
        """Return what is known of each source's alerts, but of those not seen for so long that the
        board has forgotten a silent vote."""
        memory = (scenario.lifetime or 0) + (scenario.forget_delay or 0)
        rows = self.filter(
            scenario=scenario.name,
            asset__in=listed(sorted({source.asset for source in sources})),
            seen_at__gte=now - memory,
        )
        known: dict[AlertSource, list[Alert]] = {source: [] for source in sources}
        for row in rows.order_by("pk"):
            if row.source in known:
                known[row.source].append(row.alert)
        return known


class FiringAlert(AgentRow):
    """An alert of Alertmanager's that fires, or did until `ended_at`; see `Alert`.

    seen_at: when it was last received, Unix ms.
    """

    asset = models.CharField(max_length=MAX_NAME)
    fingerprint = models.CharField(max_length=MAX_FINGERPRINT)
    state = models.CharField(max_length=MAX_STATE)
    detail = models.TextField()
    starts_at = models.BigIntegerField(null=True)
    ended_at = models.BigIntegerField(null=True)
    seen_at = models.BigIntegerField()

    objects = FiringAlertQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "agent", "fingerprint"], name="one_row_per_alert"
            ),
        )
        indexes = (Index(fields=["seen_at"], name="alerts_seen"),)

    @property
    def source(self) -> AlertSource:
        """Whose vote it is part of."""
        return AlertSource(self.asset, self.agent)

    @property
    def alert(self) -> Alert:
        """The alert as it was received."""
        return Alert(
            self.source, self.fingerprint, self.state, self.detail, self.starts_at, self.ended_at
        )


def worst_of(scenario: Scenario, alerts: Iterable[Alert]) -> Alert | None:
    """Return the worst alert that fires, of equal ones the one that began last, or None."""
    firing = [alert for alert in alerts if alert.ended_at is None]
    return min(firing, key=lambda each: (scenario.severity(each.state), -each.at), default=None)
