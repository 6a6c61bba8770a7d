"""Commands on their way into the log: checked, written down, produced, confirmed."""

from __future__ import annotations

from typing import Any, Literal

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.dispatch import Signal

from bus.base import BusError, Unavailable
from dashboard.commands.forms import expected_state
from dashboard.commands.models import Command as Row
from dashboard.core.kafka import REACH_S, gateway
from dashboard.core.rate_limits import COMMANDS
from dashboard.core.times import Clock, now_ms
from domain.records import Command, Refusal, Unreadable
from domain.scenario import Scenario
from wire.source import decode_source, encode_command

command_placed = Signal()
"""Sent with `row` once the place of a command in its log is known."""

Source = Literal["form", "api"]

MAX_OUTCOME = 300
"""Longest outcome that is kept, in characters."""

UNKNOWN = "No confirmation came in time: it may still arrive, and is followed as if it had."


class Invalid(ValueError):
    """A command that the job would refuse: which field, and what was expected."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class IdTaken(ValueError):
    """The id belongs to another command, of this user or of somebody else."""


def check(scenario: Scenario, command: Command, now: int) -> None:
    """Raise Invalid for what can be known to be refused, before it is sent at `now` (ms)."""
    record = decode_source(command.asset.encode(), encode_command(command), now)
    if isinstance(record, Unreadable):
        raise Invalid("asset", "Expected a name of 1-255 characters without control characters.")
    if isinstance(record, Refusal):
        field, _, expected = record.reason.partition(": ")
        raise Invalid(field if expected else "state", record.reason)
    if command.kind in ("set", "vote") and not scenario.knows(command.state or ""):
        raise Invalid("state", expected_state(scenario, command.state or ""))
    if command.kind == "set" and not command.reason.strip():
        raise Invalid("reason", "Expected a reason.")
    if command.until is not None and command.until <= now:
        raise Invalid("until", "This time is past; expected one to come.")


def send(
    scenario: Scenario,
    command: Command,
    user: User,
    source: Source,
    clock: Clock = now_ms,
    form: str = "",
) -> Row:
    """Write the command down, produce it, and return its row: sent, unsent, or not yet known.

    The same command sent again with the same id is returned as it stands, and produced again only
    where it is known not to have been. Raises Invalid, IdTaken, or limits.TooMany; a Kafka that
    does not answer is no exception: the row tells. `form`: what its form held besides.
    """
    check(scenario, command, clock())
    row, fresh = _write_down(scenario, command, user, source, clock, form)
    if fresh:
        _produce(row, command)
        row.refresh_from_db()
    return row


def _write_down(
    scenario: Scenario, command: Command, user: User, source: Source, clock: Clock, form: str
) -> tuple[Row, bool]:
    """The command's row, and whether the command is still to be produced."""
    found = Row.objects.filter(pk=command.id).first()
    if found is None:
        COMMANDS.take(user.pk, clock())
        made = _insert(scenario, command, user, source, clock(), form)
        if made is not None:
            return made, True
        found = Row.objects.get(pk=command.id)
    _check_same(found, scenario, command, user)
    return found, found.status == "unsent" and _reopen(found, command, user, clock, form)


def _insert(
    scenario: Scenario, command: Command, user: User, source: Source, now: int, form: str
) -> Row | None:
    """A new row, or None where the same form, sent twice at once, was written down already."""
    try:
        with transaction.atomic():
            return Row.objects.create(
                id=command.id,
                scenario=scenario.name,
                asset=command.asset,
                kind=command.kind,
                user=user,
                username=user.username,
                source=source,
                created_at=now,
                status="sending",
                form=form,
                **_said(command),
            )
    except IntegrityError:
        return None


def _check_same(row: Row, scenario: Scenario, command: Command, user: User) -> None:
    """Raise IdTaken unless the row is this very command."""
    same = (row.scenario, row.asset, row.kind) == (scenario.name, command.asset, command.kind)
    if row.user_id != user.pk or not same:
        raise IdTaken("This id belongs to another command; use a new one.")
    if row.status != "unsent" and row.state != (command.state or ""):
        raise IdTaken("This command was sent already, with another state; use a new id.")


def _reopen(row: Row, command: Command, user: User, clock: Clock, form: str) -> bool:
    """Take up a command that was not sent, as it is worded now; false when another did so first."""
    COMMANDS.take(user.pk, clock())
    unsent = Row.objects.filter(pk=row.pk, status="unsent")
    changed = unsent.update(
        status="sending", outcome="", created_at=clock(), form=form, **_said(command)
    )
    return changed == 1


def _said(command: Command) -> dict[str, Any]:
    """What the user may word differently when a command that was not sent is sent again."""
    return {
        "state": command.state or "",
        "until": command.until,
        "reason": command.reason,
        "if_version": str(command.if_version or ""),
    }


def _produce(row: Row, command: Command) -> None:
    to = gateway()
    try:
        to.bus.wait(REACH_S)
    except BusError as error:  # nothing has been sent, so that much is known
        _note(row, status="unsent", outcome=f"Kafka does not answer: {error}")
        return
    try:
        place = to.command(
            to.topics.reports(row.scenario), command.asset.encode(), encode_command(command)
        )
    except Unavailable as error:
        _note(row, status="sending", outcome=f"{UNKNOWN} ({error})")
    except BusError as error:
        _note(row, status="unsent", outcome=str(error))
    else:
        _note(row, status="sent", outcome="")
        Row.objects.filter(pk=row.pk).update(partition=place.partition, offset=place.offset)
        row.partition, row.offset = place.partition, place.offset
        command_placed.send(None, row=row)


def _note(row: Row, status: str, outcome: str) -> None:
    """Note how sending went, unless the answer was faster."""
    waiting = Row.objects.filter(pk=row.pk, status="sending")
    waiting.update(status=status, outcome=outcome[:MAX_OUTCOME])
