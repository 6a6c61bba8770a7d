"""What was done with dead letters, in the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from django.http import HttpRequest

from dashboard.audit.log import Actor, note
from dashboard.dead_letters.models import DeadLetter
from dashboard.dead_letters.redrive import Outcome

MAX_NAMED = 50
"""Most letters that an entry names; it says how many there were."""


def note_redriven(request: HttpRequest, outcomes: Sequence[Outcome]) -> None:
    """Note letters that were to be sent again, and what became of them."""
    letters = [outcome.sending.letter for outcome in outcomes]
    note(
        Actor.of(request),
        "letter.redriven",
        scenario=_scenario(letters),
        target=_target([letter.pk for letter in letters]),
        outcome=_said(Counter(outcome.became for outcome in outcomes)),
        letters=[letter.pk for letter in letters[:MAX_NAMED]],
        edited=[outcome.sending.letter.pk for outcome in outcomes if outcome.sending.edited]
        or None,
    )


def note_discarded(request: HttpRequest, letters: Sequence[int], done: int, why: str) -> None:
    """Note letters that were to be discarded, and how many were."""
    note(
        Actor.of(request),
        "letter.discarded",
        target=_target(letters),
        outcome=_said(Counter(discarded=done, taken=len(letters) - done)),
        letters=list(letters[:MAX_NAMED]),
        why=why,
    )


def _target(letters: Sequence[int]) -> str:
    return f"letter {letters[0]}" if len(letters) == 1 else f"{len(letters)} letters"


def _scenario(letters: Sequence[DeadLetter]) -> str:
    """The scenario of them all, if it is one."""
    found = {letter.scenario for letter in letters}
    return found.pop() if len(found) == 1 else ""


def _said(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {became}" for became, n in counts.items() if n) or "nothing"
