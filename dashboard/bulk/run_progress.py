"""The progress of a run, in figures that add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from dashboard.audit.log import Actor, note
from dashboard.bulk.models import (
    APPLIED,
    FATES,
    LEFT,
    NO_CHANGE,
    READY,
    REFUSED,
    RUNNING,
    SENT,
    SKIPPED,
    STATUSES,
    UNSENT,
    WAITING,
    Item,
    Run,
)
from dashboard.core.scenarios import scenarios
from domain.scenario import Scenario

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
        return [(f, self.word(f), self.counts[f]) for f in FATES if self.counts.get(f)]

    def word(self, fate: str) -> str:
        """Return a fate in words."""
        return UNANSWERED if fate == SENT and self.run.ended_at else FATES[fate]


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


def note_run(actor: Actor, run: Run, action: str, outcome: str, **facts: Any) -> None:
    """Log what was done to a run: who prepared it, in whose name it goes, how far it has come."""
    progress = progress_of(run)
    note(
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
