"""Carrying a run out: its commands into the log, their answers, and the run once more."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import cast

import structlog
from django.db import connection, transaction
from django.db.models import Q

from bus.base import BusError
from dashboard.core.audit.log import Actor
from dashboard.core.common.kafka import Delivery
from dashboard.core.common.resumable import MAX_PROBLEM, ResumableTask, take_turns
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import Clock, now_ms
from dashboard.watch.bulk.models import (
    CANCELLED,
    DONE,
    LEFT,
    RUNNING,
    SENDING,
    SENT,
    UNSENT,
    Item,
    Run,
    RunQuerySet,
)
from dashboard.watch.bulk.progress import log_run
from dashboard.watch.commands.models import phase_of_outcome
from dashboard.watch.commands.submission import send
from domain.records import REFUSED, Command, Kind, Schedule
from domain.version import Version
from wire.partitioner import partition_of

# ---- outcomes ------------------------------------------------------------------------------------
# The answers to a run's commands, as the materialiser keeps them, joined to its assets.

# Answers that are joined at a time.
ANSWER_PORTION = 5_000

_FIND = f"""\
SELECT item.id, item.asset, answer.outcome, answer.version
FROM bulk_item item JOIN states_answer answer ON answer.command = item.command
WHERE item.run_id = %s AND item.outcome IN ('{SENT}', '{SENDING}') LIMIT {ANSWER_PORTION}"""  # noqa: S608
_RECORD = f"""\
UPDATE bulk_item SET outcome = %s, text = %s, answered_version = %s, answered_at = %s,
    partition = %s, "offset" = %s
WHERE id = %s AND outcome IN ('{SENT}', '{SENDING}')"""  # noqa: S608


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
            cursor.executemany(_RECORD, rows)
    return len(rows)


def _refusal(outcome: str) -> str:
    """Return why the job refused, empty where it did not."""
    return outcome.removeprefix(REFUSED) if outcome.startswith(REFUSED) else ""


# ---- execution -----------------------------------------------------------------------------------
# Carrying a run out: its commands into the log a portion at a time, their answers joined.
#
# May be killed at any point and run again, here or in another process. What is to be sent is in the
# database; a portion is claimed by a conditional update before it is sent; the id of each command
# is made of run and asset, so that a command sent twice, as its first sending was not stored, is
# one command to the job, which answers it once.

log = structlog.get_logger(__name__)

SEND_PORTION = 1_000
"""Commands that are claimed, sent and noted together."""
MOST_A_SECOND = 5_000
"""Commands sent a second at most, so that agents' reports and people's commands get by."""
LEASE_MS = 10_000
"""A worker that has not renewed its lease for this long does not carry a run on any more."""
GIVE_UP_MS = 24 * 3_600_000
"""An answer that has not come after this long is not waited for."""
QUIET_S = 0.3
"""How long to wait for answers where nothing is to be sent, s."""
PATIENCE_S = 3.0
"""Without an answer for this long the turn ends; the next one is some seconds later."""

Row = tuple[int, str, str, str]
"""Of an item: its id, asset, version and command."""


def work(clock: Clock = now_ms) -> bool:
    """Send one portion of each open run. Return whether any can continue at once."""
    return take_turns(RunTask(run, clock) for run in Run.objects.open())


class RunTask(ResumableTask[Run]):
    """One worker's turn at a run, which it has to itself by a lease."""

    kind = "bulk run"

    def __init__(self, run: Run, clock: Clock = now_ms, lease: str = "") -> None:
        super().__init__(run, clock)
        self.run, self.lease = run, lease or str(uuid.uuid4())
        self.answered_at: float | None = None
        self.sent = 0

    def claim(self) -> bool:
        """Claim the run, if nobody has it or the lease of the worker that had it was not renewed.
        Returns whether it did."""
        now = self.clock()
        free = Q(lease="") | Q(lease_until__lt=now)
        runs = Run.objects.not_ended().filter(free, pk=self.run.pk)
        return runs.update(lease=self.lease, lease_until=now + LEASE_MS) == 1

    def release(self) -> None:
        """Release the lease."""
        self.held().update(lease="", lease_until=0)

    def held(self) -> RunQuerySet:
        """Return the run, where it is this worker's."""
        return Run.objects.filter(pk=self.run.pk, lease=self.lease)

    def step(self) -> bool:
        """Send a portion, and settle answers. Returns whether there is more to do at once."""
        if not self._renewed():
            return False
        if self.run.status == CANCELLED:
            self._leave()
        # first: a portion that was sent and not noted may be answered by now
        answered = settle(self.run, self.clock())
        self.sent = self._send() if self.run.status == RUNNING else 0
        if answered or self.sent:
            self.answered_at = time.monotonic()
        if self._ended() or self.run.problem:
            return False
        return bool(self.sent) or not self._is_quiet()

    def pause_s(self, took_s: float) -> float:
        """Return the pause that keeps to MOST_A_SECOND, s; store the rate.

        With nothing to send it is QUIET_S, less the time taken.
        """
        if not self.sent:
            return QUIET_S - took_s
        least = self.sent / MOST_A_SECOND
        rate = self.sent / max(least, took_s)
        smooth = 0.7 * self.run.rate + 0.3 * rate if self.run.rate else rate
        self.move(rate=smooth, last_sent_at=self.clock())
        return least - took_s

    def log_stopped(self, why: str) -> None:
        """Log in the audit that the run was stopped."""
        self.run.refresh_from_db()
        log_run(Actor.system("worker"), self.run, "bulk.stopped", f"stopped: {why}")

    def _is_quiet(self) -> bool:
        """Return whether no answer is to be expected at once."""
        return self.answered_at is None or time.monotonic() - self.answered_at > PATIENCE_S

    def _renewed(self) -> bool:
        """Renew the lease, and read what people request of the run."""
        ours = self.held().not_ended()
        renewed = ours.update(lease_until=self.clock() + LEASE_MS) == 1
        if renewed:
            self.run.refresh_from_db()
        return renewed

    def _leave(self) -> None:
        """Leave unsent what a cancelled run has not sent; follow what may have been sent."""
        self.run.items.ready().update(outcome=LEFT)

    def _ended(self) -> bool:
        """Return whether nothing is left to be sent or answered; if so, store it."""
        items = self.run.items
        if items.ready().exists() or (items.waiting().exists() and not self._given_up()):
            return False
        status = CANCELLED if self.run.status == CANCELLED else DONE
        tallies = items.counts()
        self.move(ended_at=self.clock(), status=status, problem="", tallies=tallies)
        log.info("bulk run ended", run=str(self.run.pk), status=status)
        return True

    def _given_up(self) -> bool:
        since = self.run.last_sent_at or self.run.started_at or 0
        return self.clock() - since > GIVE_UP_MS

    # ---- sending --------------------------------------------------------------------------------

    def _send(self) -> int:
        """Send a portion: first what was claimed and never stored as sent.

        Returns how many arrived.
        """
        rows = self._claim_portion() if self._may_go_on() else []
        if not rows:
            return 0
        commands = [_command(self.run, asset, *rest) for _, asset, *rest in rows]
        try:
            deliveries = send(self.run.scenario, commands)
        except BusError as error:
            self.move(problem=str(error)[:MAX_PROBLEM])
            return 0
        arrived = record_deliveries([pk for pk, *_ in rows], deliveries)
        problem = "" if arrived else _first_problem(deliveries)
        if problem != self.run.problem:
            self.move(problem=problem)
        return arrived

    def _may_go_on(self) -> bool:
        """Return whether who started the run may still command; otherwise stop what is left."""
        return not self.run.items.unsent().exists() or not self.stop_if_lapsed(
            self.run.sender_id, self.run.sender_name
        )

    def _claim_portion(self) -> list[Row]:
        """Claim the next portion: nobody else sends it while it is claimed."""
        columns = ("pk", "asset", "version", "command")
        with transaction.atomic():
            claimed = self.run.items.filter(outcome=SENDING).order_by("number")
            if rows := list(claimed.values_list(*columns)[:SEND_PORTION]):
                return rows
            ready = self.run.items.ready().order_by("number")
            rows = list(ready.values_list(*columns)[:SEND_PORTION])
            last = self.run.items.ready().filter(pk__in=[pk for pk, *_ in rows])
            return rows if last.update(outcome=SENDING) == len(rows) else []


def _command(run: Run, asset: str, version: str, command: str) -> Command:
    return Command(
        kind=cast("Kind", run.kind),
        asset=asset,
        id=command,
        user=run.sender_name,
        reason=run.reason,
        state=run.state or None,
        until=run.until,
        if_version=Version.parse(version) if version else None,
        schedule=Schedule(**run.schedule) if run.schedule else None,
    )


def record_deliveries(items: Sequence[int], deliveries: Sequence[Delivery]) -> int:
    """Store which items' commands arrived and which cannot; the rest stays claimed, and is sent
    again under its id. Returns how many are dealt with.
    """
    outcomes = list(zip(items, deliveries, strict=True))
    sent = [(each.place.partition, each.place.offset, pk) for pk, each in outcomes if each.place]
    refused = [(each.text[:200], pk) for pk, each in outcomes if each.status == "unsent"]
    table = Item._meta.db_table  # noqa: SLF001 - Django's documented API
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {table} SET outcome = '{SENT}', partition = %s, \"offset\" = %s "  # noqa: S608
            f"WHERE id = %s AND outcome = '{SENDING}'",
            sent,
        )
        cursor.executemany(
            f"UPDATE {table} SET outcome = '{UNSENT}', text = %s "  # noqa: S608
            f"WHERE id = %s AND outcome = '{SENDING}'",
            refused,
        )
    return len(sent) + len(refused)


def _first_problem(deliveries: Sequence[Delivery]) -> str:
    text = next((each.text for each in deliveries if each.text), "no confirmation")
    return f"Kafka does not confirm: {text}"[:MAX_PROBLEM]
