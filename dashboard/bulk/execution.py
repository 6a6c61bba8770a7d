"""Carrying a run out: its commands into the log a portion at a time, their answers joined.

May be killed at any point and run again, here or in another process. What is to be sent is in the
database; a portion is claimed by a conditional update before it is sent; the id of each command is
made of run and asset, so that a command sent twice, as its first sending was not noted, is one
command to the job, which answers it once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import structlog
from django.db import connection, transaction
from django.db.models import Q

from bus.base import BusError, Delivered, OnDelivery, Producer, QueueFull, Unavailable
from dashboard.audit.log import Actor
from dashboard.bulk.audit_entries import note_run
from dashboard.bulk.models import (
    CANCELLED,
    DONE,
    LEFT,
    READY,
    REVIEW,
    RUNNING,
    SENDING,
    SENT,
    STOPPED,
    UNSENT,
    WAITING,
    Item,
    Run,
)
from dashboard.bulk.outcomes import settle
from dashboard.bulk.run_progress import counts
from dashboard.core.kafka import REACH_S, SEND_TIMEOUT_S, Gateway, NotSigned, gateway
from dashboard.core.roles import lapsed
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from domain.records import Command, Kind
from domain.version import Version
from wire.source import encode_command

log = structlog.get_logger(__name__)

PORTION = 1_000
"""Commands that are claimed, sent and noted together."""
MOST_A_SECOND = 5_000
"""Commands sent a second at most, so that agents' reports and people's commands get by."""
TURN_S = 10.0
"""How long a run is carried on before another has its turn, s."""
LEASE_MS = 10_000
"""A worker that has not said so for this long does not carry a run on any more."""
GIVE_UP_MS = 24 * 3_600_000
"""An answer that has not come after this long is not waited for."""
QUIET_S = 0.3
"""How long to wait for answers where nothing is to be sent, s."""
PATIENCE_S = 3.0
"""Without an answer for this long the turn ends; the next one is some seconds later."""

Clock = Callable[[], int]
Row = tuple[int, str, str, str]
"""Of an item: its id, asset, version and command."""


def open_runs() -> list[Run]:
    """The runs that something is left of, the first that was started first.

    One whose scenario is not configured any more stays as it is.
    """
    runs = Run.objects.filter(ended_at=None, scenario__in=list(scenarios()))
    return list(runs.exclude(status=REVIEW).order_by("started_at"))


def work(clock: Clock = now_ms) -> bool:
    """Give each open run a turn. Returns whether one of them can go on at once."""
    more = [turn(run, clock) for run in open_runs()]
    return any(more)


def turn(run: Run, clock: Clock = now_ms) -> bool:
    """Carry a run on for a while, unless another worker does. Returns whether it can go on."""
    lease = str(uuid.uuid4())
    if not _take(run, lease, clock()):
        return False
    try:
        return Turn(run, lease, clock).carry_on()
    except Exception as error:  # the other runs go on, and this one is tried again
        log.exception("a bulk run cannot be carried on", run=str(run.pk))
        held = Run.objects.filter(pk=run.pk, lease=lease)
        held.update(trouble=f"The worker failed: {error}"[:300])
        return False
    finally:
        Run.objects.filter(pk=run.pk, lease=lease).update(lease="", lease_until=0)


def _take(run: Run, lease: str, now: int) -> bool:
    """Have the run to oneself; whoever had it has ended, or has not been heard of for a while."""
    free = Run.objects.filter(Q(lease="") | Q(lease_until__lt=now), pk=run.pk, ended_at=None)
    return free.update(lease=lease, lease_until=now + LEASE_MS) == 1


class Turn:
    """One worker's work on one run."""

    def __init__(self, run: Run, lease: str, clock: Clock) -> None:
        self.run, self.lease, self.clock = run, lease, clock
        self.end = time.monotonic() + TURN_S
        self.heard: float | None = None
        settle(run, clock())  # a portion that was sent and not noted may be answered by now

    def carry_on(self) -> bool:
        """Send and settle until the turn is over. Returns whether there is more to do at once."""
        while time.monotonic() < self.end and self._still_ours():
            if self.run.status == CANCELLED:
                self._leave()
            begun = time.monotonic()
            sent = self._send() if self.run.status == RUNNING else 0
            if settle(self.run, self.clock()) or sent:
                self.heard = time.monotonic()
            if self._ended() or self.run.trouble:
                return False
            if not sent and self._is_quiet():
                return False
            self._pace(sent, begun)
        return True

    def _is_quiet(self) -> bool:
        """Whether no answer is to be expected at once."""
        return self.heard is None or time.monotonic() - self.heard > PATIENCE_S

    def _still_ours(self) -> bool:
        """Renew the lease, and look what people want of the run."""
        ours = Run.objects.filter(pk=self.run.pk, lease=self.lease, ended_at=None)
        renewed = ours.update(lease_until=self.clock() + LEASE_MS)
        if renewed:
            self.run.refresh_from_db()
        return renewed == 1

    def _pace(self, sent: int, begun: float) -> None:
        """Keep to the rate, and note it."""
        least = sent / MOST_A_SECOND if sent else QUIET_S
        time.sleep(max(0.0, least - (time.monotonic() - begun)))
        if sent:
            rate = sent / (time.monotonic() - begun)
            smooth = 0.7 * self.run.rate + 0.3 * rate if self.run.rate else rate
            self._note(rate=smooth, last_sent_at=self.clock())

    def _note(self, **fields: Any) -> None:
        Run.objects.filter(pk=self.run.pk, lease=self.lease).update(**fields)
        for name, value in fields.items():
            setattr(self.run, name, value)

    def _leave(self) -> None:
        """Of a cancelled run what was not sent stays so; what may have been is followed."""
        Item.objects.filter(run=self.run, fate=READY).update(fate=LEFT)

    def _ended(self) -> bool:
        """Whether nothing is left to be sent or answered; note it."""
        waiting = Item.objects.filter(run=self.run, fate__in=WAITING)
        ready = Item.objects.filter(run=self.run, fate=READY)
        if ready.exists() or (waiting.exists() and not self._given_up()):
            return False
        status = CANCELLED if self.run.status == CANCELLED else DONE
        tallies = counts(self.run)
        self._note(ended_at=self.clock(), status=status, trouble="", tallies=tallies)
        log.info("bulk run ended", run=str(self.run.pk), status=status)
        return True

    def _given_up(self) -> bool:
        since = self.run.last_sent_at or self.run.started_at or 0
        return self.clock() - since > GIVE_UP_MS

    # ---- sending --------------------------------------------------------------------------------

    def _send(self) -> int:
        """Send a portion: first what was claimed and never noted. Returns how many arrived."""
        rows = self._claim() if self._may_go_on() else []
        if not rows:
            return 0
        to = gateway()
        try:
            to.bus.wait(REACH_S)
        except BusError as error:
            self._note(trouble=f"Kafka does not answer: {error}"[:300])
            return 0
        try:
            results = produce(to, self.run, rows)
        except NotSigned as problem:
            self._note(trouble=str(problem)[:300])
            return 0
        arrived = note(results)
        trouble = "" if arrived else _first_trouble(results)
        if trouble != self.run.trouble:
            self._note(trouble=trouble)
        return arrived

    def _may_go_on(self) -> bool:
        """Whether who started the run may still command; where not, what is left is stopped."""
        left = Item.objects.filter(run=self.run, fate__in=(READY, SENDING))
        why = lapsed(self.run.sender_id, self.run.sender_name, "command") if left.exists() else ""
        if why:
            self._stop(why)
        return not why

    def _stop(self, why: str) -> None:
        running = Run.objects.filter(pk=self.run.pk, lease=self.lease, status=RUNNING)
        if running.update(status=STOPPED, trouble=why[:300]):
            self.run.refresh_from_db()
            note_run(Actor.system("worker"), self.run, "bulk.stopped", f"stopped: {why}")
            log.warning("bulk run stopped", run=str(self.run.pk), why=why)

    def _claim(self) -> list[Row]:
        """The next portion, claimed: nobody else sends it while it is."""
        columns = ("pk", "asset", "version", "command")
        with transaction.atomic():
            claimed = Item.objects.filter(run=self.run, fate=SENDING).order_by("number")
            if rows := list(claimed.values_list(*columns)[:PORTION]):
                return rows
            ready = Item.objects.filter(run=self.run, fate=READY).order_by("number")
            rows = list(ready.values_list(*columns)[:PORTION])
            last = Item.objects.filter(pk__in=[pk for pk, *_ in rows], fate=READY)
            return rows if last.update(fate=SENDING) == len(rows) else []


class Result(NamedTuple):
    """What became of one command on its way into the log; None: no word yet."""

    item: int
    came: Delivered | BusError | None


def produce(to: Gateway, run: Run, rows: Sequence[Row]) -> list[Result]:
    """Send a portion's commands, and wait until each is confirmed or refused, or for a while.

    Raises NotSigned.
    """
    producer, topic = to.producer(), to.topics.reports(run.scenario)
    came: dict[int, Delivered | BusError] = {}
    end = time.monotonic() + SEND_TIMEOUT_S + 1
    for pk, asset, version, command in rows:
        key, value = asset.encode(), encode_command(_command(run, asset, version, command))

        def told(result: Delivered | BusError, pk: int = pk) -> None:
            came[pk] = _counted(to, result)

        _enqueue(producer, topic, key, to.signed(topic, key, value), told, end)
    while len(came) < len(rows) and time.monotonic() < end:
        producer.poll(0.02)
    return [Result(pk, came.get(pk)) for pk, *_ in rows]


def _counted(to: Gateway, result: Delivered | BusError) -> Delivered | BusError:
    """What has come of a record; one that was signed by a clock that is wrong is sent again."""
    if isinstance(result, Delivered) and not to.signer.in_time(result.timestamp):
        return Unavailable("the broker's clock is another one: it is signed anew")
    return result


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
    )


def _enqueue(
    producer: Producer, topic: str, key: bytes, value: bytes, told: OnDelivery, end: float
) -> None:
    while True:
        try:
            producer.send(topic, key, value, on_delivery=told)
            return
        except QueueFull as full:
            if time.monotonic() > end:
                told(Unavailable(str(full)))
                return
            producer.poll(0.02)
        except BusError as error:
            told(error)
            return


def note(results: Sequence[Result]) -> int:
    """Note what arrived and what cannot; the rest stays claimed, and is sent again under its id.

    Returns how many are dealt with.
    """
    sent = [(r.came.partition, r.came.offset, r.item) for r in results if _arrived(r)]  # type: ignore[union-attr]
    refused = [(str(r.came)[:200], r.item) for r in results if _refused(r)]
    table = Item._meta.db_table  # noqa: SLF001 - Django's documented API
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {table} SET fate = '{SENT}', partition = %s, \"offset\" = %s "  # noqa: S608
            f"WHERE id = %s AND fate = '{SENDING}'",
            sent,
        )
        cursor.executemany(
            f"UPDATE {table} SET fate = '{UNSENT}', text = %s "  # noqa: S608
            f"WHERE id = %s AND fate = '{SENDING}'",
            refused,
        )
    return len(sent) + len(refused)


def _arrived(result: Result) -> bool:
    return isinstance(result.came, Delivered)


def _refused(result: Result) -> bool:
    """Whether trying again would not help."""
    return isinstance(result.came, BusError) and not isinstance(result.came, Unavailable)


def _first_trouble(results: Sequence[Result]) -> str:
    error = next((str(r.came) for r in results if isinstance(r.came, BusError)), "no confirmation")
    return f"Kafka does not confirm: {error}"[:300]
