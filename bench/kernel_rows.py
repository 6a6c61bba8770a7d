"""The database of a copy, written from what the kernel makes of its log.

The materialiser writes a database of millions of assets in many minutes. This is for measuring what
reads one: states and their history, without the indexes that only pages need.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PORTION = 20_000
NUMBERS = (
    "log_time", "assets", "timers", "records", "dead_letters", "stale", "at", "received_at",
)  # fmt: skip
NEEDLESS = """\
SELECT type, name FROM sqlite_master
WHERE tbl_name IN ('states_assetstate', 'states_transition')
AND (type = 'trigger' OR type = 'index' AND sql LIKE 'CREATE INDEX%')"""


def main() -> None:
    """Write the database that the settings name."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection

    from bus.kafka import KafkaBus
    from dashboard.core.common.scenarios import scenarios, topics
    from dashboard.core.common.times import now_ms
    from dashboard.core.rules.log_replay import KernelFold, Snapshots, kernel_order

    bus = KafkaBus(settings.TALLYBOARD.kafka_options())
    places = bus.offsets([topics().reports(name) for name in scenarios()])
    with TemporaryDirectory(dir=settings.TALLYBOARD.data_dir) as name:
        folder = Path(name)
        kept = Snapshots(folder, now_ms)
        starts = dict.fromkeys(places)
        order = kernel_order(topics(), scenarios(), kept, starts, 1, folder / "kernel")
        fold = KernelFold(order, topics(), folder / "kernel.log")
        try:
            reached = fold.fold_on(lambda done, of: print(f"{done:,} of {of:,} folded", flush=True))
            fold.close()
            with sqlite3.connect(connection.settings_dict["NAME"]) as database:
                _strip(database)
                _write(database, reached.files)
                _write_buckets(database, reached.ends)
        finally:
            fold.close()


def _strip(database: sqlite3.Connection) -> None:
    """Drop triggers, the index of names, and the indexes of the two large tables."""
    for kind, name in database.execute(NEEDLESS).fetchall():
        database.execute(f'DROP {kind} "{name}"')
    database.execute("DROP TABLE IF EXISTS states_nameparts")
    database.execute("PRAGMA synchronous = OFF")


def _write(database: sqlite3.Connection, files: list[str]) -> None:
    from dashboard.core.common.scenarios import scenarios
    from dashboard.core.rules.changes import changes_of
    from dashboard.core.rules.reconciliation import read_folded
    from dashboard.core.states.rows import CHANGE_COLUMNS, COLUMNS, record_row
    from wire.bucket_fold import read_emissions

    counts: Counter[tuple[str, str]] = Counter()
    states: list[Any] = []
    changes: list[Any] = []

    def flush() -> None:
        _insert(database, "states_assetstate", COLUMNS, states)
        _insert(database, "states_transition", CHANGE_COLUMNS, changes)
        states.clear()
        changes.clear()

    for (scenario, _), own in groupby(read_emissions(files), key=attrgetter("scenario", "asset")):
        records = [(record, read_folded(record, 1, 1)) for record in own]
        states.append(record_row(scenarios()[scenario], records[-1][1]))
        counts[scenario, records[-1][1].state] += 1
        changes += [(scenario, *change) for change in changes_of(scenario, records)]
        if len(states) >= PORTION:
            flush()
    flush()
    rows = [(*key, n) for key, n in counts.items()]
    _insert(database, "states_statecount", ("scenario", "state", "n"), rows)


def _insert(
    database: sqlite3.Connection, table: str, columns: tuple[str, ...], rows: list[Any]
) -> None:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    insert = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - our own names
    database.executemany(insert, rows)


def _write_buckets(database: sqlite3.Connection, ends: dict[tuple[str, int], int]) -> None:
    """Write heartbeats that say that the job has reached the log's end."""
    from dashboard.core.common.scenarios import topics
    from dashboard.core.job.models import BucketStatus

    database.commit()
    for (topic, partition), end in ends.items():
        name = topics().scenario_of(topic) or ""
        BucketStatus.objects.create(
            bucket=f"{name}/{partition}", scenario=name, partition=partition, engine="kernel",
            executor="", host="", offset=end - 1, epoch=1, **dict.fromkeys(NUMBERS, 0),
        )  # fmt: skip


if __name__ == "__main__":
    main()
