"""Results of batch queries in `job.results`, into the database; in the materialiser's transaction.

Only what was requested here is kept: the row of the request is there before its result can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from dashboard.state_store import ingestion as statestore
from dashboard.what_if import ingestion as whatif
from wire.batch_query import Result, Stored


def take_in(results: Sequence[Result], now: int) -> None:
    """Store the parts of results."""
    for result in results:
        try:
            request = UUID(result.ask)
        except ValueError:
            continue  # another program's
        if isinstance(result, Stored):
            statestore.take_in(request, result, now)
        else:
            whatif.take_in(request, result, now)
