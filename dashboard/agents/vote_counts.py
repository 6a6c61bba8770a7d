"""Counting every agent's votes, live and silent, and those that differ: a portion of the board at
a time.

A state record holds its votes as JSON alone, so the rows are walked by their key, so many in a run;
the figures are those of the last walk that came to the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import structlog
from django.db import transaction

from dashboard.agents import fault_counts
from dashboard.agents.fault_counts import DETAIL, FLAPPING, OF_ALL_VOTES
from dashboard.agents.models import Agent, Dissent, Walk
from dashboard.core.models import named_fields
from dashboard.states.models import AssetState
from domain.names import USER_PREFIX, name_ok
from wire.sink import BriefVote, votes_value

log = structlog.get_logger(__name__)

PORTION = 200_000
"""Rows of one run: with more on the board, the figures are of so many minutes the more."""
MAX_AGENTS = 10_000
"""Most agents whose votes are counted; further ones are left out, and logged."""
MAX_DISSENTS = 20
"""Most differing votes that are kept of an agent, the newest."""
CHUNK = 500
FIGURES = ("votes", "against", "silent", "silent_since")
"""What is counted of an agent, as its row has it."""


Differing = tuple[int, str, str, str]
"""A vote that differs: when it was reported (ms), the asset, what it says, what all votes make."""


@dataclass
class Counted:
    """The counts of one agent: its live votes, and those that differ from what all votes make.

    silent: how many of its votes are silent; silent_since: the longest of them, ms; faults: what is
    wrong with others than those in doubt, by kind.
    """

    scenario: str
    agent: str
    votes: int = 0
    against: int = 0
    last: int = 0
    dissents: list[Differing] = field(default_factory=list)
    silent: int = 0
    silent_since: int | None = None
    faults: dict[str, fault_counts.Counted] = field(default_factory=dict)

    def add(self, vote: BriefVote, asset: str, made: str | None) -> None:
        """Count one more vote, on an asset of which all votes make `made`."""
        self.last = max(self.last, vote.time)
        self._add_faults(vote)
        if vote.silent is not None:
            self.silent += 1
            self.silent_since = min(vote.silent, self.silent_since or vote.silent)
            return
        self.votes += 1
        if made is None or vote.state == made:
            return
        self.against += 1
        heapq.heappush(self.dissents, (vote.time, asset, vote.state, made))
        if len(self.dissents) > MAX_DISSENTS:
            heapq.heappop(self.dissents)

    def _add_faults(self, vote: BriefVote) -> None:
        """Count a vote that goes to and fro, or whose detail was left out."""
        if vote.flapping is not None:
            flap = vote.flapping
            self._add_fault(FLAPPING, fault_counts.Counted(1, flap.time, flap.time, flap.state))
        if vote.detail_fault is not None:
            fault = vote.detail_fault
            self._add_fault(DETAIL, fault_counts.Counted(1, vote.time, vote.time, fault))

    def _add_fault(self, kind: str, more: fault_counts.Counted) -> None:
        known = self.faults.get(kind)
        self.faults[kind] = more if known is None else known.plus(more)


Tally = dict[tuple[str, str], Counted]


def walk(now: int, portion: int = PORTION) -> bool:
    """Count a portion of the rows. Returns whether it was the last one, and the figures are new."""
    at, _ = Walk.objects.get_or_create(pk=1)
    tally = {(each.scenario, each.agent): each for each in _load(at.tally)}
    rows = AssetState.objects.filter(pk__gt=at.after, purged=False).order_by("pk")
    walked, after = 0, at.after
    for key, scenario, asset, record in rows.values_list("pk", "scenario", "asset", "record")[
        :portion
    ].iterator(2_000):
        _count(tally, scenario, asset, record)
        walked, after = walked + 1, key
    done = walked < portion
    if done:
        _publish(tally.values(), now)
    text = "[]" if done else msgspec.json.encode(list(tally.values())).decode()
    Walk.objects.filter(pk=at.pk).update(after=0 if done else after, tally=text)
    return done


def _load(text: str) -> list[Counted]:
    try:
        return msgspec.json.decode(text, type=list[Counted])
    except msgspec.MsgspecError:  # of another release: it is counted anew
        return []


def _count(tally: Tally, scenario: str, asset: str, text: str) -> None:
    record = votes_value(text)
    made = record.override.underlying if record.override else record.state
    for vote in record.votes:
        counted = tally.get((scenario, vote.agent))
        if counted is None:
            if vote.agent.startswith(USER_PREFIX) or not name_ok(vote.agent):
                continue
            if len(tally) >= MAX_AGENTS:
                log.warning("more agents than are counted", most=MAX_AGENTS, agent=vote.agent)
                continue
            counted = tally[scenario, vote.agent] = Counted(scenario, vote.agent)
        counted.add(vote, asset, made)


def _publish(counts: Iterable[Counted], now: int) -> None:
    """Replace the figures by those of a whole walk."""
    counted = list(counts)
    with transaction.atomic():
        Dissent.objects.all().delete()
        Dissent.objects.bulk_create(_dissents(counted), batch_size=CHUNK)
        Agent.objects.bulk_create(
            [_row(each, now) for each in counted],
            update_conflicts=True,
            unique_fields=["scenario", "agent"],
            update_fields=[*FIGURES, "counted_at"],
            batch_size=CHUNK,
        )
        Agent.objects.filter(counted_at__lt=now).update(
            votes=0, against=0, silent=0, silent_since=None, counted_at=now
        )
        fault_counts.publish(_faults(counted), OF_ALL_VOTES)


def _faults(counted: Iterable[Counted]) -> fault_counts.Counts:
    return {
        (each.scenario, each.agent, kind): fault
        for each in counted
        for kind, fault in each.faults.items()
    }


def _dissents(counted: Iterable[Counted]) -> list[Dissent]:
    return [
        Dissent(scenario=each.scenario, agent=each.agent, asset=asset, said=said, made=made, at=at)
        for each in counted
        for at, asset, said, made in each.dissents
    ]


def _row(each: Counted, now: int) -> Agent:
    own = named_fields(each, ("scenario", "agent", *FIGURES))
    return Agent(**own, first_seen=each.last, last_seen=each.last, counted_at=now)
