"""Changes of rules: sent to the job, followed, kept. Times in Unix ms."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from dashboard.core.rate_limits import TooMany
from dashboard.job import requests
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


def send(one: Known, proposal: Proposal, base: str, reason: str, id_: UUID, user: User, now: int
) -> str:  # fmt: skip
    """Ask the job for the proposal, which was made from `base`; the same ask again is one.

    Returns how sending went. Raises limits.TooMany, and then nothing was asked.
    """
    assert one.told is not None
    row = RuleChange(
        id=id_,
        scenario=one.scenario.name,
        user=user,
        username=user.get_username(),
        reason=reason,
        asked_at=now,
        before=one.told.rule,
        after=text_of(proposal.wanted),
        reverted=not proposal.keys,
        status="sending",
    )
    parameters = {"scenario": one.scenario.name, "keys": proposal.keys, "base": base}
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            _bound(row.scenario)
    except IntegrityError:  # the same form, sent twice
        return "sent before"
    try:
        ask = requests.send(one.told.query, "rule", reason, id_, user, now, parameters)
    except TooMany:
        row.delete()
        raise
    unanswered = RuleChange.objects.filter(pk=id_, status="sending")
    unanswered.update(status=ask.status, outcome=ask.outcome)
    return ask.status


def _bound(scenario: str) -> None:
    kept = RuleChange.objects.filter(scenario=scenario).order_by("-asked_at")
    for first in kept.values_list("asked_at", flat=True)[KEPT : KEPT + 1]:
        kept.filter(asked_at__lte=first).delete()


@dataclass(frozen=True, slots=True)
class Change:
    """A change as a page lists it. moves: the keys that it changes, before and after."""

    row: RuleChange
    word: str
    tone: requests.Tone
    text: str
    moves: list[Compared]

    @property
    def took(self) -> int | None:
        """From the ask to its end, ms."""
        return None if self.row.answered_at is None else self.row.answered_at - self.row.asked_at


def changes(scenario: str, now: int) -> list[Change]:
    """The newest changes of a scenario that were asked for here."""
    rows = RuleChange.objects.filter(scenario=scenario).order_by("-asked_at")[:LISTED]
    return [told(row, now) for row in rows]


def told(row: RuleChange, now: int) -> Change:
    """A change, and what has become of it by `now`."""
    word, tone, text = requests.fate(row.status, row.outcome, row.asked_at, now)
    both = compared(parsed(row.before), parsed(row.after))
    return Change(row, word, tone, text, [each for each in both if each.differs])
