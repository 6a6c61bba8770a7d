"""What happens to incidents and agents, as notification rules see it. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

BEGUN, CHANGED, ENDED, WITHDRAWN, MARKED = "begun", "changed", "ended", "withdrawn", "marked"
KINDS = {
    BEGUN: "an incident began",
    CHANGED: "its state changed to another that is not good",
    ENDED: "it ended",
    WITHDRAWN: "a rebuild of the states did not find it again",
    MARKED: "its asset was acknowledged, or that was taken back",
}

AGENT_REFUSED, AGENT_SILENT, AGENT_DOUBTED, AGENT_LATE = (
    "agent-refused", "agent-silent", "agent-doubted", "agent-late",
)  # fmt: skip
AGENT_KINDS = {
    AGENT_REFUSED: "its reports are refused",
    AGENT_SILENT: "it has fallen silent everywhere",
    AGENT_DOUBTED: "it is in doubt on several assets",
    AGENT_LATE: "its reports come too late",
}
"""The agent faults that rules report."""

BUDGET_FAST, BUDGET_SLOW = "budget-fast", "budget-slow"
BUDGET_KINDS = {
    BUDGET_FAST: "an error budget is spent within a few days",
    BUDGET_SLOW: "an error budget does not last",
}
"""What rules report of scenarios' error budgets, as findings."""


class Ack(NamedTuple):
    """An acknowledgement: until when it holds, and the asset's severity when it was made."""

    until: int
    severity: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an incident or its asset, or to an agent.

    place: where the incident began; state: the asset's new state; labels: the asset's, and what
    agents add; ack: for kind MARKED, the acknowledgement in force from now on. finding: a
    description of what is wrong with an agent or an error budget, empty for an incident. If it is
    set, `asset` is what it is about, `state` is one of AGENT_KINDS or BUDGET_KINDS, and the kind is
    BEGUN or ENDED.
    """

    kind: str
    scenario: str
    asset: str
    at: int
    place: str = ""
    state: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ack: Ack | None = None
    finding: str = ""
