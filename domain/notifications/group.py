"""Groups of incidents that a rule reports together. They are immutable values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from domain.notifications.events import Ack

OPENED, MORE, ESCALATED, REMINDER, RESOLVED, SUMMARY, TASK = (
    "opened", "more", "escalated", "reminder", "resolved", "summary", "task",
)  # fmt: skip
KINDS = {
    OPENED: "the first message of a group",
    MORE: "more incidents, or worse ones",
    ESCALATED: "nobody has it in hand: the next stage is told",
    REMINDER: "it goes on, and nobody has it in hand",
    RESOLVED: "all of it is over",
    SUMMARY: "several groups in one message, as there were too many messages",
    TASK: "a scheduled task notified",
}
"""The kinds of message that a rule sends."""

IncidentKey = tuple[str, str, str]
"""An incident's scenario and asset, and the place where it began."""


class Member(NamedTuple):
    """An incident of a group, or a fault of an agent.

    since: when it entered a state that the rule reports; worst: the worst such state so far;
    over_at: when it left them; left: for which other state, empty if it is over; notified: the
    worst state that a message has reported, empty if none has; ack_*: the acknowledgement in force,
    None without one; finding: as in an event.
    """

    scenario: str
    asset: str
    place: str
    since: int
    state: str
    worst: str
    over_at: int | None = None
    notified: str = ""
    ack_until: int | None = None
    ack_severity: int | None = None
    finding: str = ""
    left: str = ""

    @property
    def key(self) -> IncidentKey:
        """The key that identifies the incident."""
        return self.scenario, self.asset, self.place

    @property
    def active(self) -> bool:
        """Whether it is still going on."""
        return self.over_at is None

    @property
    def has_news(self) -> bool:
        """Whether it goes on, and no message has reported it, or how bad it has become."""
        return self.active and self.worst != self.notified

    def in_hand(self, now: int) -> bool:
        """Return whether an acknowledgement is in force at `now`, Unix ms."""
        return self.ack_until is not None and now < self.ack_until

    def lasted(self, now: int) -> int:
        """Return how long it has been in a reported state, ms."""
        return (now if self.over_at is None else self.over_at) - self.since

    def acknowledged(self, ack: Ack | None) -> Member:
        """Return a copy with this acknowledgement, or with none."""
        until, severity = ack or (None, None)
        return self._replace(ack_until=until, ack_severity=severity)


@dataclass(frozen=True, slots=True)
class Group:
    """Incidents that a rule reports together, from the start of the first to the end of the last.

    announced_at, sent_at: time of the first and of the last message; pending_at: since when there
    is something to report; clock_from: since when nobody has had all of it in hand; stage: the next
    stage to notify; reached: number of stages notified; over: number of reported incidents that
    have ended and are no longer members; exempt: whether one was bad enough to pass quiet hours;
    held: the kind of message held back, and why; held_words: a checksum of what it would report.
    """

    key: str
    opened_at: int
    members: Mapping[IncidentKey, Member] = field(default_factory=dict)
    announced_at: int | None = None
    sent_at: int | None = None
    pending_at: int | None = None
    clock_from: int | None = None
    stage: int = 0
    reached: int = 0
    over: int = 0
    exempt: bool = False
    held: str = ""
    held_words: int = 0

    def with_members(self, members: Iterable[Member]) -> Group:
        """Return a copy with these members."""
        return replace(self, members={member.key: member for member in members})

    def notified_members(self) -> list[Member]:
        """Return the members that a message has reported."""
        return [member for member in self.members.values() if member.notified]

    def goes_on(self) -> bool:
        """Return whether a member that a message has reported goes on."""
        return any(member.active for member in self.notified_members())

    def in_hand(self, now: int) -> bool:
        """Return whether every reported member that goes on is acknowledged at `now`, Unix ms."""
        return all(member.in_hand(now) for member in self.notified_members() if member.active)


def plain_group(group: Group) -> dict[str, Any]:
    """Return a group as JSON-compatible data; `group_from_plain` restores an equal group."""
    plain = {name.name: getattr(group, name.name) for name in fields(Group)}
    return plain | {"members": [list(member) for member in group.members.values()]}


def group_from_plain(plain: Mapping[str, Any]) -> Group:
    """Return the group described by the result of `plain_group`."""
    members = [Member(*values) for values in plain["members"]]
    return Group(**{**plain, "members": {}}).with_members(members)
