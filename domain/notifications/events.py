"""What happens to incidents, as the rules of notifications see it. Times in Unix ms."""

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


class Ack(NamedTuple):
    """An acknowledgement: until when, and of which severity the asset was then."""

    until: int
    severity: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an incident, or to its asset.

    place: at which the incident began; state: the asset's from then on; labels: the asset's;
    ack: the acknowledgement that is in force from then on, if the kind is MARKED.
    """

    kind: str
    scenario: str
    asset: str
    at: int
    place: str = ""
    state: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ack: Ack | None = None
