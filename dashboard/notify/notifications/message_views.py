"""The pages of messages: the list, a single message, and the incidents behind it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import (
    ALLOWED,
    TooMany,
    form_of,
    lapsed,
    refusal,
    role_of,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.lists import ListPage
from dashboard.core.common.navigation import OPERATORS, render_page
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import (
    Column,
    ListOrder,
    Page,
    Pager,
    Table,
    number_of,
    page_of,
)
from dashboard.core.common.times import now_ms
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.filter_terms import quoted
from dashboard.core.states.queries import listed
from dashboard.core.states.vocabularies import (
    ChoiceKey,
    TextKey,
    TimeKey,
    Vocabulary,
    choice_of,
    period,
)
from dashboard.notify.notifications.ingestion import finding_of_place
from dashboard.notify.notifications.models import (
    OPEN,
    STATUSES,
    WAITING,
    Group,
    GroupIncident,
    Message,
    Rule,
)
from dashboard.notify.notifications.outbox import (
    ACKNOWLEDGE,
    SNOOZE,
    SNOOZED,
    SNOOZED_MS,
    MessageReply,
    ReplyExpired,
    read_reply,
)
from dashboard.notify.notifications.texts import LONGEST_NAME, without_replies
from dashboard.watch.agents.models import AgentFinding
from dashboard.watch.annotations.acknowledgements import acknowledge, shift_ends
from dashboard.watch.annotations.forms import AckForm
from dashboard.watch.annotations.models import Mark
from dashboard.watch.commands.models import ScheduledTask
from dashboard.watch.incidents.models import Incident, Notified
from domain.notifications.group import KINDS, TASK, IncidentKey

# ---- message list --------------------------------------------------------------------------------
# The list of messages: filtered, newest first, by page, and as a file.

NEWEST = ListOrder("created_at")
PAGE_SIZE = 100
MOST_OF_INCIDENT = 200
"""Most messages on an incident's page."""
ALL_KINDS = {
    **KINDS,
    "changed": "a change of an incident",
    "test": "a test",
    "unreached": "nobody was reached by a message",
    "digest": "a digest",
    "points": "earned points",
    "views": "views of a product",
    "browser": "a browser that another user took over",
}
MESSAGES = Table("", "Message", "Status", "To", "Why", "Written", Column("Attempts", numeric=True))
INBOX = Table("", "Message", "Written", Column.unseen("Mark as read"))
ATTEMPTS = Table(
    "", Column("Attempt", numeric=True), "When", Column("Took", numeric=True), "Outcome", "Answer"
)


def all_messages() -> QuerySet[Message]:
    """Return all messages, with what pages and files say of them."""
    return Message.objects.select_related("rule", "group", "channel", "rota", "user")


def place_of(text: str) -> tuple[int, uuid.UUID]:
    """Return the position in the list that a text encodes. Raises ValueError."""
    at, _, number = text.partition(".")
    place = int(at), uuid.UUID(number)
    if not 0 <= place[0] < 2**63:
        raise ValueError(text)
    return place


def page_of_messages(
    rows: QuerySet[Message], before: tuple[int, uuid.UUID] | None, size: int = PAGE_SIZE
) -> Page[Message]:
    """Return the newest messages, or those after a position; `following` is a text."""
    page = page_of(rows, NEWEST, size, before)
    last = page.following
    return replace(page, following=last and f"{last[0]}.{last[1]}")


def messages_of(incidents: Collection[Incident]) -> list[Notified]:
    """Return the messages about incidents of one scenario, newest first, for their page."""
    if not incidents:
        return []
    groups = GroupIncident.objects.filter(
        scenario=next(iter(incidents)).scenario,
        asset__in=listed({each.asset for each in incidents}),
        place__in=listed({each.place for each in incidents}),
    ).values("group_id")
    begun = min(each.began_at for each in incidents)
    rows = Message.objects.filter(group_id__in=groups, created_at__gte=begun)
    return [
        Notified(
            row.created_at,
            row.subject,
            row.recipient,
            STATUSES[row.status],
            row.why,
            reverse("notifications:message", args=[row.pk]),
        )
        for row in rows.order_by("-created_at", "-pk")[:MOST_OF_INCIDENT]
    ]


def task_messages_url(row: ScheduledTask) -> str:
    """Return the address of the list of messages about the tasks of an asset."""
    query = urlencode({"q": f"kind:{TASK} {quoted(row.asset[:LONGEST_NAME])}"})
    return f"{reverse('notifications:messages')}?{query}"


# ---- message forms -------------------------------------------------------------------------------
# The filter of messages.


def _rules() -> dict[str, str]:
    return {name: name for name in Rule.objects.order_by("name").values_list("name", flat=True)}


def _rule_term(number: str, _given: Any) -> str:
    """Return the term for a rule of a link, which gives its number."""
    rule = Rule.objects.filter(pk=number_of(number) or 0).first()
    return f"rule:{quoted(rule.name if rule else number)}"


MESSAGE_VOCABULARY = Vocabulary(
    word=lambda text: Q(subject__icontains=text) | Q(recipient__icontains=text),
    example="a name, status:failed, written:<1d",
    keys=(
        ChoiceKey("status", "what became of it", choice_of(STATUSES), "status"),
        ChoiceKey("kind", "why it was written", choice_of(ALL_KINDS), "kind"),
        ChoiceKey("rule", "the rule that wrote it", _rules, "rule__name"),
        TextKey("to", "the recipient, or the beginning and *", "recipient"),
        TimeKey("written", "when it was written", "created_at"),
        TextKey("group", "of the same incidents", "group__token"),
    ),
    links=period("written") | {"rule": _rule_term},
)


class MessageFilterForm(VocabularyForm):
    """The filter of messages, from the address."""

    vocabulary = MESSAGE_VOCABULARY

    before = forms.CharField(required=False, max_length=60, widget=forms.HiddenInput)

    def clean_before(self) -> tuple[int, uuid.UUID] | None:
        """Return the position after which the page begins. Raises ValidationError."""
        text = self.cleaned_data["before"]
        try:
            return place_of(text) if text else None
        except ValueError:
            raise forms.ValidationError("Expected a page of this list.") from None

    def every(self) -> QuerySet[Message]:
        """Return all messages."""
        return all_messages()


# ---- message views -------------------------------------------------------------------------------
# The pages of messages: the list, and a single message with each delivery attempt.


class MessageList(ListPage):
    """The list of messages, newest first."""

    name = "messages"
    form_class = MessageFilterForm
    template = "notifications/messages"
    table = MESSAGES
    roles = OPERATORS
    order = NEWEST
    page_size = PAGE_SIZE
    fields = (
        "id", "created_at", "kind", "status", "reason", "subject", "means", "recipient", "user",
        "rule", "stage", "channel", "rota", "group", "why", "tries", "ended_at",
    )  # fmt: skip
    at_most = 100_000

    def paginate(self, rows: QuerySet[Message], before: Any) -> Page[Message]:
        """Return the newest messages, or those after a position."""
        return page_of_messages(rows, before, self.page_size)

    def plain(self, row: Message) -> dict[str, Any]:
        """Return a message as an object for NDJSON and the API, or a line of CSV.

        Its text is only on its page.
        """
        return super().plain(row) | {
            "id": str(row.pk),
            "user": row.user.get_username() if row.user else None,
            "rule": row.rule_id,
            "channel": row.channel.name if row.channel else None,
            "rota": row.rota.name if row.rota else None,
            "group": row.group.token if row.group else None,
        }

    def context(self) -> dict[str, Any]:
        """Return the description of each status."""
        return {"statuses": STATUSES}


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def message(request: HttpRequest, number: uuid.UUID) -> HttpResponse:
    """Show one message; for a script, the part that refreshes itself."""
    row = get_object_or_404(all_messages(), pk=number)
    context = {
        "now": now_ms(),
        "row": row,
        "text": without_replies(row.text),
        "kind": ALL_KINDS.get(row.kind, row.kind),
        "open": row.status in (*OPEN, WAITING),
        "status": STATUSES[row.status],
        "waits": row.status == WAITING,
        "attempts": row.attempts.order_by("number"),
        "table": ATTEMPTS,
        "address": request.get_full_path(),
    }
    return render_page(request, "notifications/message", context)


# ---- group views ---------------------------------------------------------------------------------
# The page that a message links to: its incidents with a form to acknowledge them, or its findings
# about agents.

MEMBERS = Table("", "Asset", "Scenario", "Began", "Worst", "Now", "Acknowledged")
AGENTS = Table("", "Agent", "Scenario", "Since", "What is wrong", "Now")
MOST_LISTED = 500
"""Most incidents on the page, and most that are acknowledged at once."""
FILLED_IN: Mapping[str, Mapping[str, str]] = {
    ACKNOWLEDGE: {"end": "shift"},
    SNOOZE: {"end": "1h", "reason": SNOOZED},
}
"""What the form begins with, by the button of a chat that leads to it."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read", among=OPERATORS)
@takes("act")
def acknowledge_group(request: HttpRequest, token: str) -> HttpResponse:
    """Show a group; on POST, acknowledge its incidents that go on."""
    group, user, now = get_object_or_404(Group, token=token), user_of(request), now_ms()
    incidents = incidents_of(group)
    data = request.POST if request.method == "POST" else None
    form = AckForm(now, shift_ends(user, now), data)
    form.initial.update(FILLED_IN.get(request.GET.get("act", ""), {}))
    if data is not None:
        role = role_of(user)
        if role is None or "command" not in ALLOWED[role]:
            return refusal(request, role, "command")
        if form.is_valid() and _acknowledged(request, form, incidents):
            return redirect("notifications:acknowledge", token)
    context = {
        "now": now,
        "group": group,
        "form": form,
        "incidents": incidents,
        "table": MEMBERS,
        "running": sum(incident.ended_at is None for incident in incidents),
        "agents": [] if incidents else agents_of(group),
        "agents_table": AGENTS,
        "page": page_of_messages(all_messages().filter(group=group), None),
        "messages_table": MESSAGES,
        "statuses": STATUSES,
    }
    status = 422 if form.errors else 200
    return render(request, "notifications/group.html", context, status=status)


def incidents_of(group: Group) -> list[Incident]:
    """Return the incidents of a group, newest first."""
    members = group.members.order_by("-pk")[:MOST_LISTED]
    return _incidents((member.scenario, member.asset, member.place) for member in members)


def _incidents(keys: Iterable[IncidentKey]) -> list[Incident]:
    """Return the incidents with these keys, in their order, of the scenarios that there are."""
    keys = list(keys)
    rows = Incident.objects.filter(
        scenario__in={scenario for scenario, _, _ in keys} & scenarios().keys(),
        asset__in=listed({asset for _, asset, _ in keys}),
        place__in=listed({place for _, _, place in keys}),
    )
    by_key = {(row.scenario, row.asset, row.place): row for row in rows}
    return [by_key[key] for key in keys if key in by_key]


def agents_of(group: Group) -> QuerySet[AgentFinding]:
    """Return the findings about agents in a group, newest first."""
    places = group.members.order_by("-pk").values_list("place", flat=True)[:MOST_LISTED]
    numbers = [number for place in places if (number := finding_of_place(place)) is not None]
    rows = AgentFinding.objects.filter(pk__in=listed(numbers), scenario__in=scenarios())
    return rows.order_by("-pk")


def _acknowledged(request: HttpRequest, form: AckForm, incidents: list[Incident]) -> bool:
    """Acknowledge the incidents that go on. Return False if refused; the form then says why."""
    user, data = user_of(request), form.cleaned_data
    by = (Actor.of(request), "a notification's link")
    try:
        taken = _acknowledge(incidents, user, data["reason"], data["until"], form.now, by)
    except TooMany as why:
        form.add_error(None, str(why))
        return False
    if taken:
        messages.success(request, f"Acknowledged: {_named(taken)}.")
    else:
        messages.info(request, "Nothing to acknowledge: it is over.")
    return True


def _named(assets: list[str]) -> str:
    return f"{', '.join(assets[:5])}{_more(len(assets) - 5)}"


def _acknowledge(
    incidents: Iterable[Incident], user: User, reason: str, until: int, now: int,
    by: tuple[Actor, str],
) -> list[str]:  # fmt: skip
    """Acknowledge the assets of the incidents that go on, and return those that were.

    by: whom the audit names, and by what. Times in Unix ms. Raises TooMany.
    """
    assets: dict[str, list[str]] = {}
    for incident in incidents:
        if incident.ended_at is None:
            assets.setdefault(incident.scenario, []).append(incident.asset)
    taken: list[str] = []
    for name, of_scenario in assets.items():
        outcome = acknowledge(scenarios()[name], of_scenario, user, reason, until, now)
        taken += outcome.taken
        _log_acknowledged(by, name, outcome.taken, until, reason)
    return taken


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _log_acknowledged(
    by: tuple[Actor, str], scenario: str, assets: list[str], until: int, reason: str
) -> None:
    if assets:
        target = assets[0] if len(assets) == 1 else f"{len(assets)} assets"
        record(
            by[0], "asset.acknowledged", scenario=scenario, target=target,
            assets=assets, until=until, reason=reason, by=by[1],
        )  # fmt: skip


# ---- replies -------------------------------------------------------------------------------------
# The page behind a link by which the recipient of a message answers it: one button, and no login,
# as the link is theirs alone. Nothing is done until the button is pressed.


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_not_required
def reply(request: HttpRequest, token: str) -> HttpResponse:
    """Show what a link would do; on POST, do it in the name of the message's recipient."""
    try:
        given = read_reply(token)
    except ReplyExpired:
        return _reply_page(request, 410, refusal="This link has expired: it was good for a day.")
    if given is None:
        refusal = "This link is not valid, or incomplete: copy all of it from the message."
        return _reply_page(request, 404, refusal=refusal)
    name = given.user.get_username()
    if why := lapsed(given.user.pk, name, "command"):
        return _reply_page(request, 403, refusal=f"Not possible: {why}.")
    return _reply(request, given, now_ms())


def _reply(request: HttpRequest, given: MessageReply, now: int) -> HttpResponse:
    """Show a valid link's page, or act by it."""
    context = _reply_context(given, now)
    running, until = context["incidents"], context["until"]
    if request.method != "POST" or not running:
        return _reply_page(request, 200, **context)
    by = (Actor.of(request, given.user), f"the link of the message {given.message.pk}")
    reason = SNOOZED if given.act == SNOOZE else ""
    try:
        taken = _acknowledge(running, given.user, reason, until, now, by)
    except TooMany as why:
        return _reply_page(request, 429, **context, problem=str(why))
    return _reply_page(request, 200, **context, done=_named(taken) or "nothing: it is over")


def _reply_context(given: MessageReply, now: int) -> dict[str, Any]:
    """Return what a valid link's page shows, with the incidents on which the link acts."""
    running = [each for each in _reported(given.message) if each.ended_at is None]
    until = now + SNOOZED_MS if given.act == SNOOZE else shift_ends(given.user, now)
    taken = _not_in_hand(running, until) if given.act == SNOOZE else running
    return {
        "now": now,
        "until": until,
        "incidents": taken,
        "in_hand": bool(running) and not taken,
        "act": given.act,
        "row": given.message,
        "who": given.user,
        "more": given.message.payload.get("more"),
    }


def _not_in_hand(incidents: Collection[Incident], until: int) -> list[Incident]:
    """Return those whose assets nobody has acknowledged until a time (Unix ms), or longer."""
    marks = Mark.objects.filter(
        ack_until__gte=until,
        scenario__in={each.scenario for each in incidents},
        asset__in=listed({each.asset for each in incidents}),
    )
    held = set(marks.values_list("scenario", "asset"))
    return [each for each in incidents if (each.scenario, each.asset) not in held]


def _reported(row: Message) -> list[Incident]:
    """Return the incidents that a message has reported, and no others of its group."""
    members = row.payload.get("incidents", [])
    return _incidents((each["scenario"], each["asset"], each["place"]) for each in members)


def _reply_page(request: HttpRequest, status: int, **context: Any) -> HttpResponse:
    return render(request, "notifications/reply.html", context, status=status)


# ---- inbox ---------------------------------------------------------------------------------------
# A user's own messages.


@require_safe
@never_cache
@role_required("read")
@takes(*MessageFilterForm.parameters())
def inbox(request: HttpRequest) -> HttpResponse:
    """Show the messages to the user, the newest first."""
    user, form = user_of(request), MessageFilterForm(request.GET)
    before = form.cleaned_data["before"] if form.is_valid() else None
    rows = Message.objects.inbox_of(user)
    page = page_of_messages(rows, before)
    context = {
        "now": now_ms(),
        "page": page,
        "unread": rows.unread().count(),
        "pager": Pager.by_key("", "before", before, page.following, ("The newest", "Older")),
        "table": INBOX,
    }
    return render_page(request, "notifications/inbox", context)


@never_cache
@form_of("notifications:inbox")
@role_required("read")
def mark_read(request: HttpRequest) -> HttpResponse:
    """Mark one of the user's messages as read, or with `all` all of them."""
    user, given = user_of(request), request.POST
    with suppress(ValueError):  # no id of a message
        message = None if "all" in given else uuid.UUID(given.get("message", ""))
        mark_as_read(user, message, now_ms())
    return redirect("notifications:inbox")


def mark_as_read(user: User, message: uuid.UUID | None, now: int) -> int:
    """Mark a user's message as read, for None all; return how many were. An id that is none of
    theirs marks nothing."""
    rows = Message.objects.inbox_of(user).unread()
    return (rows if message is None else rows.filter(pk=message)).update(read_at=now)
