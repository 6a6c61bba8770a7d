"""The progress of a command, in words for its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.urls import reverse

from dashboard.commands.models import Command as Row
from dashboard.job.job_clock import job_is_silent
from domain.records import APPLIED, NO_CHANGE, REFUSED
from domain.version import Version

Phase = Literal["sending", "unknown", "sent", "applied", "no-change", "refused", "unsent"]

# After this long without an answer the page says that the job is late.
SLOW_MS = 15_000

TITLES: dict[Phase, str] = {
    "sending": "Sending",
    "unknown": "Not confirmed",
    "sent": "Sent",
    "applied": "Applied",
    "no-change": "No change",
    "refused": "Refused",
    "unsent": "Not sent",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """A command as its page shows it. `delay_ms`: when to request it again, None once it is
    settled.

    record_url: where its record is shown, empty where its place in the log is not known.
    """

    phase: Phase
    text: str
    delay_ms: int | None
    record_url: str = ""

    @property
    def title(self) -> str:
        """Return the phase in words."""
        return TITLES[self.phase]


def progress(row: Row, now: int) -> Progress:
    """Return how far the command has come at `now` (Unix ms)."""
    phase = phase_of(row, now)
    settled = phase in ("applied", "no-change", "refused", "unsent")
    age = max(0, now - row.created_at)
    text = _TEXTS[phase](row, age)
    if phase == "sent" and job_is_silent(now):
        text = f"{_place(row)}; {_SILENT}"
    return Progress(phase, text, None if settled else _delay(age), record_url(row))


def record_url(row: Row) -> str:
    """Return the address of the command's record; empty where its place in the log is not known."""
    if row.partition is None or row.offset is None:
        return ""
    return reverse("board:record", args=(row.scenario, row.partition, row.offset))


_SILENT = (
    "the job does not answer: the command waits in the log, and is answered when the job runs again"
)


def phase_of(row: Row, now: int) -> Phase:
    """Return the phase alone."""
    if row.status == "answered":
        return phase_of_outcome(row.outcome)
    if row.status == "sending":
        lost = bool(row.outcome) or now - row.created_at > SLOW_MS
        return "unknown" if lost else "sending"
    return "sent" if row.status == "sent" else "unsent"


def phase_of_outcome(outcome: str) -> Phase:
    """Return the phase of an answered command."""
    if outcome == APPLIED:
        return "applied"
    return "no-change" if outcome == NO_CHANGE else "refused"


def _delay(age: int) -> int:
    """Return the delay before the next request, ms: short at first, then ever longer."""
    return min(5_000, max(300, age // 5))


def _sending(_row: Row, _age: int) -> str:
    return "on its way into the log"


def _unknown(row: Row, _age: int) -> str:
    return row.outcome or "it may not have reached the log; if it did, it is followed"


def _place(row: Row) -> str:
    return f"partition {row.partition}, offset {row.offset}"


def _sent(row: Row, age: int) -> str:
    place = _place(row)
    if age < SLOW_MS:
        return f"{place}; waiting for the answer"
    return f"{place}; no answer for {age // 1000} s: the job is late or down, and will answer then"


def _applied(row: Row, _age: int) -> str:
    took = f" after {row.answered_at - row.created_at} ms" if row.answered_at else ""
    return f"version {Version.parse(row.version)}{took}" if row.version else took.strip()


def _no_change(row: Row, age: int) -> str:
    return f"nothing changed; {_applied(row, age)}"


def _refused(row: Row, _age: int) -> str:
    return row.outcome.removeprefix(REFUSED)


def _unsent(row: Row, _age: int) -> str:
    return row.outcome or "it did not reach the log"


_TEXTS = {
    "sending": _sending,
    "unknown": _unknown,
    "sent": _sent,
    "applied": _applied,
    "no-change": _no_change,
    "refused": _refused,
    "unsent": _unsent,
}
