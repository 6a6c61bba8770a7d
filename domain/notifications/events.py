"""What happens to incidents and agents, as the rules of notifications see it. Times in Unix ms."""

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
"""What may be wrong with an agent, of which rules tell."""


class Ack(NamedTuple):
    """An acknowledgement: until when, and of which severity the asset was then."""

    until: int
    severity: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an incident, or to its asset; or to an agent.

    place: at which the incident began; state: the asset's from then on; labels: the asset's;
    ack: the acknowledgement that is in force from then on, if the kind is MARKED. finding: in words
    what is wrong with an agent, empty for an incident: then `asset` is the agent, `state` one of
    AGENT_KINDS, and the kind BEGUN or ENDED.
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
