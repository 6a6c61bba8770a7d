"""The progress of a batch query, until its whole result is in the database. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from dashboard.job.models import JobRequest
from dashboard.job.request_progress import RequestProgress

# A result that has not arrived so long after its query's end may not arrive at all.
SILENT_MS = 60_000

Step = Literal["waiting", "running", "arriving", "done", "bad"]


@dataclass(frozen=True)
class QueryProgress(RequestProgress):
    """A batch query as its page shows it. complete: its whole result is in the database."""

    id: UUID
    complete: bool

    @property
    def step(self) -> Step:
        """Return where the query is on its way."""
        if self.complete:  # the result may be faster than the answer that ends the request
            return "done"
        if self.request is None or self.tone == "bad":
            return "bad"
        if self.request.status == "done":
            late = self.now - (self.request.answered_at or self.now) > SILENT_MS
            return "bad" if late else "arriving"
        return "running" if self.request.status == "accepted" else "waiting"

    @property
    def moving(self) -> bool:
        """Return whether more is to come."""
        return self.step in ("waiting", "running", "arriving")

    @property
    def text(self) -> str:
        """Return the step in a sentence, and why it is so."""
        match self.step:
            case "done":
                return (self.request.outcome if self.request else "") or "Done."
            case "waiting":
                return "Sent. The job answers within a second or two where it runs."
            case "running":
                return self._running()
            case "arriving":
                return "Done. Its result is on its way."
        if self.request is None:
            return "It ended long ago. Its outcome is no longer stored."
        if self.request.status == "done":
            return (
                "It is done, but its result has not arrived: is the materialiser running? "
                "Run it again."
            )
        return f"{self.word.capitalize()}: {super().text}"

    def _running(self) -> str:
        done, of, what = self.row.step_done, self.row.step_of, self.row.step_what
        if self.percent is None:
            return f"Running: {what or 'starting'}."
        return f"Running: {done:,} of {of:,} {what}."

    @property
    def percent(self) -> int | None:
        """Return how far the query has come, of a hundred; None while that is not known."""
        if self.step == "arriving":
            return 100
        done, of = (self.row.step_done, self.row.step_of) if self.request else (None, None)
        return None if done is None or not of else min(100, 100 * done // of)


def progress_of(row: Any, now: int) -> QueryProgress:
    """Return how far the query has come of whose result `row` is."""
    return progress_of_all([row], now)[0]


def progress_of_all(rows: Iterable[Any], now: int) -> list[QueryProgress]:
    """Return how far each query has come, in the order of the rows of their results."""
    rows = list(rows)
    requests = JobRequest.objects.in_bulk([row.pk for row in rows])
    return [QueryProgress(requests.get(row.pk), now, row.pk, row.complete) for row in rows]
