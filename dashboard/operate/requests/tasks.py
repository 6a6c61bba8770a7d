"""The worker's tasks for replays, and the comparison when a replay ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from uuid import UUID

import structlog
from celery import shared_task
from django.conf import settings

from bus.base import BusError
from dashboard.core.common.times import now_ms
from dashboard.operate.requests.models import DONE, FAILED, Replay

# ---- verification --------------------------------------------------------------------------------
# The comparison when a replay ends: reconcile, with the outcome stored on the replay.

log = structlog.get_logger(__name__)

# Most differences stored in words.
NAMED = 20
MAX_PROBLEM = 4_000


def compare(id_: UUID) -> Replay:
    """Compare, store the result and return the replay. Raises Replay.DoesNotExist."""
    from dashboard.core.rules.reconciliation import Behind  # only readers need this

    row = Replay.objects.get(pk=id_)
    try:
        result = _compare(row)
    except (Behind, BusError) as error:
        result = {"reconcile": FAILED, "problem": str(error)[:MAX_PROBLEM]}
    except Exception as error:
        log.exception("a replay could not be compared", replay=str(row.pk))
        result = {"reconcile": FAILED, "problem": f"{type(error).__name__}: {error}"[:MAX_PROBLEM]}
    Replay.objects.filter(pk=row.pk).update(**result, ended_at=now_ms())
    row.refresh_from_db()
    return row


def _compare(row: Replay) -> dict[str, Any]:
    """Return what reconcile finds in the query's scenarios. Raises Behind and BusError."""
    from bus.kafka import KafkaBus  # only a process that reads loads Kafka's library
    from dashboard.core.common.scenarios import scenarios, topics
    from dashboard.core.rules.log_replay import Snapshots, workspace
    from dashboard.core.rules.reconciliation import Reconciler
    from dashboard.operate.requests.replays import carried

    tallyboard = settings.TALLYBOARD
    mine = {name: scenarios()[name] for name in carried(row.query)}
    kept = Snapshots(tallyboard.data_dir / "snapshots", now_ms)
    bus = KafkaBus(tallyboard.kafka_options())
    with workspace(tallyboard.data_dir / "reconcile") as folder:
        reconciler = Reconciler(bus, topics(), mine, kept, now_ms, kernel=None, folder=folder)
        result = reconciler.run()
    lines = [f"{each.scenario}/{each.asset}: {each.kind}" for each in result.differences[:NAMED]]
    lines += [
        f"{each.scenario} {each.state} {each.kind}: expected {each.expected}, found {each.found}"
        for each in result.miscounted[:NAMED]
    ]
    return {
        "reconcile": DONE,
        "records": result.records,
        "compared": result.compared,
        "unjudged": result.unjudged,
        "differences": len(result.differences) + len(result.miscounted) + result.unlisted,
        "problem": "\n".join(lines)[:MAX_PROBLEM],
    }


# ---- replays -------------------------------------------------------------------------------------
# The worker's tasks for replays. They may run twice, or be cut short and run again.


@shared_task(ignore_result=True)
def judge_ended() -> int:
    """Start a process to compare each replay that has ended. Returns how many were started.

    A long log takes minutes, and the worker runs one task at a time.
    """
    now = now_ms()
    taken = [row for row in Replay.objects.to_compare(now) if row.claim_comparison(now)]
    for row in taken:
        manage = str(settings.BASE_DIR / "manage.py")
        subprocess.Popen([sys.executable, manage, "judge_replay", str(row.pk)])
    return len(taken)
