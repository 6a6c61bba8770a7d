"""What the fold remembers of one asset, and what is due for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from domain.records import Answer, Override, Pending, Vote
from domain.scenario import Scenario

ANSWERS_KEPT = 16
"""A command repeated within this many commands on its asset gets its first answer again."""

ANSWERS_MEMORY = 3_600_000
"""How long the answers outlive a purge, ms."""


@dataclass(slots=True)
class Asset:
    """State of one asset within the fold. Times in ms of the bucket's clock.

    state: what the tally made of it; shown: what readers see, the override's state if there is one
    (None: no such asset, only its answers are remembered, until forget_at); offset and step: of
    the last event applied; changed: (offset, step) at which shown, pending or override last
    changed; reminded: when the last reminder was due, or the state began; emitted_at: of the last
    record emitted.
    """

    state: str | None = None
    shown: str | None = None
    previous: str | None = None
    since: int = 0
    unconfirmed: bool = False
    votes: dict[str, Vote] = field(default_factory=dict)
    pending: Pending | None = None
    override: Override | None = None
    offset: int = -1
    step: int = 0
    changed: tuple[int, int] = (-1, 0)
    reminded: int = 0
    emitted_at: int = 0
    answers: list[Answer] = field(default_factory=list)
    forget_at: int | None = None

    def answer_to(self, command: str) -> str | None:
        """The first answer that this command got, if it is still remembered."""
        return next((a.outcome for a in self.answers if a.command == command), None)

    def remember(self, answer: Answer) -> None:
        """Keep the answer, among the newest ANSWERS_KEPT."""
        if self.answer_to(answer.command) is None:
            self.answers = [*self.answers, answer][-ANSWERS_KEPT:]

    def gone(self, at: int) -> Asset:
        """What is left of the asset after a purge at `at` ms: its answers and its place."""
        return Asset(
            offset=self.offset,
            step=self.step,
            changed=(self.offset, self.step),
            answers=self.answers,
            forget_at=at + ANSWERS_MEMORY,
        )


class Due(NamedTuple):
    """Something due: ordered by time, then by `order`, then by agent."""

    time: int
    order: int
    agent: str
    type: str


OVERRIDE_END, VOTE_EXPIRY, MUTE_END, HOLD, REMINDER, PURGE_AFTER, FORGET = range(7)
"""The order of what is due at one time."""


def next_due(asset: Asset, scenario: Scenario) -> Due | None:
    """What is due first for this asset, or None."""
    return min(all_dues(asset, scenario), default=None)


def all_dues(asset: Asset, scenario: Scenario) -> list[Due]:
    """Everything due for this asset, of each kind the first; of mutes every end."""
    if asset.shown is None:
        return [] if asset.forget_at is None else [Due(asset.forget_at, FORGET, "", "forget")]
    dues = []
    if asset.override is not None and asset.override.until is not None:
        dues.append(Due(asset.override.until, OVERRIDE_END, "", "override-end"))
    if scenario.vote_lifetime is not None and asset.votes:
        dues.append(_first_expiry(asset))
    dues += [
        Due(vote.muted.until, MUTE_END, vote.agent, "mute-end")
        for vote in asset.votes.values()
        if vote.muted is not None and vote.muted.until is not None
    ]
    if asset.pending is not None:
        dues.append(Due(asset.pending.due, HOLD, "", "hold"))
    if (every := scenario.reminder(asset.shown)) is not None:
        dues.append(Due(asset.reminded + every, REMINDER, "", "reminder"))
    if (delay := scenario.purge_delay(asset.shown)) is not None:
        dues.append(Due(asset.since + delay, PURGE_AFTER, "", "purge-after"))
    return dues


def _first_expiry(asset: Asset) -> Due:
    expires, agent = min((vote.expires or 0, vote.agent) for vote in asset.votes.values())
    return Due(expires, VOTE_EXPIRY, agent, "vote-expiry")
