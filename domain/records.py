"""What goes into the fold and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from domain.scenario import Action, Scenario
    from domain.version import Version

MAX_VOTERS = 200
"""Most agents whose vote on one asset is kept, so that a state record stays within a message."""

MAX_MUTED = 100
"""Most agents that are muted at one time in a scenario, so that a heartbeat can name them all."""

MAX_TASKS = 32
"""Most tasks of one asset that commands have scheduled and that are not over."""

MAX_VOTELESS = 16
"""Most doubts of one asset whose agents have no vote on it."""

MAX_AHEAD = 300_000
"""How far an agent's clock may be ahead of the broker's without a doubt, ms."""

STILL_AHEAD = 240_000
"""How far it may be ahead where its vote is in doubt for that already, ms."""

Kind = Literal["set", "vote", "release", "purge", "schedule", "cancel"]
COMMAND_KINDS: tuple[Kind, ...] = ("set", "vote", "release", "purge", "schedule", "cancel")

STATE_COMMANDS: tuple[Kind, ...] = ("set", "vote", "release", "purge")
"""The commands whose cause bears their name; `schedule` is the cause of a task's run."""

CAUSE_TYPES = (
    "report",
    *STATE_COMMANDS,
    "scheduled",
    "cancelled",
    "refused",
    "leave",
    "scenario",
    "mute",
    "unmute",
    "override-end",
    "vote-expiry",
    "doubt-end",
    "vote-forgotten",
    "mute-end",
    "hold",
    "schedule",
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

CLOCK_AHEAD, CLOCK_BACK, PURGED = "clock-ahead", "clock-back", "purged"
VOTE_DOUBTS = (CLOCK_AHEAD, CLOCK_BACK, PURGED)
"""Why a vote is in doubt by its own report: its agent's clock was ahead; the broker's went back;
the report is older than the asset's purge."""

CONTRADICTION, STALE, RENAMED = "contradiction", "stale", "renamed"
DOUBT_REASONS = (CONTRADICTION, STALE, RENAMED, "unknown-state", "bad-time", "bad-field")
"""Why an agent is doubted beside its vote: a late report said worse; one that was too old did, of
an agent without a vote; the rule in force does not know any more what it said; or a report was
refused, for this reason of DEAD_LETTER_REASONS."""

PASSING_DOUBTS = (STALE, RENAMED)
"""Of these, those that end with the agent's next report that is taken."""

UNREADABLE = "unreadable"
"""What disputes a state where nobody can read what a refused report says."""

SET_ASIDE = "poisonous"
"""The reason of a dead letter for what nobody can read: the fold never meets it."""

SCHEMA_MISMATCH = "schema-mismatch"
"""The reason of a pipeline's dead letter: the value does not fit the schema of its source."""

LETTER_REASONS = (*DEAD_LETTER_REASONS, SET_ASIDE, SCHEMA_MISMATCH)
"""Every reason of a dead letter."""

APPLIED = "applied"
NO_CHANGE = "no-change"
REFUSED = "refused: "
"""Outcomes of a command: applied, no-change, or `refused: ` and why."""

NOT_MET = "condition not met"
"""The outcome of a task's run that came while the asset was in another state."""


# ---- inputs -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """One agent's claim about one asset's state.

    reported_at: the agent's clock, Unix ms; detail: JSON text of an object, carried as it came;
    ahead: how far the agent's clock was ahead of the record's own append time, ms; detail_fault:
    why the detail is left out, a reason of DEAD_LETTER_REASONS.
    """

    asset: str
    agent: str
    state: str
    reported_at: int | None = None
    detail: str | None = None
    ahead: int = 0
    detail_fault: str | None = None


@dataclass(frozen=True, slots=True)
class RefusedReport:
    """A report that cannot be taken, but whose asset and agent can be read.

    said: what it says, as far as that is a state's name; reason: of DEAD_LETTER_REASONS;
    detail_fault: as in a report. The rest is for people, as in `Unreadable`.
    """

    asset: str
    agent: str
    said: str | None
    reason: str
    detail_fault: str | None = None
    unreadable: Unreadable | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Leave:
    """An agent says that it reports no more on an asset: its vote is withdrawn.

    reported_at: the agent's clock, Unix ms; ahead: as in a report.
    """

    asset: str
    agent: str
    reported_at: int | None = None
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a `schedule` command asks for, beside its state and its end.

    do: one of ACTIONS; condition: the state in which the asset must be then; after: time to the
    first run, ms, or at: when that is, Unix ms; every: from one run to the next, ms; times: runs
    at most.
    """

    do: Action
    condition: str | None = None
    after: int | None = None
    at: int | None = None
    every: int | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """What an operator or an API client does to one asset.

    until: when a pin ends, or after which a task runs no more, Unix ms; schedule: of a `schedule`
    command what it asks for; task: the id of the task that a `cancel` command ends.
    """

    kind: Kind
    asset: str
    id: str
    user: str
    reason: str = ""
    state: str | None = None
    until: int | None = None
    if_version: Version | None = None
    schedule: Schedule | None = None
    task: str | None = None


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


Commanding = Command | Refusal | ScenarioChange | UnknownFold | Mute | Unmute
"""What commands something: only one of ours may have written it."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A record that commands something without a signature; the rule in force takes it or not."""

    record: Commanding


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that goes to the dead letters, with a reason of DEAD_LETTER_REASONS.

    The rest is for people, and tells no two apart. path: of the field that is wrong; expected,
    given: in words, bounded; byte: the one of value or key at which it goes wrong.
    """

    reason: str
    path: str = field(default="", compare=False)
    expected: str = field(default="", compare=False)
    given: str = field(default="", compare=False)
    byte: int | None = field(default=None, compare=False)


Record = Report | RefusedReport | Leave | Tick | Commanding | Unsigned | Unreadable


# ---- outputs ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Muted:
    """Who muted a vote's agent, and until when (ms, or None: until taken back)."""

    until: int | None
    user: str


@dataclass(frozen=True, slots=True)
class Flap:
    """The last time at which a vote turned worse.

    state: what it said then, the worse of two such times; time: when that was; until: a vote's
    lifetime later, ms; again: whether it was the second time within a lifetime.
    """

    state: str
    time: int
    until: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why an agent is doubted on an asset, whatever its vote says.

    reason: of DOUBT_REASONS; said: the worst that it said, None where nobody can read it; time and
    offset: of the last record that gave cause; until: when the doubt ends, ms; weight and muted: as
    in a vote.
    """

    agent: str
    reason: str
    said: str | None
    time: int
    offset: int
    until: int
    weight: int
    muted: Muted | None = None

    @property
    def counts(self) -> bool:
        """Whether it counts: its agent is not muted, and weighs something."""
        return self.weight > 0 and self.muted is None

    def shown(self) -> tuple[object, ...]:
        """Return the part whose change is a visible change."""
        return (self.agent, self.reason, self.said, self.weight, self.muted)


@dataclass(frozen=True, slots=True)
class Vote:
    """An agent's latest report on an asset.

    reported_at: the agent's own time, ms; time: the bucket's clock when it was applied, ms;
    expires: when it falls silent, ms, or None for never; weight: 0 while its agent is muted;
    detail: the report's own; silent: since when its agent is silent on the asset, ms, or None for
    a live vote; order: by which the votes on an asset are ordered in time, ms: the agent's time,
    but never later than the record's own append time; age: how old the report was when it was
    appended, ms; doubt: of VOTE_DOUBTS, why it is in doubt by its own report; detail_fault: why the
    report's detail was left out; flap: the last time at which it turned worse.
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
    doubt: str | None = None
    detail_fault: str | None = None
    flap: Flap | None = None

    @property
    def counts(self) -> bool:
        """Whether it counts, live or silent: its agent is not muted, and weighs something."""
        return self.weight > 0 and self.muted is None

    @property
    def live(self) -> bool:
        """Return whether it counts and is not silent."""
        return self.silent is None and self.weight > 0 and self.muted is None

    @property
    def flapping(self) -> Flap | None:
        """How it turned worse, where that was twice within a lifetime."""
        return self.flap if self.flap is not None and self.flap.again else None

    def shown(self) -> tuple[object, ...]:
        """Return the part whose change is a visible change."""
        flap = self.flapping
        said = (self.agent, self.state, self.weight, self.muted, self.silent)
        return (*said, self.doubt, self.detail_fault, flap and flap.state)


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
class Task:
    """A task of an asset: what is to be done, when, and how it went last.

    id: of the command that scheduled it, or made from what the scenario says of it; user: its
    owner; due: of the next run, Unix ms, None after the last one; state: what it sets; condition:
    the state in which the asset must be then; every: ms; until: the last moment of a run, Unix ms;
    times: runs left; within: the state with which it ends; outcome, ran: of the last run, and when,
    Unix ms; aside: why it does not run under the rule in force, or None.
    """

    id: str
    do: Action
    user: str
    reason: str
    due: int | None
    state: str | None = None
    condition: str | None = None
    every: int | None = None
    until: int | None = None
    times: int | None = None
    within: str | None = None
    outcome: str | None = None
    ran: int | None = None
    aside: str | None = None


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
    worst state that a vote or a doubt says, where that is worse than the state shown; tasks: in the
    order of their ids, one that has just run for the last time among them; doubts: by agent.
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
    tasks: tuple[Task, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def notify(self) -> bool:
        """Whether a task has asked for a notification by this record."""
        return self.cause.type == "schedule" and any(
            task.id == self.cause.command and task.do == "notify" and task.outcome == APPLIED
            for task in self.tasks
        )


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
