"""Notifications in the database, from events to delivery attempts, and the browsers that users have
subscribed.
"""

from __future__ import annotations

import secrets
import uuid
from typing import Any, Self, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import caches
from django.db import models
from django.db.models import Exists, F, Index, OuterRef, Q, UniqueConstraint

from dashboard.core.common.models import AgentRow, AssetRow, AuthoredRow
from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS
from dashboard.core.states.models import PLACE
from domain.names import MAX_STATE
from domain.notifications.group import RESOLVED, SUMMARY
from domain.notifications.rule import AGENT, AGENTS, BUDGET
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.rule_parser import rule_from_plain

# ---- notifications -------------------------------------------------------------------------------
# Notifications in the database: from events to each attempt to deliver a message.
#
# A change of an incident is stored as an `IncidentEvent` in the transaction that stores the
# incident, and the begin or end of a finding about an agent as an `AgentEvent` together with the
# finding. The worker passes them to the rules, which open a `Group`, and writes a `Message` for
# each recipient, all in one transaction. Each attempt to deliver a message is an `Attempt`. Times
# in Unix ms.

MAX_TITLE = 100
"""Length of the longest name of a rule, channel or rota, in characters."""
MAX_KEY = 400
"""Length of the longest key of a group, in characters."""
MAX_REASON = 200
"""Length of the longest reason, in characters."""
MAX_SUBJECT = 200
"""Length of the longest subject, in characters."""
MAX_RECIPIENT = 320
"""Length of the longest recipient, in characters: that of a mail address."""
MAX_ANSWER = 500
"""Length of the longest receiver's answer that is stored, in characters."""


# ---- what rules are made of -------------------------------------------------------------------

M = TypeVar("M", bound=models.Model)
COUNT_KEPT_S = 5
_RESTING = "resting-channels"


class RetirableQuerySet(models.QuerySet[M]):
    """Rows that are retired instead of deleted, as messages refer to them."""

    def in_use(self) -> Self:
        """Return the rows that are not retired, by name."""
        return self.filter(retired_at=None).order_by("name")


class ChannelQuerySet(RetirableQuerySet["Channel"]):
    """Channels."""

    def last_resorts(self) -> ChannelQuerySet:
        """Return the channels that are reached when a message reached nobody."""
        return self.in_use().filter(enabled=True, last_resort=True)

    def count_resting(self) -> int:
        """Return how many do not answer; the count may be a few seconds old."""
        count = caches["figures"].get(_RESTING)
        if count is None:
            count = self.in_use().filter(enabled=True, rests__gt=0).count()
            caches["figures"].set(_RESTING, count, COUNT_KEPT_S)
        return int(count)

    def of_changes(self) -> Self:
        """Return the channels that send what people do to incidents."""
        return self.in_use().filter(enabled=True, changes=True)


class Channel(AuthoredRow):
    """A way to reach somebody.

    kind: from `channels.CHANNELS`; address: whom it reaches, in the form of its kind: mail
    addresses separated by commas, a webhook's URL, or the masked form of an Apprise URL; secret:
    encrypted by `dashboard.core.accounts.encryption`; most, window_ms: the limit, as messages per
    window; changes: whether it sends what people do to incidents; last_resort: whether it is
    reached when a message reached nobody; retired_at: since when it sends nothing any more;
    rests_until: until when it is not tried, as its receiver did not answer; rests: how often in a
    row; rest_reason: why.
    """

    name = models.CharField(max_length=MAX_TITLE)
    kind = models.CharField(max_length=20)
    address = models.CharField(max_length=2_000, blank=True)
    secret = models.TextField(blank=True)
    most = models.IntegerField(default=60)
    window_ms = models.BigIntegerField(default=3_600_000)
    enabled = models.BooleanField(default=True)
    changes = models.BooleanField(default=False)
    last_resort = models.BooleanField(default=False)
    changed_at = models.BigIntegerField()
    retired_at = models.BigIntegerField(null=True)
    rests_until = models.BigIntegerField(default=0, db_default=0)
    rests = models.IntegerField(default=0, db_default=0)
    rest_reason = models.CharField(max_length=MAX_REASON, blank=True, db_default="")

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
        """Return whether the channel sends messages: it is enabled and not retired."""
        return self.enabled and self.retired_at is None

    def retire(self, now: int) -> None:
        """Retire the channel: it sends nothing any more, and its secret is deleted."""
        rows = Channel.objects.filter(pk=self.pk)
        rows.update(retired_at=now, enabled=False, secret="")

    def rest(self, why: str, until: int) -> None:
        """Store that its receiver did not answer: it rests until a time (Unix ms)."""
        rows = Channel.objects.filter(pk=self.pk)
        rows.update(rests=F("rests") + 1, rests_until=until, rest_reason=why[:MAX_REASON])

    def end_rest(self) -> None:
        """Have it tried again at once: its receiver has answered, or somebody has changed it."""
        rows = Channel.objects.filter(pk=self.pk).exclude(rests=0)
        rows.update(rests=0, rests_until=0, rest_reason="")

    def sent_in_window(self, now: int) -> MessageQuerySet:
        """Return the messages that count towards its limit at `now` (Unix ms)."""
        return self.messages.filter(status=SENT, ended_at__gt=now - self.window_ms)


class RotaQuerySet(RetirableQuerySet["Rota"]):
    """Rotas."""


class Rota(AuthoredRow):
    """Who is on call. kinds: the kinds of channel that reach that user: mail, push."""

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
        """Return the shift that applies at a time (Unix ms), or None.

        Overrides take precedence, then the shift written last. Shifts of inactive users do not
        count.
        """
        rows = self.shifts.filter(user__is_active=True, begins_at__lte=at, ends_at__gt=at)
        return rows.select_related("user").order_by("-override", "-written_at", "-pk").first()

    def shifts_from(self, at: int) -> models.QuerySet[RotaShift]:
        """Return the shifts that have not ended at a time (Unix ms), in order."""
        rows = self.shifts.filter(ends_at__gt=at).select_related("user")
        return rows.order_by("begins_at", "pk")

    def on_call(self, at: int) -> User | None:
        """Return the user on call at a time (Unix ms), or None."""
        shift = self.shift_at(at)
        return shift.user if shift else None

    def retire(self, now: int) -> None:
        """Retire the rota: it reaches nobody any more."""
        Rota.objects.filter(pk=self.pk).update(retired_at=now)


class RotaShift(models.Model):
    """A user's time on call. override: it takes precedence over other shifts; among several, the
    one written last applies."""

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

    def in_turn(self) -> RuleQuerySet:
        """Return the rules that are not retired, in the order of their creation."""
        return self.in_use().order_by("pk")

    def in_force(self) -> RuleQuerySet:
        """Return the enabled rules among these."""
        return self.in_turn().filter(enabled=True)


class Rule(AuthoredRow):
    """Who is notified of which incidents, and how.

    definition: see `domain.notifications.rule_parser`; revision: rises with each change; recent:
    when the rule's messages were sent, within the window of its limit.
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
        """Return the parsed rule. Raises RuleError if another version wrote it."""
        return rule_from_plain(self.definition)

    def change(self, now: int, revision: int | None = None, **fields: Any) -> None:
        """Store changed fields. revision: the one that was read, by default the row's.

        Raises ChangedMeanwhile.
        """
        seen = self.revision if revision is None else revision
        same = Rule.objects.in_use().filter(pk=self.pk, revision=seen)
        if not same.update(**fields, changed_at=now, revision=F("revision") + 1):
            raise ChangedMeanwhile
        self.refresh_from_db()
        self.groups.open().update(next_at=now)

    def switch(self, enabled: bool, now: int) -> None:
        """Enable or disable the rule. Raises ChangedMeanwhile."""
        self.change(now, enabled=enabled)

    def retire(self, now: int) -> None:
        """Retire the rule: it sends nothing any more. Raises ChangedMeanwhile."""
        self.change(now, enabled=False, retired_at=now)

    def record_recent(self, recent: list[int]) -> None:
        """Store when the rule's messages were sent, within the window of its limit."""
        Rule.objects.filter(pk=self.pk).update(recent=recent)


# ---- what happened ----------------------------------------------------------------------------


class IncidentEventQuerySet(models.QuerySet["IncidentEvent"]):
    """Events of incidents."""

    def waiting(self, now: int) -> IncidentEventQuerySet:
        """Return the events that the rules should handle at `now` (Unix ms)."""
        return self.filter(handled_at=None, due_at__lte=now)


class IncidentEvent(AssetRow):
    """Something that happened to an incident, stored in the transaction that stores the incident.

    kind: from `domain.notifications.events.KINDS`; place: of the change, so that a rebuild stores
    nothing twice; incident: the place at which its incident began; state: the asset's new state;
    worst: the worst of the incident so far; due_at: when to handle it; handled_at: when the rules
    handled it; outcome: why the rules ignored it, if they did.
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
        """Return the events that the rules should handle."""
        return self.filter(handled_at=None)


class AgentEvent(AgentRow):
    """The begin or end of a finding about an agent, or an error budget, stored in the transaction
    that stores it.

    kind: from `domain.notifications.events.KINDS`; finding: from AGENT_KINDS or BUDGET_KINDS;
    place: identifies the finding; words: what is wrong; handled_at: when the rules handled it;
    outcome: why the rules ignored it, if they did.
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
        """Return the runs that the rules should look at, at `now` (Unix ms)."""
        return self.filter(due_at__lte=now)


class TaskNotice(AssetRow):
    """A run of a scheduled task that notifies, stored in the transaction that stores its record.

    place: of the record, so that a rebuild stores nothing twice; task: its id; owner: in whose name
    it runs; state: of the asset at the time; condition: the state that the asset had to be in,
    empty for any; due_at: when the rules look at it, null once they are done; held: why rules hold
    their messages back, by rule number; outcome: the outcome so far.
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
    """Return a random token that cannot be guessed."""
    return secrets.token_urlsafe(16)


class GroupQuerySet(models.QuerySet["Group"]):
    """Groups of incidents."""

    def open(self) -> GroupQuerySet:
        """Return the groups that are not closed."""
        return self.filter(closed_at=None)

    def due(self, now: int) -> GroupQuerySet:
        """Return the open groups in which the passing of time may cause something at `now` (ms)."""
        return self.open().filter(next_at__lte=now)

    def of_retired_rules(self) -> GroupQuerySet:
        """Return the groups of rules that are retired."""
        return self.filter(rule__retired_at__isnull=False)


class Group(models.Model):
    """Incidents that a rule reports together, from the first of them to the end of the last.

    key: what they have in common, such as `scenario=attack`; token: its name in links; state: JSON
    of `domain.notifications.group`; next_at: when the passing of time may cause something, null for
    never; announced_at: the time of its first message; stage: how many stages have been reached;
    incidents: how many it has had; worst: the worst of their states; reason: what holds its next
    message back, or why it was closed without one.
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
    def is_of_findings(self) -> bool:
        """Whether the group is about agents, or an error budget, rather than incidents."""
        return self.key.startswith((f"{AGENTS} ", f"{AGENT} ", f"{BUDGET} "))

    @property
    def budget_of(self) -> str:
        """The scenario whose error budget the group is about, empty for another group."""
        prefix, _, scenario = self.key.rpartition(" ")
        return scenario if prefix == BUDGET else ""

    def is_known_to(self, channel: int | None, rota: int | None) -> bool:
        """Return whether a channel or a rota has had a message about the group, or will have."""
        rows = Message.objects.told().filter(channel=channel, rota=rota)
        summed = Q(kind=SUMMARY, rule=self.rule_id, created_at__gte=self.announced_at or 0)
        return rows.filter(Q(group=self) | summed).exists()

    def close(self, reason: str, now: int) -> None:
        """Close the group. reason: why it is closed without a message, empty if it had one."""
        self.closed_at, self.next_at, self.reason = now, None, reason
        self.state = "{}"
        self.save()


class GroupIncident(AssetRow):
    """An incident of a group. place: at which the incident began. For a finding about an agent,
    `asset` is the agent, and the place is the finding's."""

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

WAITING, QUEUED, SENDING, SENT, HELD, FAILED, GIVEN_UP, NOT_SENT = (
    "waiting", "queued", "sending", "sent", "held", "failed", "given up", "not sent",
)  # fmt: skip
STATUSES = {
    WAITING: "Waiting",
    QUEUED: "About to be sent",
    SENDING: "Being sent",
    SENT: "Sent",
    HELD: "Held until what holds it is over",
    FAILED: "Failed, to be tried again",
    GIVEN_UP: "Given up",
    NOT_SENT: "Not sent",
}
"""Statuses of a message. A waiting one is what a rule would send now, and waits for the rule: its
words go out in other messages. A held one is sent later; one that is not sent never is, and has a
reason.
"""
OPEN = (QUEUED, SENDING, HELD, FAILED)
"""Statuses of messages that still need work."""
MERGED = "the channel had too many messages: it is in a summary of several"
WAITED = "it waited; later messages said it"
"""Why a message is not sent whose words go out in another."""
LIMITED = "the channel's limit is reached: it waits"
"""Why a message is held that goes out as it is."""


class MessageQuerySet(models.QuerySet["Message"]):
    """Messages."""

    def open(self) -> MessageQuerySet:
        """Return the messages that still need work."""
        return self.filter(status__in=OPEN)

    def waiting(self) -> MessageQuerySet:
        """Return the messages that wait for their rule."""
        return self.filter(status=WAITING)

    def deferred(self) -> MessageQuerySet:
        """Return the messages whose receiver cannot be reached: they have no address until then."""
        return self.open().filter(means="")

    def addressed(self) -> MessageQuerySet:
        """Return the other messages that still need work."""
        return self.open().exclude(means="")

    def told(self) -> MessageQuerySet:
        """Return the messages that have reached somebody, or are on their way."""
        under_way = Q(status__in=OPEN) & ~Q(means="")
        return self.filter(under_way | Q(status=SENT) | Q(reason=MERGED))

    def await_receiver(self, reason: str, until: int, **fields: object) -> int:
        """Take their address away, until there is one again, and return how many lost it. until:
        when to look for one, Unix ms; fields: what else changes."""
        lost = {"means": "", "user": None, "lease": "", "lease_until": 0}
        return self.update(status=HELD, reason=reason[:MAX_REASON], next_at=until, **lost, **fields)

    def end_open(self, status: str, reason: str, now: int) -> int:
        """End those that still need work, and return how many did."""
        return self.open().update(status=status, reason=reason[:MAX_REASON], ended_at=now)

    def without_reader(self, since: int) -> MessageQuerySet:
        """Return the messages that need work, or were written since a time (Unix ms), of which
        nobody may have any, and of which there was no alarm. The end of what went on matters
        less."""
        same = Message.objects.filter(occasion=OuterRef("occasion"))
        reached = same.filter(Q(status=SENT) | Q(reason=MERGED))
        recent = Q(created_at__gt=since) | Q(status__in=OPEN)
        rows = self.filter(recent, unreached_at=None).exclude(occasion="")
        return rows.exclude(status=SENT).exclude(kind=RESOLVED).exclude(Exists(reached))

    def inbox_of(self, user: User) -> MessageQuerySet:
        """Return the messages to a user, once for each occasion, though several ways reach them."""
        same = Message.objects.filter(user=user, occasion=OuterRef("occasion"))
        again = same.exclude(occasion="").filter(pk__lt=OuterRef("pk"))
        return self.filter(user=user).exclude(status=NOT_SENT).exclude(Exists(again))

    def unread(self) -> MessageQuerySet:
        """Return the messages that their user has not marked as read."""
        return self.filter(read_at=None)

    def end_waiting(self, what: str, now: int) -> int:
        """End the wait of those that wait, and return how many did. what: what became of them."""
        ended = {"status": NOT_SENT, "reason": what[:MAX_REASON], "ended_at": now, "dedupe": None}
        return self.waiting().update(**ended)

    def free(self, now: int) -> MessageQuerySet:
        """Return the addressed messages that are due at `now` (ms) and that no worker holds. By
        their own columns, so that an update with it is a claim in PostgreSQL too."""
        return self.addressed().filter(next_at__lte=now, lease_until__lte=now)

    def due(self, now: int) -> MessageQuerySet:
        """Return those among them whose channel does not rest."""
        return self.free(now).filter(Q(channel=None) | Q(channel__rests_until__lte=now))


class Message(models.Model):
    """A message to one recipient, or the decision to send none.

    id: the same in every attempt, so that receivers can detect duplicates; scenario: empty if it is
    about several, or about none; kind: from `domain.notifications.group.KINDS`, or `changed`,
    `test`, `unreached`, `digest`, `points`, `views`, `browser`; reason: why it is held, given up
    or not sent; why: what caused it, in words; channel, rota, user: whom it should reach and
    through what; means: the kind of address, empty while nobody can be reached; recipient: the
    address; occasion: the same for all that one decision of a rule sends; unreached_at: when there
    was an alarm, as it reached nobody; read_at: when its user marked it as read; payload: JSON for
    programs; thread: the id of the first message of its conversation; dedupe: a key that only one
    message can have; next_at: when to try next; lease, lease_until: which worker holds it, and
    until when.
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
    occasion = models.CharField(max_length=36, blank=True)
    dedupe = models.CharField(max_length=200, null=True, unique=True)  # noqa: DJ001 - few have one
    created_at = models.BigIntegerField()
    next_at = models.BigIntegerField(default=0)
    tries = models.IntegerField(default=0)
    lease = models.CharField(max_length=36, blank=True)
    lease_until = models.BigIntegerField(default=0)
    ended_at = models.BigIntegerField(null=True)
    unreached_at = models.BigIntegerField(null=True)
    read_at = models.BigIntegerField(null=True)

    objects = MessageQuerySet.as_manager()

    class Meta:
        indexes = (
            Index(fields=["-created_at"], name="messages_newest"),
            Index(fields=["next_at"], condition=Q(status__in=OPEN), name="messages_to_send"),
            Index(fields=["channel", "ended_at"], name="messages_of_channel"),
            Index(fields=["scenario", "ended_at"], name="messages_by_age"),
            Index(fields=["user", "-created_at"], name="messages_of_user"),
            Index(fields=["occasion"], condition=~Q(occasion=""), name="messages_of_occasion"),
        )

    def __str__(self) -> str:
        return f"{self.subject} to {self.recipient}: {self.status}"

    @property
    def is_follow_up(self) -> bool:
        """Return whether its thread began with another message."""
        return bool(self.thread) and self.thread != str(self.pk)

    def parts(self) -> MessageQuerySet:
        """Return the messages that a channel's limit has put into this one. They ended as it was
        written, which an index finds."""
        if self.kind != SUMMARY or self.rule_id is not None:
            return Message.objects.none()
        rows = Message.objects.filter(channel=self.channel_id, ended_at=self.created_at)
        return rows.filter(recipient=self.recipient, status=NOT_SENT, reason=MERGED)


class Attempt(models.Model):
    """An attempt to deliver a message. answer: the receiver's, or what went wrong; ms: how long it
    took, null if the worker never got to store it."""

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
# Retention of events, groups, messages and attempts.

EVENTS_KEPT_MS = 30 * DAY_MS
"""How long an event is kept after it was stored. A rebuild within this time does not store it
again; what a rebuild brings from before is late, and not reported."""
LEAST_MS = 7 * DAY_MS
"""Long enough for a rebuild requested after an incident to find its events."""
KEPT_MS = 90 * DAY_MS
"""How long messages and groups are kept; for a message about several scenarios, or about none, a
scenario's own period does not apply."""

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
# The browsers that users have subscribed. Times in Unix ms.

MAX_ENDPOINT = 1_000
"""Length of the longest address of a push service, in characters."""
MAX_AGENT = 200
"""Length of the longest User-Agent that is stored, in characters."""


class PushSubscriptionQuerySet(models.QuerySet["PushSubscription"]):
    """Subscriptions."""

    def of_user(self, user: User) -> PushSubscriptionQuerySet:
        """Return a user's subscriptions, newest first; none if the user is inactive."""
        return self.filter(user=user, user__is_active=True).order_by("-pk")


class PushSubscription(models.Model):
    """A browser that receives a user's notifications.

    endpoint: its address at the push service, to which only we can send; p256dh, auth: the keys to
    encrypt messages for it, in base64url; agent: the browser's User-Agent; failures: how many
    attempts have failed since the last success.
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
        """Store that a message was not accepted for the browser."""
        PushSubscription.objects.filter(pk=self.pk).update(failures=F("failures") + 1)
