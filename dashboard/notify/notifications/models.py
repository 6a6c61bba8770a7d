"""Notifications as the database has them, from what happened to each try, and the browsers that
want them.
"""

from __future__ import annotations

import secrets
import uuid

from django.conf import settings
from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.common.models import AgentRow, AssetRow, AuthoredRow
from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS
from dashboard.core.states.models import PLACE
from domain.names import MAX_STATE
from domain.notifications.rule import AGENT, AGENTS

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


class Channel(AuthoredRow):
    """A way to reach somebody.

    kind: of `CHANNELS` in `channels.py`; address: whom it reaches, as that kind
    has it: mail addresses with commas between, a webhook's URL, what is shown of an Apprise URL;
    secret: sealed, as `dashboard.core.accounts.encryption` does; most, window_ms: at most so many
    messages in so long; retired_at: since when nothing is sent by it any more.
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

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["name"], condition=Q(retired_at=None), name="one_channel_per_name"
            ),
        )

    def __str__(self) -> str:
        return self.name


class Rota(AuthoredRow):
    """Who is on call. kinds: the kinds of channel by which that user is reached: mail, push."""

    name = models.CharField(max_length=MAX_TITLE)
    kinds = models.JSONField(default=list)
    changed_at = models.BigIntegerField()
    retired_at = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["name"], condition=Q(retired_at=None), name="one_rota_per_name"
            ),
        )

    def __str__(self) -> str:
        return self.name


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

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["name"], condition=Q(retired_at=None), name="one_notification_rule_per_name"
            ),
        )

    def __str__(self) -> str:
        return self.name


# ---- what happened ----------------------------------------------------------------------------


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

    class Meta:
        constraints = (
            UniqueConstraint(fields=["place", "kind"], name="one_event_of_agent_per_place"),
        )
        indexes = (
            Index(fields=["id"], condition=Q(handled_at=None), name="agents_to_handle"),
            Index(fields=["recorded_at"], name="agent_events_by_age"),
        )


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

    class Meta:
        indexes = (
            Index(fields=["-created_at"], name="messages_newest"),
            Index(fields=["next_at"], condition=Q(status__in=OPEN), name="messages_to_send"),
            Index(fields=["channel", "ended_at"], name="messages_of_channel"),
            Index(fields=["scenario", "ended_at"], name="messages_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.subject} to {self.recipient}: {self.status}"


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

    def __str__(self) -> str:
        return f"{self.user_id}: {self.agent}"
