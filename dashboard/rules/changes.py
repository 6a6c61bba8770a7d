"""Changes of rules: requested of the job, followed, kept. Times in Unix ms."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User

from dashboard.core.tables import Column, Table
from dashboard.job import requests
from dashboard.job.request_progress import RequestProgress
from dashboard.rules.active_rule import parsed
from dashboard.rules.descriptions import Compared, compared
from dashboard.rules.ingestion import text_of
from dashboard.rules.models import RuleChange
from dashboard.rules.proposal import Proposal
from dashboard.rules.scenario_status import Known

LISTED = 50
"""How many changes a page lists."""
KEPT = 1_000
"""How many changes of a scenario are kept, the newest."""


def send(status: Known, proposal: Proposal, base: str, reason: str, id_: UUID, user: User, now: int
) -> str:  # fmt: skip
    """Request the proposal, which was made from `base`, of the job; the same id is sent once.

    Returns how sending went. Raises rate_limits.TooMany, and then nothing was requested.
    """
    assert status.told is not None
    change = RuleChange(
        id=id_,
        scenario=status.scenario.name,
        user=user,
        username=user.get_username(),
        reason=reason,
        asked_at=now,
        before=status.told.rule,
        after=text_of(proposal.wanted),
        reverted=not proposal.keys,
        status="sending",
    )
    parameters = {"scenario": change.scenario, "keys": proposal.keys, "base": base}
    request, fresh = requests.send(
        status.told.query,
        "rule",
        user,
        now,
        reason=reason,
        id_=id_,
        parameters=parameters,
        detail=change,
    )
    if not fresh:
        return "sent before"
    _bound(change.scenario)
    return request.status


def _bound(scenario: str) -> None:
    kept = RuleChange.objects.filter(scenario=scenario).order_by("-asked_at")
    for first in kept.values_list("asked_at", flat=True)[KEPT : KEPT + 1]:
        kept.filter(asked_at__lte=first).delete()


@dataclass(frozen=True)
class Change(RequestProgress):
    """A change as a page lists it."""

    @property
    def moves(self) -> list[Compared]:
        """Return the keys that it changes, before and after."""
        both = compared(parsed(self.row.before), parsed(self.row.after))
        return [each for each in both if each.differs]


CHANGES = Table("changes", Column.time("When"), "Who", "Why", "What", "Outcome", css="compared")


def changes(scenario: str, now: int) -> list[Change]:
    """Return the newest changes of a scenario that were requested here."""
    rows = RuleChange.objects.filter(scenario=scenario).order_by("-asked_at")[:LISTED]
    return [Change(row, now) for row in rows]
