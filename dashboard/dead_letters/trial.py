"""A report tried on what the board has of its asset: what the fold would make of it now."""

from __future__ import annotations

from typing import NamedTuple

from dashboard.states.newest import record_of
from domain.asset import Asset
from domain.fold import Bucket
from domain.records import DeadLetter, Doubt, RefusedReport, Report, StateRecord, Vote
from domain.scenario import UNKNOWN, Scenario
from wire.sink import state_record

_NEXT = 2**62
"""An offset behind all that the board has."""


class Trial(NamedTuple):
    """What would become of a report.

    reason: of its dead letter, or empty; votes: how many the asset has; vote: the one that it would
    be, None where it is no newer than its agent's; doubt: of its agent, where it gives cause.
    """

    reason: str
    votes: int
    vote: Vote | None
    doubt: Doubt | None

    @property
    def doubtful(self) -> bool:
        """Whether it would be a vote in doubt, or leave its agent in doubt."""
        return self.doubt is not None or (self.vote is not None and self.vote.doubt is not None)


def tried(report: Report | RefusedReport, scenario: Scenario, now: int) -> Trial:
    """Return what the fold makes of a report that is appended at `now` (Unix ms)."""
    board = record_of(scenario.name, report.asset)
    asset = None if board is None else _asset(scenario, state_record(board))
    votes = 0 if asset is None else len(asset.votes)
    known = {} if asset is None else {report.asset: asset}
    bucket = Bucket(scenario, 0, 1, known, clock=now, live=len(known))
    emitted = bucket.apply(report, _NEXT, now)
    reason = next((each.reason for each in emitted if isinstance(each, DeadLetter)), "")
    left = bucket.assets.get(report.asset) or Asset()
    vote, doubt = left.votes.get(report.agent), left.doubts.get(report.agent)
    return Trial(
        reason,
        votes,
        vote if vote is not None and vote.offset == _NEXT else None,
        doubt if doubt is not None and doubt.offset == _NEXT else None,
    )


def _asset(scenario: Scenario, shown: StateRecord) -> Asset:
    """Return an asset as far as its state record has it."""
    over = shown.override
    tallied = shown.state if over is None else over.underlying
    known = tallied != UNKNOWN or scenario.knows(UNKNOWN)
    return Asset(
        state=tallied if known else None,
        shown=shown.state,
        since=shown.since,
        override=over,
        votes={vote.agent: vote for vote in shown.votes},
        doubts={doubt.agent: doubt for doubt in shown.doubts},
        tasks=shown.tasks,
        disputed=shown.disputed,
    )
