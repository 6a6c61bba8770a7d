"""How far an errand has come, in words. Times in Unix ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from dashboard.job.models import BucketStatus, JobAsk
from wire.job import EXPIRES_MS

SILENT_MS = 60_000
"""After so long without a word of it the errand may have been lost with its job."""

Phase = Literal["waiting", "running", "arriving", "done", "bad"]


@dataclass(frozen=True, slots=True)
class Followed:
    """An errand as its page shows it. percent: None while it is not known."""

    ask: UUID
    phase: Phase
    text: str
    percent: int | None = None

    @property
    def moving(self) -> bool:
        """Whether more is to come."""
        return self.phase in ("waiting", "running", "arriving")


def follow(ask: UUID, complete: bool, now: int) -> Followed:
    """Where the errand of an ask is. complete: its whole result is in the database."""
    row = JobAsk.objects.filter(pk=ask).first()
    if complete:
        # The result may be faster than the answer that ends the ask.
        return Followed(ask, "done", (row.outcome if row else "") or "Done.")
    if row is None:
        return Followed(ask, "bad", "What became of it is not known any more.")
    match row.status:
        case "refused" | "failed" | "expired" | "unsent":
            return Followed(ask, "bad", f"{_WORDS[row.status]}: {row.outcome}")
        case "done":
            return _arriving(row, now)
        case "accepted":
            return _running(row)
    if now - row.asked_at > EXPIRES_MS:
        return Followed(ask, "bad", "The job has not answered in five minutes: ask again.")
    return Followed(ask, "waiting", "Sent; the job answers within a second or two where it runs.")


_WORDS = {
    "refused": "Refused",
    "failed": "Failed",
    "expired": "Expired",
    "unsent": "Not sent",
}


def _arriving(row: JobAsk, now: int) -> Followed:
    if now - (row.answered_at or now) > SILENT_MS:
        text = "It is done, but its result has not arrived: is the materialiser running? Ask again."
        return Followed(row.pk, "bad", text)
    return Followed(row.pk, "arriving", "Done; its result is on its way.", 100)


def _running(row: JobAsk) -> Followed:
    done, of, what = row.step_done, row.step_of, row.step_what
    if not of or done is None:
        return Followed(row.pk, "running", f"Under way: {what or 'starting'}.")
    percent = min(100, 100 * done // of)
    return Followed(row.pk, "running", f"Under way: {done:,} of {of:,} {what}.", percent)


def query_of(scenario: str) -> str | None:
    """The query that carries a scenario, as its buckets last told; None: nothing was heard."""
    beats = BucketStatus.objects.filter(scenario=scenario).order_by("-epoch", "-at")
    return beats.values_list("engine", flat=True).first()
