"""The operations on notifications: rules, rotas and messages."""

# Each operation takes the request, and declares its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

from ninja import Query, Schema
from pydantic import Field

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import (
    READ,
    WRITE,
    ApiRequest,
    Filtered,
    OperationRouter,
    filtered,
)
from dashboard.core.api.schemas import NO_NUL, StrictSchema
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.navigation import OPERATORS
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.notify.notifications import rule_forms
from dashboard.notify.notifications.message_views import (
    ALL_KINDS,
    MessageFilterForm,
    MessageList,
    all_messages,
    mark_as_read,
    page_of_messages,
    place_of,
)
from dashboard.notify.notifications.models import (
    MAX_TITLE,
    STATUSES,
    ChangedMeanwhile,
    Message,
    Rota,
    RotaShift,
    Rule,
)
from dashboard.notify.notifications.rule_forms import checked
from dashboard.notify.notifications.texts import without_replies
from domain.names import MAX_NAME
from domain.notifications.rule import Rule as Definition
from domain.notifications.rule_parser import (
    EVERY_SCENARIO,
    LONGEST_AFTER_MS,
    LONGEST_TEXT,
    LONGEST_WINDOW_MS,
    MINUTE_MS,
    MOST_LISTED,
    MOST_MESSAGES,
    MOST_STAGES,
    SHORTEST_REPEAT_MS,
    RuleError,
)
from wire.source import MAX_TIME

MAX_NUMBER = 2**63 - 1

router = OperationRouter()

Text = Annotated[str, Field(max_length=LONGEST_TEXT, pattern=NO_NUL)]
Texts = Annotated[list[Text], Field(max_length=MOST_LISTED)]
Numbers = Annotated[list[Annotated[int, Field(ge=1, le=MAX_NUMBER)]], Field(max_length=MOST_LISTED)]
Clock = Annotated[str, Field(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$")]


AgentKind = Literal["agent-refused", "agent-silent", "agent-doubted", "agent-late"]


class HoursIn(StrictSchema):
    """The same hours on some days, 0 for Monday; those whose end is not after their begin go on
    into the next day."""

    zone: Text = "UTC"
    days: list[Annotated[int, Field(ge=0, le=6)]] = Field([*range(7)], min_length=1, max_length=7)
    begin: Clock
    end: Clock


class QuietIn(HoursIn):
    """Hours in which messages wait, but for this state or a worse one."""

    exempt: Text = ""


class StageIn(StrictSchema):
    """Whom to tell once nobody has acknowledged for so long: numbers of channels and of rotas."""

    after_ms: int = Field(0, ge=0, le=LONGEST_AFTER_MS)
    channels: Numbers = []
    rotas: Numbers = []


class DefinitionIn(StrictSchema):
    """Which incidents and agents a rule tells of, to whom and when; what is left out is as on a new
    form.

    The first stage is at once. Labels as `key=value`, of which any is enough. Durations in ms.
    """

    scenarios: Texts = [EVERY_SCENARIO]
    labels: Texts = []
    states: Texts = []
    at_least: Text = ""
    after_ms: int = Field(0, ge=0, le=LONGEST_AFTER_MS)
    hours: HoursIn | None = None
    quiet: QuietIn | None = None
    group_by: Texts = ["scenario"]
    window_ms: int = Field(30_000, ge=0, le=LONGEST_WINDOW_MS)
    repeat_ms: int | None = Field(None, ge=SHORTEST_REPEAT_MS, le=LONGEST_AFTER_MS)
    stages: list[StageIn] = Field(min_length=1, max_length=MOST_STAGES)
    resolved: bool = True
    incidents: bool = True
    tasks: bool = True
    agents: list[AgentKind] = []
    budgets: bool = False
    most: int = Field(20, ge=1, le=MOST_MESSAGES)
    per_ms: int = Field(3_600_000, ge=MINUTE_MS, le=DAY_MS)


class RuleIn(StrictSchema):
    """A rule. revision: the one that is changed; null for whichever there is."""

    read_only = ("id", "username", "changed_at")

    name: str = Field(min_length=1, max_length=MAX_TITLE, pattern=NO_NUL)
    enabled: bool = True
    definition: DefinitionIn
    revision: int | None = Field(None, ge=1, le=2**31 - 1)


class RuleOut(Schema):
    """A rule. revision: rises with each change; changed_at: Unix ms."""

    id: int
    name: str
    enabled: bool
    revision: int
    definition: dict[str, Any]
    username: str
    changed_at: int


class RulesOut(Schema):
    """All rules, by name."""

    items: list[RuleOut]


class RotaOut(Schema):
    """A rota. kinds: how who is on call is reached; on_call: null where nobody is; until: when that
    shift ends, Unix ms."""

    id: int
    name: str
    kinds: list[str]
    on_call: str | None
    until: int | None


class RotasOut(Schema):
    """All rotas, by name."""

    items: list[RotaOut]


class ShiftOut(Schema):
    """A user's time on call, Unix ms. override: it stands before other shifts."""

    user: str
    begins_at: int
    ends_at: int
    override: bool
    written_by: str


class RotaShiftsOut(RotaOut):
    """A rota with its shifts that are not over."""

    shifts: list[ShiftOut]


class MessageOut(Schema):
    """A message to one recipient, or the decision to send none, with its reason. rule, stage, rota,
    channel, group, why: what had it sent; ended_at: null while there is something to do."""

    id: str
    created_at: int
    kind: str
    status: str
    reason: str
    subject: str
    means: str
    recipient: str
    user: str | None
    rule: int | None
    stage: int | None
    channel: str | None
    rota: str | None
    group: str | None
    why: str
    tries: int
    ended_at: int | None


class AttemptOut(Schema):
    """A try to deliver a message. ms: how long it took; null where its worker ended meanwhile."""

    number: int
    at: int
    ms: int | None
    succeeded: bool
    answer: str


class MessageTriesOut(MessageOut):
    """A message with its text and each try to deliver it."""

    text: str
    attempts: list[AttemptOut]


class MessagesOut(Schema):
    """Messages, the newest first; next: `before` of the next page, or null."""

    items: list[MessageOut]
    next: str | None


# ---- rules ------------------------------------------------------------------------------------


@router.operation("GET notifications/rules", RulesOut, "read", among=OPERATORS)
def list_notification_rules(request: ApiRequest) -> Any:
    """All rules, by name."""
    return {"items": [_plain_rule(row) for row in Rule.objects.in_use()]}


@router.operation("GET notifications/rules/{number}", RuleOut, "read", *READ, among=OPERATORS)
def get_notification_rule(request: ApiRequest, number: int) -> Any:
    """One rule."""
    return _plain_rule(_rule(number))


@router.operation("POST notifications/rules", RuleOut, "command", *WRITE, among=OPERATORS)
def create_notification_rule(request: ApiRequest, given: RuleIn) -> Any:
    """Write a new rule. Its name is no other rule's."""
    definition = _definition(given)
    try:
        row = rule_forms.create_rule(request.auth, given.name, definition, given.enabled, now_ms())
    except RuleError as error:
        raise _invalid(error, "") from error
    return _logged_rule(request, "notify.rule.created", row)


@router.operation(
    "PUT notifications/rules/{number}", RuleOut, "command", 409, *WRITE, among=OPERATORS
)
def put_notification_rule(request: ApiRequest, number: int, given: RuleIn) -> Any:
    """Replace a rule, if its revision is the one given."""
    row, definition = _rule(number), _definition(given)
    try:
        changed = rule_forms.change_rule(
            row, given.name, definition, given.enabled, now_ms(), given.revision
        )
    except RuleError as error:
        raise _invalid(error, "") from error
    except ChangedMeanwhile as error:
        raise _changed(row) from error
    if not changed:
        return _plain_rule(row)
    return _logged_rule(request, "notify.rule.changed", row)


@router.operation(
    "DELETE notifications/rules/{number}", RuleOut, "command", 409, *READ, among=OPERATORS
)
def retire_notification_rule(request: ApiRequest, number: int) -> Any:
    """Have a rule send nothing any more. Its messages stay."""
    row = _rule(number)
    try:
        row.retire(now_ms())
    except ChangedMeanwhile as error:
        raise _changed(row) from error
    return _logged_rule(request, "notify.rule.retired", row)


def _definition(given: RuleIn) -> Definition:
    """Return the rule in a body. Raises Problem 422."""
    try:
        return checked(given.definition.dict())
    except RuleError as error:
        raise _invalid(error, "definition.") from error


def _invalid(error: RuleError, before: str) -> Problem:
    field, expected = next(iter(error.errors.items()))
    return invalid(f"{before}{field}", expected)


def _changed(row: Rule) -> Problem:
    return Problem(409, "not-now", f"The rule {row.pk} has been changed meanwhile.")


def _logged_rule(request: ApiRequest, action: str, row: Rule) -> dict[str, Any]:
    record(Actor.of(request), action, target=row.name, definition=row.definition)
    return _plain_rule(row)


def _plain_rule(row: Rule) -> dict[str, Any]:
    names = ("name", "enabled", "revision", "definition", "username", "changed_at")
    return {"id": row.pk, **{name: getattr(row, name) for name in names}}


def _rule(number: int) -> Rule:
    """Return a rule in use. Raises Problem 404."""
    rows = Rule.objects.in_use()
    row = rows.filter(pk=number).first() if 0 <= number <= MAX_NUMBER else None
    if row is None:
        raise Problem(404, "unknown-rule", f"There is no rule of notifications {number}.")
    return row


# ---- rotas ------------------------------------------------------------------------------------


@router.operation("GET notifications/rotas", RotasOut, "read", among=OPERATORS)
def list_rotas(request: ApiRequest) -> Any:
    """All rotas, and who is on call now."""
    now = now_ms()
    rows = Rota.objects.in_use()
    return {"items": [_plain_rota(row, now) for row in rows]}


@router.operation("GET notifications/rotas/{number}", RotaShiftsOut, "read", *READ, among=OPERATORS)
def get_rota(request: ApiRequest, number: int) -> Any:
    """One rota, with its shifts that are not over."""
    rows, now = Rota.objects.in_use(), now_ms()
    row = rows.filter(pk=number).first() if 0 <= number <= MAX_NUMBER else None
    if row is None:
        raise Problem(404, "unknown-rota", f"There is no rota {number}.")
    return _plain_rota(row, now) | {"shifts": [_plain_shift(e) for e in row.shifts_from(now)]}


def _plain_rota(row: Rota, now: int) -> dict[str, Any]:
    shift = row.shift_at(now)
    return {
        "id": row.pk,
        "name": row.name,
        "kinds": row.kinds,
        "on_call": shift.user.get_username() if shift else None,
        "until": shift.ends_at if shift else None,
    }


def _plain_shift(row: RotaShift) -> dict[str, Any]:
    names = ("begins_at", "ends_at", "override", "written_by")
    return {"user": row.user.get_username(), **{name: getattr(row, name) for name in names}}


# ---- messages ---------------------------------------------------------------------------------


class ReadIn(StrictSchema):
    """One's own message that has been read, or `all`: one of them is given."""

    message: uuid.UUID | None = None
    all: Literal[True] | None = None


class ReadOut(Schema):
    """How many messages are marked as read."""

    read: int


class OwnMessageOut(Schema):
    """A message to oneself. read_at: null until one has marked it as read. Times in Unix ms."""

    id: str
    created_at: int
    kind: str
    subject: str
    text: str
    read_at: int | None


class OwnMessagesOut(Schema):
    """One's own messages, the newest first; next: `before` of the next page, or null."""

    items: list[OwnMessageOut]
    unread: int
    next: str | None


@router.operation("GET notifications/inbox", OwnMessagesOut, "read", *READ)
def list_own_messages(
    request: ApiRequest,
    before: str = Query("", max_length=60, pattern=NO_NUL, description="`next` of a page."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:
    """What was sent to oneself by name, the newest first, and how many are unread."""
    rows = Message.objects.inbox_of(request.auth)
    page = page_of_messages(rows, _place(before), limit)
    items = [_plain_own(row) for row in page.rows]
    return {"items": items, "unread": rows.unread().count(), "next": page.following}


def _plain_own(row: Message) -> dict[str, Any]:
    names = ("created_at", "kind", "subject", "read_at")
    plain = {name: getattr(row, name) for name in names}
    return {"id": str(row.pk), "text": without_replies(row.text), **plain}


@router.operation("POST notifications/inbox/read", ReadOut, "read", *WRITE)
def mark_own_messages(request: ApiRequest, given: ReadIn) -> Any:
    """Mark one of one's own messages as read, or all."""
    if (given.message is None) is (given.all is None):
        raise invalid("message", 'expected either "message" or "all": true')
    return {"read": mark_as_read(request.auth, given.message, now_ms())}


Moment = Query(None, ge=0, le=MAX_TIME)


@router.operation("GET notifications/messages", MessagesOut, "read", *READ, among=OPERATORS)
def list_messages(
    request: ApiRequest,
    status: str = Query("", description=f"One of: {', '.join(STATUSES)}."),
    kind: str = Query("", description=f"One of: {', '.join(ALL_KINDS)}."),
    rule: int | None = Query(None, ge=1, le=MAX_NUMBER),
    q: str = Query(
        "", max_length=MAX_NAME, pattern=NO_NUL, description="A part of subject or recipient."
    ),
    start: int | None = Moment,
    end: int | None = Moment,
    filter: str = Filtered,  # noqa: A002 - the parameter's name
    before: str = Query("", max_length=60, pattern=NO_NUL, description="`next` of a page."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:
    """Messages that were written between `start` and `end`, the newest first."""
    for name, value, known in (("status", status, STATUSES), ("kind", kind, ALL_KINDS)):
        if value and value not in known:
            raise invalid(name, f"expected one of {', '.join(known)}")
    rows = filtered(MessageFilterForm, filter, status=status, kind=kind, word=q)
    if rule is not None:
        rows = rows.filter(rule=rule)
    if start is not None:
        rows = rows.filter(created_at__gte=start)
    if end is not None:
        rows = rows.filter(created_at__lt=end)
    page = page_of_messages(rows, _place(before), limit)
    return {"items": [MessageList().plain(row) for row in page.rows], "next": page.following}


def _place(text: str) -> tuple[int, uuid.UUID] | None:
    """Return the position that a parameter encodes. Raises Problem 422."""
    try:
        return place_of(text) if text else None
    except ValueError:
        raise invalid("before", "expected the next of a page") from None


@router.operation(
    "GET notifications/messages/{id}", MessageTriesOut, "read", *READ, among=OPERATORS
)
def get_message(request: ApiRequest, id: uuid.UUID) -> Any:  # noqa: A002 - the path's name
    """One message, with its text and each try to deliver it."""
    row: Message | None = all_messages().filter(pk=id).first()
    if row is None:
        raise Problem(404, "unknown-message", f"There is no message {id}.")
    names = ("number", "at", "ms", "succeeded", "answer")
    tries = row.attempts.order_by("number")
    attempts = [{name: getattr(each, name) for name in names} for each in tries]
    return MessageList().plain(row) | {"text": without_replies(row.text), "attempts": attempts}
