"""What errands bring back in `job.results`, into the database; in the materialiser's transaction.

Only what was asked for here is kept: the row of the ask is there before its result can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from dashboard.state_store import ingestion as statestore
from dashboard.what_if import ingestion as whatif
from wire.batch_query import Result, Stored


def take_in(results: Sequence[Result], now: int) -> None:
    """Keep the parts of results."""
    for result in results:
        try:
            ask = UUID(result.ask)
        except ValueError:
            continue  # another program's
        if isinstance(result, Stored):
            statestore.take_in(ask, result, now)
        else:
            whatif.take_in(ask, result, now)
