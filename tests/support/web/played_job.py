"""A played job materialised and reconciled in the configured database; what it holds, as JSON.

Run as a program by tests that compare databases: `python tests/support/web/played_job.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
START = 1_790_000_000_000
SORTED = [(0, False), (0, True), (1, False), (1, True)]
"""Details by their place, and whether low values come first."""


def main() -> None:
    """Play, materialise, read everything again, reconcile; print what came of it."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from support.web.database import migrate

    migrate()
    print(json.dumps(_played()))


def _played() -> dict[str, Any]:
    from bus.memory import MemoryBus
    from dashboard.core.states.models import Divergence, SinkOffset
    from dashboard.core.states.queries import Ranking, consistent, counts, find
    from domain.scenario_parser import load_scenarios
    from support.kafka.sinks import PlayedJob

    clock = itertools.count(START, 700)
    scenarios = load_scenarios(ROOT / "scenarios.toml", demo=True)
    job = PlayedJob(MemoryBus(lambda: next(clock)), scenarios.values())
    source = random.Random(11)
    for _ in range(4):
        _live(job, source)
        _materialise(job)
    first = _content()
    SinkOffset.objects.all().delete()
    job.producer.send_and_wait(job.topics.states("attack"), b"x", b"no state record")
    _materialise(job)
    with consistent():
        shown = [len(find("attack").records), counts("attack")]
        by_detail = [find("attack", ranking=Ranking(at, low)).records for at, low in SORTED]
        shown += [[row.asset for row in rows] for rows in by_detail]
    return {
        "first": first,
        "again": _content(),
        "shown": shown,
        "divergences": Divergence.objects.count(),
        "differences": _differences(job),
    }


def _live(job: Any, source: random.Random) -> None:
    from domain.records import COMMAND_KINDS, Command, Report

    for n in range(100):
        asset = f"ünit/{source.randrange(9)} 10.0.0.0%2F8"
        if n % 9:
            state = source.choice(["under-attack", "clear", "suspicious"])
            kind = source.choice("abcABCä😀")
            detail = f'{{"note": "a\\u0000b 🙂", "n": {n}.0, "kind": "{kind}", "rate": {n % 7}}}'
            job.put("attack", Report(asset, f"waf-{source.randrange(4)}", state, None, detail))
        else:
            id_ = f"0b8f7e0c-51a3-4f0e-9d3e-{source.randrange(10**12):012d}"
            kind = source.choice(COMMAND_KINDS)
            wanted = "clear" if kind in ("set", "vote") else None
            job.put("attack", Command(kind, asset, id_, "olga", "because", wanted))
            job.tick()
    job.run()


def _materialise(job: Any) -> None:
    from dashboard.serve.materialiser.worker import Materialiser

    worker = Materialiser(job.bus, job.topics, job.scenarios, lambda: START)
    while worker.step():
        pass
    worker.close()


def _content() -> list[list[Any]]:
    from dashboard.core.job.ingestion import BEAT
    from dashboard.core.job.models import BucketStatus
    from dashboard.core.states.models import Answer, AssetState, Transition
    from dashboard.core.states.rows import CHANGE_COLUMNS, COLUMNS

    tables: list[list[Any]] = []
    for model, columns in (
        (AssetState, COLUMNS),
        (Transition, CHANGE_COLUMNS),
        (Answer, ("command", "outcome", "version", "at")),
        (BucketStatus, BEAT),
    ):
        tables.append(sorted(map(list, model.objects.values_list(*columns)), key=str))
    return tables


def _differences(job: Any) -> int:
    from dashboard.core.rules.log_replay import Snapshots
    from dashboard.core.rules.reconciliation import Reconciler

    folder = Path(os.environ["TALLYBOARD_DATA_DIR"]) / "snapshots"
    kept = Snapshots(folder, lambda: START)
    reconciler = Reconciler(
        job.bus, job.topics, job.scenarios, kept, lambda: START, patience_s=5, grace_s=0
    )
    result = reconciler.run()
    return len(result.differences) + len(result.miscounted) + len(result.changes)


if __name__ == "__main__":
    main()
