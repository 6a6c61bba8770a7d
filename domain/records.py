"""What goes into the fold and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from domain.scenario import Scenario
    from domain.version import Version

MAX_VOTERS = 200
"""Most agents whose vote on one asset is kept, so that a state record stays within a message."""

MAX_MUTED = 100
"""Most agents that are muted at one time in a scenario, so that a heartbeat can name them all."""

Kind = Literal["set", "vote", "release", "purge"]
COMMAND_KINDS: tuple[Kind, ...] = ("set", "vote", "release", "purge")

CAUSE_TYPES = (
    "report",
    *COMMAND_KINDS,
    "refused",
    "leave",
    "scenario",
    "mute",
    "unmute",
    "override-end",
    "vote-expiry",
    "vote-forgotten",
    "mute-end",
    "hold",
    "reminder",
    "purge-after",
)
"""Every way in which a state record can come about."""

DEAD_LETTER_REASONS = (
    "not-utf8",
    "not-json",
    "too-large",
    "unknown-type",
    "bad-field",
    "bad-asset",
    "bad-agent",
    "bad-time",
    "bad-scenario",
    "bad-command",
    "unknown-state",
    "wrong-partition",
    "too-many-agents",
    "too-many-mutes",
    "unsigned",
    "bad-signature",
    "unknown-key",
    "expired-key",
    "untimely-signature",
)
"""Every reason for which the fold refuses a record; the list is closed."""

SET_ASIDE = "poisonous"
"""The reason of a dead letter for what nobody can read: the fold never meets it."""

LETTER_REASONS = (*DEAD_LETTER_REASONS, SET_ASIDE)
"""Every reason of a dead letter."""

APPLIED = "applied"
NO_CHANGE = "no-change"
REFUSED = "refused: "
"""Outcomes of a command: applied, no-change, or `refused: ` and why."""


# ---- inputs -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """One agent's claim about one asset's state.

    reported_at: the agent's clock, Unix ms; detail: JSON text of an object, carried as it came.
    """

    asset: str
    agent: str
    state: str
    reported_at: int | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """An agent says that it reports no more on an asset: its vote is withdrawn.

    reported_at: the agent's clock, Unix ms.
    """

    asset: str
    agent: str
    reported_at: int | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """What an operator or an API client does to one asset. `until`: Unix ms."""

    kind: Kind
    asset: str
    id: str
    user: str
    reason: str = ""
    state: str | None = None
    until: int | None = None
    if_version: Version | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes, nothing else."""


@dataclass(frozen=True, slots=True)
class ScenarioChange:
    """From here on this rule holds in the bucket."""

    scenario: Scenario


@dataclass(frozen=True, slots=True)
class UnknownFold:
    """A scenario record of this scenario that needs a version of the fold that is not known here.

    The job stops at it: going on would make something else of the log than that version does.
    """

    scenario: str
    fold: int


@dataclass(frozen=True, slots=True)
class Mute:
    """From here on this agent's votes count nothing in the bucket. `until`: Unix ms, or None."""

    agent: str
    until: int | None
    user: str
    reason: str
    id: str


@dataclass(frozen=True, slots=True)
class Unmute:
    """From here on this agent's votes count again."""

    agent: str
    user: str
    reason: str
    id: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that cannot be carried out, but whose id and asset could be read."""

    asset: str
    id: str
    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A record that commands something without a signature; the rule in force takes it or not."""

    record: Command | ScenarioChange | UnknownFold | Mute | Unmute | Refusal


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that goes to the dead letters, with a reason of DEAD_LETTER_REASONS."""

    reason: str


Record = (
    Report
    | Leave
    | Command
    | Tick
    | ScenarioChange
    | UnknownFold
    | Mute
    | Unmute
    | Refusal
    | Unsigned
    | Unreadable
)


# ---- outputs ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Muted:
    """Who muted a vote's agent, and until when (ms, or None: until taken back)."""

    until: int | None
    user: str


@dataclass(frozen=True, slots=True)
class Vote:
    """An agent's latest report on an asset.

    reported_at: the agent's own time, ms; time: the bucket's clock when it was applied, ms;
    expires: when it falls silent, ms, or None for never; weight: 0 while its agent is muted;
    detail: the report's own; silent: since when its agent is silent on the asset, ms, or None for
    a live vote; order: by which the votes on an asset are ordered in time, ms: the agent's time,
    but never later than the record's own append time; age: how old the report was when it was
    appended, ms.
    """

    agent: str
    state: str
    reported_at: int
    time: int
    offset: int
    expires: int | None
    weight: int
    detail: str | None = None
    muted: Muted | None = None
    silent: int | None = None
    order: int = 0
    age: int = 0

    @property
    def counts(self) -> bool:
        """Whether it counts, live or silent: its agent is not muted, and weighs something."""
        return self.weight > 0 and self.muted is None

    @property
    def live(self) -> bool:
        """Return whether it counts and is not silent."""
        return self.silent is None and self.weight > 0 and self.muted is None

    def shown(self) -> tuple[str, str, int, Muted | None, int | None]:
        """The part whose change is a visible change."""
        return (self.agent, self.state, self.weight, self.muted, self.silent)


@dataclass(frozen=True, slots=True)
class Pending:
    """A wait for a state: it began at `since`, and at `due` (ms) the asset is in that state."""

    state: str
    since: int
    due: int


@dataclass(frozen=True, slots=True)
class Override:
    """An operator's pinned state. `underlying`: what the asset would be without it."""

    state: str
    until: int | None
    user: str
    reason: str
    command: str
    since: int
    underlying: str | None = None

    def same_pin(self, other: Override) -> bool:
        """Return whether the other pins the same: state, end, user and reason."""
        mine = (self.state, self.until, self.user, self.reason)
        return mine == (other.state, other.until, other.user, other.reason)


@dataclass(frozen=True, slots=True)
class Cause:
    """What brought a state record about.

    offset: of the last source record applied to the asset; time: the bucket's clock for a record,
    the due time for what time alone caused, ms.
    """

    type: str
    partition: int
    offset: int
    time: int
    agent: str | None = None
    user: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of the command with this id."""

    command: str
    outcome: str


@dataclass(frozen=True, slots=True)
class StateRecord:
    """The formal state of an asset, as every reader sees it. Times in Unix ms.

    unconfirmed_reason: why it is unconfirmed, in words, None where it is confirmed; disputed: the
    worst state that a vote says, live or silent, where that is worse than the state shown.
    """

    asset: str
    state: str
    previous: str | None
    since: int
    unconfirmed: bool
    version: Version
    cause: Cause
    votes: tuple[Vote, ...] = ()
    pending: Pending | None = None
    override: Override | None = None
    answer: Answer | None = None
    unconfirmed_reason: str | None = None
    disputed: str | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The asset is gone (purged), or was never there (a command on an unknown asset)."""

    asset: str
    version: Version
    cause: Cause
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The record just applied was refused, for this reason of DEAD_LETTER_REASONS."""

    reason: str


Emission = StateRecord | Tombstone | DeadLetter
