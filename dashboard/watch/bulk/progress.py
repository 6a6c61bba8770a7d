"""The progress of a run, in figures that add up, and its commands in the history of an asset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.scenarios import scenarios
from dashboard.watch.bulk.models import (
    APPLIED,
    LEFT,
    NO_CHANGE,
    OUTCOMES,
    READY,
    REFUSED,
    REVIEW,
    RUNNING,
    SENDING,
    SENT,
    SKIPPED,
    STATUSES,
    UNSENT,
    WAITING,
    Item,
    Run,
)
from dashboard.watch.commands.models import Command
from domain import records
from domain.scenario import Scenario

# ---- run progress --------------------------------------------------------------------------------
# The progress of a run, in figures that add up.

ENDS = (APPLIED, NO_CHANGE, REFUSED, UNSENT, LEFT)
"""The fates that nothing comes after, of what was to be sent."""
UNANSWERED = "Unanswered"
"""What a command is called whose answer is not waited for any more."""
MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run: how many of its assets have each fate."""

    run: Run
    counts: Mapping[str, int]

    @property
    def scenario(self) -> Scenario | None:
        """Return the run's scenario, where that is still configured."""
        return scenarios().get(self.run.scenario)

    @property
    def will(self) -> int:
        """Return how many are to be sent, or were."""
        return self.run.matched - self.skipped

    @property
    def skipped(self) -> int:
        """Return how many the review left out."""
        return self.counts.get(SKIPPED, 0)

    @property
    def ready(self) -> int:
        """Return how many are still to be sent."""
        return self.counts.get(READY, 0)

    @property
    def waiting(self) -> int:
        """Return how many have no answer yet."""
        return sum(self.counts.get(fate, 0) for fate in WAITING)

    @property
    def applied(self) -> int:
        """Return how many were applied."""
        return self.counts.get(APPLIED, 0)

    @property
    def refused(self) -> int:
        """Return how many the job refused."""
        return self.counts.get(REFUSED, 0)

    @property
    def ended(self) -> int:
        """Return how many have a known outcome."""
        return sum(self.counts.get(fate, 0) for fate in ENDS)

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left to be sent, and no answer is waited for."""
        return self.run.ended_at is not None or not (self.ready or self.waiting)

    @property
    def percent(self) -> float:
        """Return how many of those to be sent have ended, of a hundred."""
        return round(100 * self.ended / self.will, 1) if self.will else 100.0

    @property
    def percent_sent(self) -> float:
        """Return how many of those to be sent are on their way or have ended, of a hundred."""
        return round(100 * (self.will - self.ready) / self.will, 1) if self.will else 100.0

    @property
    def to_go_ms(self) -> int | None:
        """Return how long until all is sent, ms; None where that is not known."""
        running = self.run.status == RUNNING and self.ready and self.run.rate
        return int(1000 * self.ready / self.run.rate) + 1000 if running else None

    @property
    def status(self) -> str:
        """Return the run's status in words."""
        if self.run.status == RUNNING and not self.ready:
            return "Waiting for answers"
        return STATUSES[self.run.status]

    @property
    def lines(self) -> list[tuple[str, str, int]]:
        """Return each fate that there is, in words, with how many have it.

        The numbers add up to `matched`.
        """
        return [(f, self.word(f), self.counts[f]) for f in OUTCOMES if self.counts.get(f)]

    def word(self, fate: str) -> str:
        """Return a fate in words."""
        return UNANSWERED if fate == SENT and self.run.ended_at else OUTCOMES[fate]


def progress_of(run: Run) -> RunProgress:
    """Return how far a run has come."""
    return RunProgress(run, run.tallies if run.ended_at else counts(run))


def counts(run: Run) -> dict[str, int]:
    """Return how many of a run's assets have each fate, read from the index alone."""
    groups = Item.objects.filter(run=run).values_list("fate").annotate(n=Count("pk"))
    return dict(groups.order_by())


def reasons(run: Run, fate: str) -> list[tuple[str, int]]:
    """Return why assets were left out or refused, the commonest first."""
    groups = Item.objects.filter(run=run, fate=fate).values_list("text").annotate(n=Count("pk"))
    return list(groups.order_by("-n", "text")[:MOST_REASONS])


def log_run(actor: Actor, run: Run, action: str, outcome: str, **facts: Any) -> None:
    """Log what was done to a run: who prepared it, in whose name it goes, how far it has come."""
    progress = progress_of(run)
    record(
        actor,
        action,
        scenario=run.scenario,
        target=str(run.pk),
        outcome=outcome,
        kind=run.kind,
        state=run.state or None,
        reason=run.reason,
        chosen=run.chosen,
        prepared_by=run.username,
        sent_as=run.sender_name,
        assets=progress.will,
        counts=dict(progress.counts),
        **facts,
    )


# ---- asset history -------------------------------------------------------------------------------
# A run's commands in the history of one asset, in the form of commands that are given singly.

# Of a command that a run has given; its `form` holds the run's id.
SOURCE = "bulk"

_STATUS = {SENDING: "sending", SENT: "sent", UNSENT: "unsent"}
_OUTCOME = {APPLIED: records.APPLIED, NO_CHANGE: records.NO_CHANGE}


def commands_of(
    scenario: str, asset: str, before: int | None = None, most: int = 30
) -> list[Command]:
    """Return the runs' commands of an asset that have a place in the log, the newest first.

    before: an offset that they lie before. They are not rows of the table of commands.
    """
    items = _items(scenario, asset).filter(offset__isnull=False)
    if before is not None:
        items = items.filter(offset__lt=before)
    return [_command(item) for item in items.order_by("-offset")[:most]]


def _items(scenario: str, asset: str) -> QuerySet[Item]:
    of_scenario = Q(asset=asset, run__scenario=scenario)
    return Item.objects.filter(of_scenario).exclude(run__status=REVIEW).select_related("run")


def _command(item: Item) -> Command:
    run = item.run
    refusal = records.REFUSED + item.text if item.fate == REFUSED else item.text
    return Command(
        id=UUID(item.command),
        scenario=run.scenario,
        asset=item.asset,
        kind=run.kind,
        state=run.state,
        until=run.until,
        reason=run.reason,
        user=None,
        username=run.sender_of(item.number),
        source=SOURCE,
        created_at=run.started_at or run.created_at,
        status=_STATUS.get(item.fate, "answered"),
        partition=item.partition,
        offset=item.offset,
        outcome=_OUTCOME.get(item.fate, refusal),
        version=item.answered_version,
        form=str(run.pk),
    )
