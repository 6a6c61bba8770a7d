"""Commands submitted: checked, kept, delivered, audited; and followed to their outcome."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.dispatch import Signal

from bus.base import BusError
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import COMMANDS, TooMany
from dashboard.core.common.kafka import Delivery, deliver_signed, gateway
from dashboard.core.common.times import Clock, now_ms
from dashboard.core.job.status import job_is_silent
from dashboard.core.states.stores import record_of
from dashboard.watch.commands.forms import CommandForm, expected_state
from dashboard.watch.commands.models import SLOW_MS, Phase
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.commands.stale_forms import moved_on
from domain.records import REFUSED, Command, Refusal, Unreadable
from domain.scenario import UNKNOWN, Scenario
from domain.version import Version
from wire.sink import StateValue
from wire.source import decode_source, encode_command

# ---- submission ----------------------------------------------------------------------------------
# Commands to assets submitted: checked, kept, delivered to the log, audited.
#
# Forms call `submit_form`, REST calls `submit`; both get an Outcome, which `views.render_outcome`
# renders for their clients. Bulk runs keep their commands as items of their own, and `send`
# them by the portion.

command_placed = Signal()
"""Sent with `row` once the place of a command in its log is known."""

Source = Literal["form", "api"]

MAX_OUTCOME = 300
"""Longest outcome that is kept, in characters."""


class InvalidCommand(ValueError):
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
        raise InvalidCommand(
            "asset", "Expected a name of 1-255 characters without control characters."
        )
    if isinstance(record, Refusal):
        field, _, expected = record.reason.partition(": ")
        raise InvalidCommand(field if expected else "state", record.reason)
    if command.kind in ("set", "vote") and not scenario.knows(command.state or ""):
        raise InvalidCommand("state", expected_state(scenario, command.state or ""))
    if command.schedule is not None:
        _check_schedule(scenario, command)
    if command.kind in ("set", "schedule") and not command.reason.strip():
        raise InvalidCommand("reason", "Expected a reason.")
    if command.until is not None and command.until <= now:
        raise InvalidCommand("until", "This time is past; expected a future one.")


def _check_schedule(scenario: Scenario, command: Command) -> None:
    condition = command.schedule.condition if command.schedule else None
    if command.state is not None and not scenario.knows(command.state):
        raise InvalidCommand("state", expected_state(scenario, command.state))
    if condition not in (None, UNKNOWN) and not scenario.knows(condition or ""):
        raise InvalidCommand("if", expected_state(scenario, condition or ""))


def details_of(command: Command) -> dict[str, Any]:
    """Return the fields of the task that a command is about; {} for other commands."""
    details = asdict(command.schedule) if command.schedule else {"task": command.task}
    return {name: value for name, value in details.items() if value is not None}


class Submitter(NamedTuple):
    """The user who submits a command, and the way. form: what its form held besides, as JSON."""

    user: User
    actor: Actor
    source: Source
    form: str = ""


Result = Literal["sent", "unsent", "invalid", "id-taken", "too-many", "changed", "unconfirmed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a submission.

    `sent`: it is in the log, or not yet known to be; `unsent`: it is kept, and not in the log;
    `changed`: its form asks for an unchanged asset, which it is not; `unconfirmed`: its form is to
    be confirmed. row: the command that was kept; reason: why it is not sent, empty where its form
    says so; field: the field at fault; retry_after: after `too-many`, s; record: of a form that is
    to be shown again, the asset's newest.
    """

    result: Result
    row: Row | None = None
    reason: str = ""
    field: str | None = None
    retry_after: int | None = None
    record: StateValue | None = None

    @classmethod
    def of_row(cls, row: Row) -> Outcome:
        """Return the outcome of a command that was kept."""
        return cls("unsent", row, row.outcome) if row.status == "unsent" else cls("sent", row)

    @classmethod
    def of_refusal(cls, refusal: InvalidCommand | IdTaken | TooMany) -> Outcome:
        """Return the outcome of a command that was refused."""
        if isinstance(refusal, InvalidCommand):
            return cls("invalid", reason=str(refusal), field=refusal.field)
        if isinstance(refusal, TooMany):
            return cls("too-many", reason=str(refusal), retry_after=refusal.retry_after)
        return cls("id-taken", reason=str(refusal))

    @property
    def headers(self) -> dict[str, str]:
        """Return the HTTP headers that say when to try again."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def submit_form(form: CommandForm, asset: str, by: Submitter, clock: Clock = now_ms) -> Outcome:
    """Submit the command of a form if it is valid, in time and confirmed. Return the outcome."""
    if not form.is_valid():
        return Outcome("invalid")
    record = record_of(form.scenario.name, asset)
    if _is_late(form, asset, record):
        return Outcome("changed", record=record)
    if not form.is_confirmed(record):
        return Outcome("unconfirmed", record=record)
    return submit(form.scenario, form.command(asset, by.user.get_username()), by, clock)


def _is_late(form: CommandForm, asset: str, record: StateValue | None) -> bool:
    """Return whether the form requests an unchanged state that is known to be another by now."""
    data = form.cleaned_data
    if not data["unchanged"] or Row.objects.filter(pk=data["id"]).exclude(status="unsent").exists():
        return False  # a form sent twice is shown its outcome of the first time
    return moved_on(form.scenario.name, asset, data["seen"], data["sight"], record)


def submit(scenario: Scenario, command: Command, by: Submitter, clock: Clock = now_ms) -> Outcome:
    """Check a command, store it, send it, and log it in the audit. Return the outcome.

    The same command with the same id is returned as it stands, and delivered again only where it is
    known not to have been.
    """
    try:
        row = _submit(scenario, command, by, clock)
    except (InvalidCommand, IdTaken, TooMany) as refusal:
        why = "too many" if isinstance(refusal, TooMany) else str(refusal)
        _log_submission(by.actor, scenario, command, f"refused: {why}")
        return Outcome.of_refusal(refusal)
    _log_submission(by.actor, scenario, command, row.status)
    return Outcome.of_row(row)


def _submit(scenario: Scenario, command: Command, by: Submitter, clock: Clock) -> Row:
    """Keep a command and deliver it. Raises Invalid, IdTaken and TooMany."""
    check(scenario, command, clock())
    row, fresh = _keep(scenario, command, by, clock)
    if fresh:
        _deliver(row, command)
        row.refresh_from_db()
    return row


def _keep(scenario: Scenario, command: Command, by: Submitter, clock: Clock) -> tuple[Row, bool]:
    """Keep a command. Returns its row, and whether it is still to be delivered."""
    row = Row.objects.filter(pk=command.id).first()
    if row is None:
        COMMANDS.take(by.user.pk, clock())
        row = _insert(scenario, command, by, clock())
        if row is not None:
            return row, True
        row = Row.objects.get(pk=command.id)
    _check_same(row, scenario, command, by.user)
    return row, row.status == "unsent" and _reopen(row, command, by, clock)


def _insert(scenario: Scenario, command: Command, by: Submitter, now: int) -> Row | None:
    """Insert a row. Returns None where the same form, sent twice at once, was kept already."""
    try:
        with transaction.atomic():
            return Row.objects.create(
                id=command.id,
                scenario=scenario.name,
                asset=command.asset,
                kind=command.kind,
                user=by.user,
                username=by.user.username,
                source=by.source,
                created_at=now,
                status="sending",
                form=by.form,
                **_wording(command),
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
    if row.status != "unsent" and row.details != _details_text(command):
        raise IdTaken("This command was sent already, about another task; use a new id.")


def _reopen(row: Row, command: Command, by: Submitter, clock: Clock) -> bool:
    """Claim an unsent command, reworded. Return False if another request did so first."""
    COMMANDS.take(by.user.pk, clock())
    unsent = Row.objects.filter(pk=row.pk, status="unsent")
    changed = unsent.update(
        status="sending", outcome="", created_at=clock(), form=by.form, **_wording(command)
    )
    return changed == 1


def _wording(command: Command) -> dict[str, Any]:
    """Return what the user may word differently when a command that was not sent is sent again."""
    return {
        "state": command.state or "",
        "until": command.until,
        "reason": command.reason,
        "if_version": str(command.if_version or ""),
        "details": _details_text(command),
    }


def _details_text(command: Command) -> str:
    details = details_of(command)
    return json.dumps(details) if details else ""


def send(scenario: str, commands: Iterable[Command]) -> list[Delivery]:
    """Put commands into their scenario's log, signed. Returns what is known of each then.

    Raises BusError where no broker answers or nothing can be signed.
    """
    records = [(command.asset.encode(), encode_command(command)) for command in commands]
    return deliver_signed(gateway().topics.reports(scenario), records)


def _deliver(row: Row, command: Command) -> None:
    try:
        (delivery,) = send(row.scenario, [command])
    except BusError as error:
        delivery = Delivery("unsent", str(error))
    waiting = Row.objects.filter(pk=row.pk, status="sending")  # the answer may have been faster
    waiting.update(status=delivery.status, outcome=delivery.text[:MAX_OUTCOME])
    if delivery.place is not None:
        row.partition, row.offset = delivery.place.partition, delivery.place.offset
        Row.objects.filter(pk=row.pk).update(partition=row.partition, offset=row.offset)
        command_placed.send(None, row=row)


def _log_submission(actor: Actor, scenario: Scenario, command: Command, outcome: str) -> None:
    """Log the outcome of a submission in the audit."""
    record(
        actor,
        f"command.{command.kind}",
        scenario=scenario.name,
        target=command.asset,
        outcome=outcome,
        state=command.state or None,
        until=command.until,
        reason=command.reason or None,
        if_version=str(command.if_version) if command.if_version else None,
        command=command.id,
        **details_of(command),
    )


# ---- commands ------------------------------------------------------------------------------------
# The progress of a command, in words for its page.

TITLES: dict[Phase, str] = {
    "sending": "Sending",
    "unknown": "Not confirmed",
    "sent": "Sent",
    "applied": "Applied",
    "no-change": "No change",
    "refused": "Refused",
    "unsent": "Not sent",
}


@dataclass(frozen=True, slots=True)
class CommandProgress:
    """A command as its page shows it. `delay_ms`: when to request it again, None once it is
    settled."""

    phase: Phase
    text: str
    delay_ms: int | None

    @property
    def title(self) -> str:
        """Return the phase in words."""
        return TITLES[self.phase]


def progress(row: Row, now: int) -> CommandProgress:
    """Return how far the command has come at `now` (Unix ms)."""
    phase = row.phase(now)
    settled = phase in ("applied", "no-change", "refused", "unsent")
    age = max(0, now - row.created_at)
    text = _TEXTS[phase](row, age)
    if phase == "sent" and job_is_silent(row.scenario, now):
        text = f"{_place(row)}; {_SILENT}"
    return CommandProgress(phase, text, None if settled else _delay(age))


_SILENT = "the job does not answer: the command waits in the log until the job runs again"


def _delay(age: int) -> int:
    """Return the delay before the next request, ms: short at first, then ever longer."""
    return min(5_000, max(300, age // 5))


def _sending(_row: Row, _age: int) -> str:
    return "on its way into the log"


def _unknown(row: Row, _age: int) -> str:
    return row.outcome or "it may not have reached the log; if it did, its outcome shows here"


def _place(row: Row) -> str:
    return f"partition {row.partition}, offset {row.offset}"


def _sent(row: Row, age: int) -> str:
    place = _place(row)
    if age < SLOW_MS:
        return f"{place}; waiting for the answer"
    return f"{place}; no answer for {age // 1000} s: the job is late or down, the command waits"


def _applied(row: Row, _age: int) -> str:
    took = f" after {row.answered_at - row.created_at} ms" if row.answered_at else ""
    return f"version {Version.parse(row.version)}{took}" if row.version else took.strip()


def _no_change(row: Row, age: int) -> str:
    return f"nothing changed; {_applied(row, age)}"


def _refused(row: Row, _age: int) -> str:
    return row.outcome.removeprefix(REFUSED)


def _unsent(row: Row, _age: int) -> str:
    return row.outcome or "it did not reach the log"


_TEXTS = {
    "sending": _sending,
    "unknown": _unknown,
    "sent": _sent,
    "applied": _applied,
    "no-change": _no_change,
    "refused": _refused,
    "unsent": _unsent,
}
