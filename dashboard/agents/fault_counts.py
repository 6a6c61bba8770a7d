"""What stands against agents on the board, counted: which votes are in doubt, and which agents.

Rows in doubt have an index of their own, so they are counted every few seconds. What is wrong with
other votes is counted with all votes, a portion of the board at a time (`vote_counts.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from dashboard.agents.models import VoteFault
from dashboard.states.models import AssetState
from domain.names import USER_PREFIX, name_ok
from domain.records import CLOCK_AHEAD, DOUBT_REASONS, VOTE_DOUBTS
from wire.sink import StateValue, state_value

MOST_ROWS = 10_000
"""Most rows in doubt that are counted: of more it is said that there are so many."""
MOST_SAID = 64
CHUNK = 500

DOUBTS = (*VOTE_DOUBTS, *DOUBT_REASONS)
"""The faults of rows in doubt, by their names in the records."""
FLAPPING, DETAIL = "flapping", "detail"
OF_ALL_VOTES = (FLAPPING, DETAIL)
"""The faults of other votes: one that goes to and fro, one whose detail was left out."""

Place = tuple[str, str, str]
"""Scenario, agent and kind of a fault."""


class Counted(NamedTuple):
    """A fault of an agent's votes: on how many assets, its oldest and its newest cause (Unix ms),
    the newest word, and by how much a clock is ahead at least, ms."""

    assets: int
    since: int
    last: int
    said: str = ""
    ms: int = 0

    def plus(self, more: Counted) -> Counted:
        """Return the sum of both."""
        return Counted(
            self.assets + more.assets,
            min(self.since, more.since),
            max(self.last, more.last),
            self.said if self.last > more.last else more.said,
            min(self.ms, more.ms),
        )


Counts = dict[Place, Counted]


def add(counts: Counts, place: Place, more: Counted) -> None:
    """Add to what is counted of an agent; of operators, and of what is no name, nothing is."""
    agent = place[1]
    if name_ok(agent) and not agent.startswith(USER_PREFIX):
        counts[place] = counts[place].plus(more) if place in counts else more


def count_doubts() -> None:
    """Count the rows in doubt by agent, and replace what was counted before."""
    rows = AssetState.objects.filter(purged=False, doubt__isnull=False).order_by()
    counts: Counts = {}
    for scenario, record in rows.values_list("scenario", "record")[:MOST_ROWS].iterator(2_000):
        for agent, kind, more in _doubts(state_value(record)):
            add(counts, (scenario, agent, kind), more)
    publish(counts, DOUBTS)


def _doubts(record: StateValue) -> Iterator[tuple[str, str, Counted]]:
    """Yield agent, kind and count of what is in doubt on an asset and counts."""
    for vote in record.votes:
        if vote.doubt is not None and vote.muted is None:
            ahead = max(0, vote.reported_at - vote.time) if vote.doubt == CLOCK_AHEAD else 0
            yield vote.agent, vote.doubt, Counted(1, vote.time, vote.time, ms=ahead)
    for doubt in record.doubts:
        if doubt.counts:
            said = (doubt.said or "")[:MOST_SAID]
            yield doubt.agent, doubt.reason, Counted(1, doubt.time, doubt.time, said)


def publish(counts: Mapping[Place, Counted], kinds: Collection[str]) -> None:
    """Replace what was counted of these kinds; what has not gone began when it did."""
    known = VoteFault.objects.filter(kind__in=kinds)
    before = {(row.scenario, row.agent, row.kind): row for row in known}
    found = {place: each for place, each in counts.items() if place[2] in kinds}
    gone = [row.pk for place, row in before.items() if place not in found]
    for begin in range(0, len(gone), CHUNK):
        VoteFault.objects.filter(pk__in=gone[begin : begin + CHUNK]).delete()
    VoteFault.objects.bulk_create(
        _rows(found, before),
        update_conflicts=True,
        unique_fields=["scenario", "agent", "kind"],
        update_fields=["assets", "last", "said", "ms"],
        batch_size=CHUNK,
    )


def _rows(found: Counts, before: Mapping[Place, VoteFault]) -> list[VoteFault]:
    """Return the rows of what is new, or is another than before."""
    return [
        VoteFault(scenario=place[0], agent=place[1], kind=place[2], **each._asdict())
        for place, each in sorted(found.items())
        if place not in before or _is_other(each, before[place])
    ]


def _is_other(found: Counted, row: VoteFault) -> bool:
    return (found.assets, found.last, found.said, found.ms) != (
        row.assets,
        row.last,
        row.said,
        row.ms,
    )


def counted_faults(
    scenario: str, agents: Iterable[str] | None = None
) -> dict[str, dict[str, VoteFault]]:
    """Return what was counted last of a scenario, by agent and kind; agents: of these alone."""
    rows = VoteFault.objects.filter(scenario=scenario)
    if agents is not None:
        rows = rows.filter(agent__in=list(agents))
    found: dict[str, dict[str, VoteFault]] = {}
    for row in rows:
        found.setdefault(row.agent, {})[row.kind] = row
    return found
