"""The inputs and outputs of the fold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from domain.scenario import Action, Scenario
    from domain.version import Version

MAX_VOTERS = 200
"""Largest number of votes kept on one asset, so that a state record fits into a message."""

MAX_MUTED = 100
"""Largest number of agents muted at a time in a scenario, so that a heartbeat can list them all."""

MAX_TASKS = 32
"""Largest number of unfinished tasks of one asset that commands have scheduled."""

MAX_VOTELESS = 16
"""Largest number of doubts on one asset whose agents have no vote on it."""

MAX_AHEAD = 300_000
"""How far an agent's clock may be ahead of the broker's before its report is doubted, ms."""

STILL_AHEAD = 240_000
"""The same limit for an agent whose vote is already in doubt for that, ms."""

Kind = Literal["set", "vote", "release", "purge", "schedule", "cancel"]
COMMAND_KINDS: tuple[Kind, ...] = ("set", "vote", "release", "purge", "schedule", "cancel")

STATE_COMMANDS: tuple[Kind, ...] = ("set", "vote", "release", "purge")
"""The commands whose cause has the same name; the cause `schedule` belongs to the run of a task."""

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
"""Every cause of a state record of the fold."""

LOG_REPLACED = "log-replaced"
"""The cause of a purge by the job: the asset's source topic was deleted and created again."""

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
"""Every reason for which the fold refuses a record. The list is closed."""

CLOCK_AHEAD, CLOCK_BACK, PURGED = "clock-ahead", "clock-back", "purged"
VOTE_DOUBTS = (CLOCK_AHEAD, CLOCK_BACK, PURGED)
"""Why a vote is in doubt because of its own report: the agent's clock was ahead, the broker's clock
went back, or the report is older than the asset's purge."""

CONTRADICTION, STALE, RENAMED = "contradiction", "stale", "renamed"
DOUBT_REASONS = (
    *(CONTRADICTION, STALE, RENAMED),
    *("unknown-state", "bad-time", "bad-field", "not-json"),
)
"""Why an agent is doubted apart from its vote: a late report said something worse; a report that
was late or too old repeated something bad; a rule before CLAIM_FOLD no longer knew the reported
state; or a report was refused, for this reason of DEAD_LETTER_REASONS."""

PASSING_DOUBTS = (STALE, RENAMED)
"""The reasons among these that end with the agent's next report that is taken."""

UNREADABLE = "unreadable"
"""What disputes a state if a refused report cannot be read."""

SET_ASIDE = "poisonous"
"""The dead-letter reason for a record that nobody can read: the fold never sees it."""

SCHEMA_MISMATCH = "schema-mismatch"
"""The reason of a pipeline's dead letter: the value does not fit the schema of its source."""

LETTER_REASONS = (*DEAD_LETTER_REASONS, SET_ASIDE, SCHEMA_MISMATCH)
"""Every reason of a dead letter."""

APPLIED = "applied"
NO_CHANGE = "no-change"
REFUSED = "refused: "
"""Outcomes of a command: applied, no-change, or `refused: ` followed by the reason."""

NOT_MET = "condition not met"
"""The outcome of a task's run while the asset was in another state."""


# ---- inputs -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """An agent's claim about an asset's state.

    reported_at: the agent's clock, Unix ms; detail: the JSON text of an object, passed on
    unchanged; ahead: how far the agent's clock was ahead of the record's append time, ms;
    detail_fault: why the detail was left out, a reason of DEAD_LETTER_REASONS; sunk: why a rule
    before CLAIM_FOLD refuses the whole record, such a reason too.
    """

    asset: str
    agent: str
    state: str
    reported_at: int | None = None
    detail: str | None = None
    ahead: int = 0
    detail_fault: str | None = None
    sunk: str | None = None


@dataclass(frozen=True, slots=True)
class RefusedReport:
    """A report that cannot be taken, but whose asset and agent can be read.

    said: what it says, if that is the name of a state; reason: of DEAD_LETTER_REASONS;
    detail_fault, sunk: as in a report. The rest is for people, as in `Unreadable`.
    """

    asset: str
    agent: str
    said: str | None
    reason: str
    detail_fault: str | None = None
    unreadable: Unreadable | None = field(default=None, compare=False)
    sunk: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """An agent stops reporting on an asset: its vote is withdrawn.

    reported_at: the agent's clock, Unix ms; ahead: as in a report.
    """

    asset: str
    agent: str
    reported_at: int | None = None
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The contents of a `schedule` command, besides its state and end.

    do: one of ACTIONS; condition: the state that the asset must be in at a run; after: delay of the
    first run, ms; at: time of the first run instead, Unix ms; every: interval between runs, ms;
    times: largest number of runs.
    """

    do: Action
    condition: str | None = None
    after: int | None = None
    at: int | None = None
    every: int | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A command from an operator or an API client for one asset.

    until: when an override ends, or after which a task no longer runs, Unix ms; schedule: contents
    of a `schedule` command; task: id of the task that a `cancel` command ends.
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
    """Time passes, and nothing else happens."""


@dataclass(frozen=True, slots=True)
class ScenarioChange:
    """The bucket's rule from here on."""

    scenario: Scenario


@dataclass(frozen=True, slots=True)
class UnknownFold:
    """A record of this scenario that needs a version of the fold that this release does not know.

    The job stops here: going on would produce a different result than that version.
    """

    scenario: str
    fold: int


@dataclass(frozen=True, slots=True)
class Mute:
    """This agent's votes do not count in the bucket from here on. until: Unix ms, or None."""

    agent: str
    until: int | None
    user: str
    reason: str
    id: str


@dataclass(frozen=True, slots=True)
class Unmute:
    """This agent's votes count again from here on."""

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
"""Records that command something: only our own software may have written them."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """An unsigned record that commands something; the rule in force decides whether it counts."""

    record: Commanding


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that goes to the dead letters, with a reason of DEAD_LETTER_REASONS.

    The rest is for people and is not compared. path: the field that is wrong; expected, given:
    short descriptions; byte: position in the value or key at which reading failed.
    """

    reason: str
    path: str = field(default="", compare=False)
    expected: str = field(default="", compare=False)
    given: str = field(default="", compare=False)
    byte: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Misrouted:
    """A record that has no key, or lies on another partition than its asset belongs to.

    The fold only counts it: whoever applies the log forwards it to the partition of its asset.
    fault: the same, for people.
    """

    record: Report | RefusedReport | Leave
    fault: Unreadable = field(compare=False)


Record = Report | RefusedReport | Leave | Misrouted | Tick | Commanding | Unsigned | Unreadable


# ---- outputs ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Muted:
    """Who muted a vote's agent, and until when (ms, or None: until revoked)."""

    until: int | None
    user: str


@dataclass(frozen=True, slots=True)
class Flap:
    """The last time a vote turned worse.

    state: what it said then, or the worse of two such states; time: when that was, ms; until: one
    vote lifetime later, ms; again: whether it was the second time within a lifetime.
    """

    state: str
    time: int
    until: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why an agent is doubted on an asset, whatever its vote says.

    reason: of DOUBT_REASONS; said: the worst state it reported, None if unreadable; time and
    offset: of the last record that caused the doubt; until: when the doubt ends, ms; weight and
    muted: as in a vote.
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
        """Whether it counts: its agent is not muted and has a weight."""
        return self.weight > 0 and self.muted is None

    def shown(self) -> tuple[object, ...]:
        """Return the part whose change is visible."""
        return (self.agent, self.reason, self.said, self.weight, self.muted)


@dataclass(frozen=True, slots=True)
class Vote:
    """An agent's latest report on an asset.

    reported_at: the agent's own time, ms; time: the bucket's clock when the report was applied, ms;
    expires: when the vote falls silent, ms, or None for never; weight: 0 while its agent is muted;
    detail: the report's own; silent: since when the agent has been silent on the asset, ms, or None
    for a live vote; order: the time that orders reports of several agents, ms (the agent's time,
    but never later than the record's append time); age: the report's age when it was appended, ms;
    doubt: one of VOTE_DOUBTS, why the vote is in doubt because of its own report; detail_fault: why
    the report's detail was left out; flap: the last time the vote turned worse; claimed: the time
    that orders its agent's reports, ms (the agent's time however far ahead, or else the record's
    append time).
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
    claimed: int = 0

    @property
    def claim(self) -> int:
        """The claim that counts: of a silent vote at most the time at which it expired, ms."""
        if self.silent is None or self.expires is None:
            return self.claimed
        return min(self.claimed, self.expires)

    @property
    def counts(self) -> bool:
        """Whether it counts, live or silent: its agent is not muted and has a weight."""
        return self.weight > 0 and self.muted is None

    @property
    def live(self) -> bool:
        """Whether it counts and is not silent."""
        return self.silent is None and self.weight > 0 and self.muted is None

    @property
    def flapping(self) -> Flap | None:
        """The flap, if the vote turned worse twice within a lifetime."""
        return self.flap if self.flap is not None and self.flap.again else None

    def shown(self) -> tuple[object, ...]:
        """Return the part whose change is visible."""
        flap = self.flapping
        said = (self.agent, self.state, self.weight, self.muted, self.silent)
        return (*said, self.doubt, self.detail_fault, flap and flap.state)


@dataclass(frozen=True, slots=True)
class Pending:
    """A wait for a state: it began at `since`, and at `due` (ms) the asset enters that state."""

    state: str
    since: int
    due: int


@dataclass(frozen=True, slots=True)
class Override:
    """A state pinned by an operator. underlying: the asset's state without it."""

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
    """A task of an asset: what to do, when, and how the last run went.

    id: of the command that scheduled it, or derived from the scenario's rule for it; user: its
    owner; due: time of the next run, Unix ms, None after the last; state: what it sets; condition:
    the state that the asset must be in at a run; every: ms; until: the latest time of a run, Unix
    ms; times: runs left; within: the task ends when the asset leaves this state; outcome, ran:
    result and time (Unix ms) of the last run; aside: why it does not run under the rule in force,
    or None.
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
    """What caused a state record.

    offset: of the last source record applied to the asset; time: for a record, the bucket's clock;
    for a timer, its due time, ms.
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
    """The formal state of an asset, as every reader sees it. Times are in Unix ms.

    unconfirmed_reason: why the state is unconfirmed, in words, or None if it is confirmed;
    disputed: the worst state of a vote or a doubt, if worse than the state shown; tasks: ordered by
    id, including one that has just run for the last time; doubts: ordered by agent.
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
        """Whether a task requests a notification with this record."""
        return self.cause.type == "schedule" and any(
            task.id == self.cause.command and task.do == "notify" and task.outcome == APPLIED
            for task in self.tasks
        )


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The asset is gone (purged), or never existed (a command on an unknown asset)."""

    asset: str
    version: Version
    cause: Cause
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The record just applied was refused, for this reason of DEAD_LETTER_REASONS."""

    reason: str


Emission = StateRecord | Tombstone | DeadLetter
