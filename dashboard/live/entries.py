"""The newest record of one asset, as a process keeps it beyond the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from dashboard.filter_language.live_votes import live_votes
from dashboard.filter_language.terms import Sight
from dashboard.labels.queries import chips_of
from dashboard.states.board_rows import Row

Place = tuple[str, int]
"""A sink topic and one of its partitions."""
Offsets = Mapping[Place, int]


@dataclass(slots=True)
class Entry:
    """The newest record of one asset, and where it was read.

    row: None after a purge; value: the record as it stands in the topic; labels: the asset's; ack:
    who has acknowledged it; works: whether it is in maintenance.
    """

    asset: str
    version: str
    row: Row | None
    place: Place
    offset: int
    value: bytes = b""
    labels: Mapping[str, str] = field(default_factory=dict)
    ack: str | None = None
    works: bool = False
    _json: bytes = b""

    def json(self) -> bytes:
        """Return the row as JSON, made once for all sockets."""
        if not self._json:
            self._json = msgspec.json.encode(self.row)
        return self._json

    def tell(
        self,
        labels: Mapping[str, str],
        chips: Collection[str],
        ack: str | None,
        works: bool = False,
    ) -> None:
        """Set what is known of the asset besides its states. chips: keys of the labels shown."""
        self.labels, self.ack, self.works, self._json = labels, ack, works, b""
        if self.row is not None:
            self.row["labels"] = chips_of(labels, chips)

    def sight(self) -> Sight:
        """Return what a filter looks at. Only of an asset that is on the board."""
        row = self.row
        assert row is not None
        votes = live_votes(self.value) if self.value else []
        return Sight(
            row["asset"],
            row["state"],
            row["since"],
            row["unconfirmed"],
            row["pending"][0] if row["pending"] else None,
            tuple(row["override"]) if row["override"] else None,
            [(vote.agent, vote.state) for vote in votes],
            self.labels,
            self.ack,
            any(vote.muted is not None for vote in votes),
            row["doubts"],
            self.works,
        )
