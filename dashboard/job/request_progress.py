"""The progress of a request to the job, in words. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dashboard.core.tables import Column, Table
from dashboard.job.forms import OFFERS
from dashboard.job.models import SETTLED, JobRequest, TrackedRequest
from wire.job import EXPIRES_MS

LISTED = 20
"""How many requests the job's page lists."""
NEWS_MS = 600_000
"""So long the last request stands beside the forms too."""
SLOW_MS = 15_000
"""A request that is being sent for longer than this was cut short."""
REQUESTS = Table("asks", Column.time("When"), "Who", "What", "Query", "Why", "Outcome")

Tone = Literal["good", "bad", "waiting", "plain"]


class Phase(NamedTuple):
    """A status in words: one word for it, its tone, and why it is so."""

    word: str
    tone: Tone
    text: str


_WORDS: dict[str, tuple[str, Tone]] = {
    "sending": ("sending", "waiting"),
    "sent": ("sent, waiting for the job", "waiting"),
    "accepted": ("accepted, being carried out", "waiting"),
    "done": ("done", "good"),
    "refused": ("refused", "bad"),
    "failed": ("failed", "bad"),
    "expired": ("expired", "bad"),
    "unsent": ("not sent", "bad"),
}
_FORGOTTEN = Phase("forgotten", "plain", "")
_UNANSWERED = Phase(
    "unanswered", "bad", "The job has not answered within five minutes. The request has expired."
)


@dataclass(frozen=True)
class RequestProgress:
    """A request at `now`; None where it is not kept any more."""

    request: TrackedRequest | None
    now: int

    @property
    def row(self) -> Any:
        """Return the row that a page shows of the request."""
        return self.request

    @property
    def phase(self) -> Phase:
        """Return its status in words."""
        request = self.request
        if request is None:
            return _FORGOTTEN
        age = self.now - request.asked_at
        if request.status in ("sending", "sent") and age > EXPIRES_MS:
            return _UNANSWERED
        if request.status == "sending" and age > SLOW_MS:
            return Phase("not confirmed", "waiting", request.outcome)
        return Phase(*_WORDS.get(request.status, (request.status, "plain")), request.outcome)

    @property
    def word(self) -> str:
        """Return its status in a word or two."""
        return self.phase.word

    @property
    def tone(self) -> Tone:
        """Return whether that is good, bad or neither."""
        return self.phase.tone

    @property
    def text(self) -> str:
        """Return why it is so."""
        return self.phase.text

    @property
    def open(self) -> bool:
        """Return whether the job may still answer it."""
        over = self.request is None or self.request.status in (*SETTLED, "unsent")
        return not over and self.phase is not _UNANSWERED

    @property
    def took(self) -> int | None:
        """Return how long it took from the request to its end, ms."""
        request = self.request
        if request is None or request.answered_at is None:
            return None
        return request.answered_at - request.asked_at


@dataclass(frozen=True)
class ActionProgress(RequestProgress):
    """A request as the job's page lists it."""

    @property
    def title(self) -> str:
        """Return its action in words."""
        action = self.row.action
        return OFFERS[action].title if action in OFFERS else action.replace("-", " ").capitalize()


def newest(now: int) -> list[ActionProgress]:
    """Return the newest requests, the last first."""
    return [ActionProgress(row, now) for row in JobRequest.objects.order_by("-asked_at")[:LISTED]]


def last_of(
    query: str, listed: list[ActionProgress], now: int, offers: Container[str] = OFFERS
) -> ActionProgress | None:
    """Return the newest request from a query's own forms, for as long as it is news."""
    for request in listed:
        if request.row.query == query and request.row.action in offers:
            return request if now - request.row.asked_at < NEWS_MS else None
    return None
