"""The answers to a run's commands, as the materialiser keeps them, joined to its assets."""

from __future__ import annotations

from django.db import connection, transaction

from dashboard.bulk.models import SENDING, SENT, Run
from dashboard.commands.status import phase_of_outcome
from dashboard.core.scenarios import scenarios
from domain.records import REFUSED
from domain.version import Version
from wire.partitioner import partition_of

# Answers that are joined at a time.
PORTION = 5_000

_FIND = f"""\
SELECT item.id, item.asset, answer.outcome, answer.version
FROM bulk_item item JOIN board_answer answer ON answer.command = item.command
WHERE item.run_id = %s AND item.fate IN ('{SENT}', '{SENDING}') LIMIT {PORTION}"""  # noqa: S608
_NOTE = f"""\
UPDATE bulk_item SET fate = %s, text = %s, answered_version = %s, answered_at = %s,
    partition = %s, "offset" = %s
WHERE id = %s AND fate IN ('{SENT}', '{SENDING}')"""  # noqa: S608


def settle(run: Run, now: int) -> int:
    """Store the answers that have come by `now` (ms), at most a portion. Returns how many.

    A command's place is that of the record which it was answered at: sent twice, that of the first.
    """
    pk = run.pk.hex if connection.vendor == "sqlite" else run.pk
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [pk])
        answers = cursor.fetchall()
    partitions = scenarios()[run.scenario].partitions
    rows = [
        (
            phase_of_outcome(outcome),
            _refusal(outcome),
            version,
            now,
            partition_of(asset.encode(), partitions),
            Version.parse(version).offset,
            item,
        )
        for item, asset, outcome, version in answers
    ]
    if rows:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(_NOTE, rows)
    return len(rows)


def _refusal(outcome: str) -> str:
    """Return why the job refused, empty where it did not."""
    return outcome.removeprefix(REFUSED) if outcome.startswith(REFUSED) else ""
