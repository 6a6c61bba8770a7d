"""Notifications as the database has them, from what happened to each try, and the browsers that
want them.
"""

from __future__ import annotations

import secrets
import uuid
from typing import Any, Self, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import F, Index, Q, UniqueConstraint

from dashboard.core.common.models import AgentRow, AssetRow, AuthoredRow
from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS
from dashboard.core.states.models import PLACE
from domain.names import MAX_STATE
from domain.notifications.rule import AGENT, AGENTS
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.rule_parser import rule_from_plain

# ---- notifications -------------------------------------------------------------------------------
# Notifications as the database has them: from what happened to each try of each message.
#
# An incident's change is stored as an `IncidentEvent` in the transaction that stores the incident,
# and the begin or end of a finding about an agent as an `AgentEvent` in that which stores the
# finding; the worker passes them to the rules, which open a `Group`, and writes a `Message` to each
# target in one transaction; each try to deliver one is an `Attempt`. Times in Unix ms.

MAX_TITLE = 100
"""Longest name of a rule, a channel or a rota, characters."""
MAX_KEY = 400
"""Longest key of a group, characters."""
MAX_REASON = 200
"""Longest reason, characters."""
MAX_SUBJECT = 200
"""Longest subject, characters."""
MAX_RECIPIENT = 320
"""Longest recipient, characters: that of a mail address."""
MAX_ANSWER = 500
"""Longest answer of a receiver that is kept, characters."""


# ---- what rules are made of -------------------------------------------------------------------

M = TypeVar("M", bound=models.Model)


class RetirableQuerySet(models.QuerySet[M]):
    """Rows that are retired, as messages refer to them."""

    def in_use(self) -> Self:
        """Return those that are not retired, by name."""
        return self.filter(retired_at=None).order_by("name")


class ChannelQuerySet(RetirableQuerySet["Channel"]):
    """Channels."""


class Channel(AuthoredRow):
    """A way to reach somebody.

    kind: of `channels.CHANNELS`; address: whom it reaches, as that kind has it: mail addresses with
    commas between, a webhook's URL, what is shown of an Apprise URL; secret: sealed, as
    `dashboard.core.accounts.encryption` does; most, window_ms: at most so many messages in so long;
    retired_at: since when nothing is sent by it any more.
    """

    name = models.CharField(max_length=MAX_TITLE)
    kind = models.CharField(max_length=20)
    address = models.CharField(max_length=2_000, blank=True)
    secret = models.TextField(blank=True)
    most = models.IntegerField(default=60)
    window_ms = models.BigIntegerField(default=3_600_000)
    enabled = models.BooleanField(default=True)
    changed_at = models.BigIntegerField()
    retired_at = models.BigIntegerField(null=True)

    objects = ChannelQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["name"], condition=Q(retired_at=None), name="one_channel_per_name"
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_on(self) -> bool:
        """Return whether messages are sent by it: it is enabled and not retired."""
        return self.enabled and self.retired_at is None

    def retire(self, now: int) -> None:
        """Have nothing sent by it any more, and forget its secret."""
        rows = Channel.objects.filter(pk=self.pk)
        rows.update(retired_at=now, enabled=False, secret="")

    def sent_in_window(self, now: int) -> MessageQuerySet:
        """Return the messages that count against its limit at `now` (ms)."""
        return self.messages.filter(status=SENT, ended_at__gt=now - self.window_ms)


class RotaQuerySet(RetirableQuerySet["Rota"]):
    """Rotas."""


class Rota(AuthoredRow):
    """Who is on call. kinds: the kinds of channel by which that user is reached: mail, push."""

    name = models.CharField(max_length=MAX_TITLE)
    kinds = models.JSONField(default=list)
    changed_at = models.BigIntegerField()
    retired_at = models.BigIntegerField(null=True)

    objects = RotaQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["name"], condition=Q(retired_at=None), name="one_rota_per_name"
            ),
        )

    def __str__(self) -> str:
        return self.name

    def shift_at(self, at: int) -> RotaShift | None:
        """Return the shift that counts at a time: an override before others, the last written
        first.

        Shifts of users who are not active do not count.
        """
        rows = self.shifts.filter(user__is_active=True, begins_at__lte=at, ends_at__gt=at)
        return rows.select_related("user").order_by("-override", "-written_at", "-pk").first()

    def shifts_from(self, at: int) -> models.QuerySet[RotaShift]:
        """Return the shifts that are not over at a time, in their order."""
        rows = self.shifts.filter(ends_at__gt=at).select_related("user")
        return rows.order_by("begins_at", "pk")

    def on_call(self, at: int) -> User | None:
        """Return who is on call at a time, Unix ms; None where nobody is."""
        shift = self.shift_at(at)
        return shift.user if shift else None

    def retire(self, now: int) -> None:
        """Have nobody reached through it any more."""
        Rota.objects.filter(pk=self.pk).update(retired_at=now)


class RotaShift(models.Model):
    """A user's time on call. override: it stands before every shift that is none; of several, the
    one that was written last."""

    rota = models.ForeignKey(Rota, models.CASCADE, related_name="shifts")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="on_call")
    begins_at = models.BigIntegerField()
    ends_at = models.BigIntegerField()
    override = models.BooleanField(default=False)
    written_by = models.CharField(max_length=150)
    written_at = models.BigIntegerField()

    class Meta:
        indexes = (Index(fields=["rota", "ends_at"], name="rota_shifts_by_end"),)

    def __str__(self) -> str:
        return f"{self.user_id} from {self.begins_at} to {self.ends_at}"


class ChangedMeanwhile(Exception):
    """Somebody else has changed the rule since it was read."""


class RuleQuerySet(RetirableQuerySet["Rule"]):
    """Rules of notifications."""

    def in_force(self) -> RuleQuerySet:
        """Return those that are switched on, in the order in which they were made."""
        return self.in_use().filter(enabled=True).order_by("pk")


class Rule(AuthoredRow):
    """Who is to know of which incidents, how.

    definition: as `domain.notifications.rule_parser` reads it; revision: rises with each change;
    recent: when messages of the rule went out, within the window of its limit.
    """

    name = models.CharField(max_length=MAX_TITLE)
    enabled = models.BooleanField(default=True)
    definition = models.JSONField(default=dict)
    revision = models.IntegerField(default=1)
    recent = models.JSONField(default=list)
    changed_at = models.BigIntegerField()
    retired_at = models.BigIntegerField(null=True)

    objects = RuleQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["name"], condition=Q(retired_at=None), name="one_notification_rule_per_name"
            ),
        )

    def __str__(self) -> str:
        return self.name

    def parsed(self) -> RuleValue:
        """Return what the rule says. Raises RuleError where another version wrote it."""
        return rule_from_plain(self.definition)

    def change(self, now: int, revision: int | None = None, **fields: Any) -> None:
        """Store other fields. revision: the one that was read, by default that of the row.

        Raises ChangedMeanwhile.
        """
        seen = self.revision if revision is None else revision
        same = Rule.objects.in_use().filter(pk=self.pk, revision=seen)
        if not same.update(**fields, changed_at=now, revision=F("revision") + 1):
            raise ChangedMeanwhile
        self.refresh_from_db()

    def switch(self, enabled: bool, now: int) -> None:
        """Enable or disable the rule. Raises ChangedMeanwhile."""
        self.change(now, enabled=enabled)

    def retire(self, now: int) -> None:
        """Have the rule send nothing any more; its messages stay. Raises ChangedMeanwhile."""
        self.change(now, enabled=False, retired_at=now)

    def record_recent(self, recent: list[int]) -> None:
        """Store when messages of the rule went out, within the window of its limit."""
        Rule.objects.filter(pk=self.pk).update(recent=recent)


# ---- what happened ----------------------------------------------------------------------------


class IncidentEventQuerySet(models.QuerySet["IncidentEvent"]):
    """Events of incidents."""

    def waiting(self, now: int) -> IncidentEventQuerySet:
        """Return those that the rules are to be shown at `now` (ms)."""
        return self.filter(handled_at=None, due_at__lte=now)


class IncidentEvent(AssetRow):
    """Something that happened to an incident, stored in the transaction that stores the incident.

    kind: of `domain.notifications.events.KINDS`; place: of the change, so that a rebuild stores
    nothing twice; incident: the place at which its incident began; state: the asset's from then on;
    worst: the worst of the incident so far; due_at: it is looked at from then on; handled_at: when
    the rules had it, and outcome: why they were not shown it, if they were not.
    """

    kind = models.CharField(max_length=16)
    place = models.CharField(max_length=PLACE)
    incident = models.CharField(max_length=PLACE)
    at = models.BigIntegerField()
    began_at = models.BigIntegerField()
    state = models.CharField(max_length=MAX_STATE, blank=True)
    worst = models.CharField(max_length=MAX_STATE, blank=True)
    recorded_at = models.BigIntegerField()
    due_at = models.BigIntegerField(default=0)
    handled_at = models.BigIntegerField(null=True)
    outcome = models.CharField(max_length=MAX_REASON, blank=True)

    objects = IncidentEventQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "place", "kind"], name="one_event_per_place"
            ),
        )
        indexes = (
            Index(fields=["due_at", "id"], condition=Q(handled_at=None), name="events_to_handle"),
            Index(fields=["recorded_at"], name="events_by_age"),
        )


class AgentEventQuerySet(models.QuerySet["AgentEvent"]):
    """Events of agents."""

    def waiting(self) -> AgentEventQuerySet:
        """Return those that the rules are to be shown."""
        return self.filter(handled_at=None)


class AgentEvent(AgentRow):
    """The begin or the end of a finding about an agent, stored in the transaction that stores it.

    kind: of `domain.notifications.events.KINDS`; finding: of AGENT_KINDS there; place: tells the
    finding from others; words: what is wrong; handled_at: when the rules had it, and outcome: why
    they were not shown it, if they were not.
    """

    kind = models.CharField(max_length=16)
    finding = models.CharField(max_length=20)
    place = models.CharField(max_length=PLACE)
    words = models.CharField(max_length=500)
    at = models.BigIntegerField()
    recorded_at = models.BigIntegerField()
    handled_at = models.BigIntegerField(null=True)
    outcome = models.CharField(max_length=MAX_REASON, blank=True)

    objects = AgentEventQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["place", "kind"], name="one_event_of_agent_per_place"),
        )
        indexes = (
            Index(fields=["id"], condition=Q(handled_at=None), name="agents_to_handle"),
            Index(fields=["recorded_at"], name="agent_events_by_age"),
        )


class TaskNoticeQuerySet(models.QuerySet["TaskNotice"]):
    """Runs of scheduled tasks that notify."""

    def due(self, now: int) -> TaskNoticeQuerySet:
        """Return those that the rules are to look at, at `now` (ms)."""
        return self.filter(due_at__lte=now)


class TaskNotice(AssetRow):
    """A run of a scheduled task that notifies, stored in the transaction that stores its record.

    place: of the record, so that a rebuild stores nothing twice; task: its id; owner: in whose name
    it runs; state: of the asset then; condition: the state in which the asset had to be, empty for
    any; due_at: the rules look at it from then on, empty once they are done with it; held: why the
    messages of rules wait, by their numbers; outcome: what came of it so far.
    """

    place = models.CharField(max_length=PLACE)
    task = models.UUIDField()
    owner = models.CharField(max_length=255)
    reason = models.CharField(max_length=500, blank=True)
    state = models.CharField(max_length=MAX_STATE, blank=True)
    condition = models.CharField(max_length=MAX_STATE, blank=True)
    at = models.BigIntegerField()
    recorded_at = models.BigIntegerField()
    due_at = models.BigIntegerField(null=True)
    held = models.JSONField(default=dict)
    outcome = models.CharField(max_length=MAX_REASON, blank=True)

    objects = TaskNoticeQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "asset", "place"], name="one_notice_per_place"),
        )
        indexes = (
            Index(fields=["due_at", "id"], name="notices_to_tell"),
            Index(fields=["recorded_at"], name="notices_by_age"),
        )


def new_token() -> str:
    """Return a name that nobody guesses."""
    return secrets.token_urlsafe(16)


class GroupQuerySet(models.QuerySet["Group"]):
    """Groups of incidents."""

    def open(self) -> GroupQuerySet:
        """Return those that have not ended."""
        return self.filter(closed_at=None)

    def due(self, now: int) -> GroupQuerySet:
        """Return the open ones in which time alone may cause something at `now` (ms)."""
        return self.open().filter(next_at__lte=now)

    def of_idle_rules(self) -> GroupQuerySet:
        """Return those of rules that are switched off or retired."""
        return self.filter(Q(rule__enabled=False) | Q(rule__retired_at__isnull=False))


class Group(models.Model):
    """Incidents of which a rule tells together, from the first of them to the end of the last.

    key: what they have in common, such as `scenario=attack`; token: its name in links; state: as
    `domain.notifications.group` has it, in JSON; next_at: when time alone may cause something,
    empty for never; announced_at: of its first message; stage: how many stages have been reached;
    incidents: how many it has had; worst: the worst of their states; reason: what holds its next
    message back, or why it ended without one.
    """

    rule = models.ForeignKey(Rule, models.CASCADE, related_name="groups")
    key = models.CharField(max_length=MAX_KEY)
    token = models.CharField(max_length=32, unique=True, default=new_token)
    opened_at = models.BigIntegerField()
    announced_at = models.BigIntegerField(null=True)
    acknowledged_at = models.BigIntegerField(null=True)
    closed_at = models.BigIntegerField(null=True)
    next_at = models.BigIntegerField(null=True)
    stage = models.IntegerField(default=0)
    incidents = models.IntegerField(default=0)
    worst = models.CharField(max_length=MAX_STATE, blank=True)
    reason = models.CharField(max_length=MAX_REASON, blank=True)
    state = models.TextField(default="{}")

    objects = GroupQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["rule", "key"],
                condition=Q(closed_at=None),
                name="one_open_group_per_key",
            ),
        )
        indexes = (
            Index(fields=["next_at"], condition=Q(closed_at=None), name="groups_due"),
            Index(fields=["closed_at"], name="groups_by_end"),
        )

    def __str__(self) -> str:
        return f"{self.rule_id}: {self.key}"

    @property
    def is_of_agents(self) -> bool:
        """Whether it tells of agents, not of incidents."""
        return self.key.startswith((f"{AGENTS} ", f"{AGENT} "))

    def close(self, reason: str, now: int) -> None:
        """End the group. reason: why it ends without a message, empty if it had one."""
        self.closed_at, self.next_at, self.reason = now, None, reason
        self.state = "{}"
        self.save()


class GroupIncident(AssetRow):
    """An incident of a group. place: at which the incident began; of a finding about an agent,
    `asset` is the agent and the place is the finding's."""

    group = models.ForeignKey(Group, models.CASCADE, related_name="members")
    place = models.CharField(max_length=PLACE)

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["group", "scenario", "asset", "place"], name="one_incident_per_group"
            ),
        )
        indexes = (Index(fields=["scenario", "asset", "place"], name="groups_of_incident"),)


# ---- what was sent ----------------------------------------------------------------------------

QUEUED, SENDING, SENT, HELD, FAILED, GIVEN_UP, NOT_SENT = (
    "queued", "sending", "sent", "held", "failed", "given up", "not sent",
)  # fmt: skip
STATUSES = {
    QUEUED: "Waiting to be sent",
    SENDING: "Being sent",
    SENT: "Sent",
    HELD: "Held until what holds it is over",
    FAILED: "Failed, to be tried again",
    GIVEN_UP: "Given up",
    NOT_SENT: "Not sent",
}
"""Of a message. One that is held goes out later; one that is not sent never does, and says why."""
OPEN = (QUEUED, SENDING, HELD, FAILED)
"""There is something to do."""


class MessageQuerySet(models.QuerySet["Message"]):
    """Messages."""

    def open(self) -> MessageQuerySet:
        """Return those that have not come to an end."""
        return self.filter(status__in=OPEN)

    def due(self, now: int) -> MessageQuerySet:
        """Return the open ones that may be tried at `now` (ms), and that no worker has."""
        return self.open().filter(next_at__lte=now, lease_until__lte=now)


class Message(models.Model):
    """A message to one recipient, or the decision to send none.

    id: the same in every try, so that a receiver tells a duplicate; scenario: empty where it tells
    of several, or of none; kind: of `domain.notifications.group.KINDS`, or `test`, `digest`,
    `points`, `views`, `browser`; reason: why it is held, given up or not sent; why: what had it
    sent, in words; channel, rota, user: whom it is to reach and through whom; recipient: the
    address; payload: what a program is told, in JSON; thread: the id of the first message of its
    conversation; dedupe: two of one key are one message; next_at: when it is tried next; lease,
    lease_until: which worker tries it, until when.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    scenario = models.CharField(max_length=40, blank=True)
    kind = models.CharField(max_length=16)
    status = models.CharField(max_length=10, default=QUEUED)
    reason = models.CharField(max_length=MAX_REASON, blank=True)
    why = models.CharField(max_length=MAX_REASON, blank=True)
    rule = models.ForeignKey(Rule, models.SET_NULL, null=True, related_name="messages")
    group = models.ForeignKey(Group, models.SET_NULL, null=True, related_name="messages")
    stage = models.IntegerField(null=True)
    channel = models.ForeignKey(Channel, models.SET_NULL, null=True, related_name="messages")
    rota = models.ForeignKey(Rota, models.SET_NULL, null=True, related_name="messages")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="notifications"
    )
    means = models.CharField(max_length=20, blank=True)
    recipient = models.CharField(max_length=MAX_RECIPIENT, blank=True)
    subject = models.CharField(max_length=MAX_SUBJECT)
    text = models.TextField(blank=True)
    html = models.TextField(blank=True)
    headers = models.JSONField(default=dict)
    payload = models.JSONField(default=dict)
    thread = models.CharField(max_length=36, blank=True)
    dedupe = models.CharField(max_length=200, null=True, unique=True)  # noqa: DJ001 - few have one
    created_at = models.BigIntegerField()
    next_at = models.BigIntegerField(default=0)
    tries = models.IntegerField(default=0)
    lease = models.CharField(max_length=36, blank=True)
    lease_until = models.BigIntegerField(default=0)
    ended_at = models.BigIntegerField(null=True)

    objects = MessageQuerySet.as_manager()

    class Meta:
        indexes = (
            Index(fields=["-created_at"], name="messages_newest"),
            Index(fields=["next_at"], condition=Q(status__in=OPEN), name="messages_to_send"),
            Index(fields=["channel", "ended_at"], name="messages_of_channel"),
            Index(fields=["scenario", "ended_at"], name="messages_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.subject} to {self.recipient}: {self.status}"

    @property
    def way(self) -> int | str:
        """Return what it goes through: the number of its channel, or means and recipient."""
        return self.channel_id or f"{self.means} {self.recipient}"

    @property
    def is_follow_up(self) -> bool:
        """Return whether another message is the first one of its thread."""
        return bool(self.thread) and self.thread != str(self.pk)


class Attempt(models.Model):
    """A try to deliver a message. answer: of the receiver, or what went wrong; ms: how long it
    took, empty where the worker never came to store it."""

    message = models.ForeignKey(Message, models.CASCADE, related_name="attempts")
    number = models.IntegerField()
    at = models.BigIntegerField()
    ms = models.IntegerField(null=True)
    succeeded = models.BooleanField(default=False)
    answer = models.CharField(max_length=MAX_ANSWER, blank=True)

    class Meta:
        constraints = (
            UniqueConstraint(fields=["message", "number"], name="one_attempt_per_number"),
        )
        indexes = (Index(fields=["at"], name="attempts_by_age"),)

    def __str__(self) -> str:
        return f"{self.message_id}: {self.number}"


# ---- notifications -------------------------------------------------------------------------------
# Retention of events, groups, messages and tries.

EVENTS_KEPT_MS = 30 * DAY_MS
"""How long an event is kept after it was stored: a rebuild in this time stores it no second time,
and what it brings of longer ago is late, and not told."""
LEAST_MS = 7 * DAY_MS
"""A rebuild that is asked for after an incident finds its events."""
KEPT_MS = 90 * DAY_MS
"""Of messages and groups; a message that tells of several scenarios, or of none, is kept no longer
than that, and no shorter."""

KEPT = (
    Retention(
        "events of incidents",
        IncidentEvent,
        "recorded_at",
        EVENTS_KEPT_MS,
        condition=Q(handled_at__isnull=False),
        by_scenario=True,
        least_ms=LEAST_MS,
    ),
    Retention(
        "events of agents",
        AgentEvent,
        "recorded_at",
        EVENTS_KEPT_MS,
        condition=Q(handled_at__isnull=False),
    ),
    Retention(
        "scheduled tasks that notified",
        TaskNotice,
        "recorded_at",
        EVENTS_KEPT_MS,
        condition=Q(due_at=None),
        by_scenario=True,
        least_ms=LEAST_MS,
    ),
    Retention(
        "messages and their tries",
        Message,
        "ended_at",
        KEPT_MS,
        condition=~Q(status__in=OPEN),
        by_scenario=True,
        least_ms=LEAST_MS,
    ),
    Retention("groups of incidents", Group, "closed_at", KEPT_MS),
    Retention("times on call", RotaShift, "ends_at", KEPT_MS),
)


# ---- push ----------------------------------------------------------------------------------------
# The browsers in which users want notifications. Times in Unix ms.

MAX_ENDPOINT = 1_000
"""Longest address of a push service, characters."""
MAX_AGENT = 200
"""Longest name of a browser that is kept, characters."""


class PushSubscriptionQuerySet(models.QuerySet["PushSubscription"]):
    """Subscriptions."""

    def of_user(self, user: User) -> PushSubscriptionQuerySet:
        """Return a user's, the newest first; none of a user who is not active."""
        return self.filter(user=user, user__is_active=True).order_by("-pk")


class PushSubscription(models.Model):
    """A browser that a user's notifications go to.

    endpoint: the address at its push service, by which nobody but us may send; p256dh, auth: with
    which a message is encrypted for it, in base64url; agent: what the browser calls itself;
    failures: how many tries have failed since the last one that did not.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="push_subscriptions"
    )
    endpoint = models.CharField(max_length=MAX_ENDPOINT, unique=True)
    p256dh = models.CharField(max_length=100)
    auth = models.CharField(max_length=40)
    agent = models.CharField(max_length=MAX_AGENT, blank=True)
    failures = models.IntegerField(default=0)
    created_at = models.BigIntegerField()
    reached_at = models.BigIntegerField(null=True)

    objects = PushSubscriptionQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.user_id}: {self.agent}"

    def record_reached(self, now: int) -> None:
        """Store that a message was accepted for the browser."""
        PushSubscription.objects.filter(pk=self.pk).update(reached_at=now, failures=0)

    def record_failed(self) -> None:
        """Store that none was."""
        PushSubscription.objects.filter(pk=self.pk).update(failures=F("failures") + 1)
