"""Runs of one command over many assets: the outcome of each item, owners, retention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import (
    Count,
    Exists,
    F,
    Index,
    Min,
    OuterRef,
    Q,
    Sum,
    UniqueConstraint,
    Value,
)
from django.db.models.functions import Concat, Left
from django.utils.functional import cached_property

from dashboard.core.common.models import ScenarioRow
from dashboard.core.common.retention import (
    Retention,
    Thinning,
    delete_in_portions,
    delete_rows,
    delete_surplus,
)
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, utc
from dashboard.core.states.models import AssetState
from dashboard.watch.commands.stale_forms import STATE_MOVED_ON
from domain import records

# ---- bulk ----------------------------------------------------------------------------------------
# Runs of one command over many assets, and what became of each asset. Times in Unix ms.

REVIEW, RUNNING, PAUSED, CANCELLED, DONE = "review", "running", "paused", "cancelled", "done"
STOPPED = "stopped"
STATUSES = {
    REVIEW: "To be confirmed",
    RUNNING: "Running",
    PAUSED: "Paused",
    STOPPED: "Stopped",
    CANCELLED: "Cancelled",
    DONE: "Done",
}
"""Of a run. A cancelled one is still told the answers to what it had sent; one is stopped by the
worker where its sender may not command any more."""

READY, SKIPPED, SENDING, SENT = "ready", "skipped", "sending", "sent"
APPLIED, NO_CHANGE, REFUSED = "applied", "no-change", "refused"
UNSENT, LEFT = "unsent", "left"
OUTCOMES = {
    READY: "To be sent",
    SENDING: "Being sent",
    SENT: "Waiting for its answer",
    APPLIED: "Applied",
    NO_CHANGE: "No change",
    REFUSED: "Refused by the job",
    UNSENT: "Not sent",
    LEFT: "Left out by cancelling",
    SKIPPED: "Left out by the review",
}
"""Of one asset of a run; each has exactly one, so that their counts add up to what matched."""
WAITING = (SENDING, SENT)
UNSENT_YET = (READY, SENDING)
FINAL = (APPLIED, NO_CHANGE, REFUSED, UNSENT, LEFT)
"""The outcomes that nothing comes after, of what was to be sent."""
UNANSWERED = "Unanswered"
"""What a command is called whose answer is not waited for any more."""
MOST_REASONS = 20
"""Most reasons that are listed why assets were left out or refused."""

STAYS, MAY_RETURN, RETURNS = 0, 1, 2
"""Of an asset to be purged: no agent has a live vote; one has; one reported lately."""

# Pins that a review lists; the others stand among its assets.
LISTED_PINS = 10
# The commands that a pin does not outlive.
ENDS_PINS = ("set", "release", "purge")
PINNED_SINCE = "pinned since the review"


class Pin(msgspec.Struct, frozen=True):
    """A pin of an asset; until: Unix ms, None without an end."""

    state: str
    until: int | None
    reason: str


_PIN = msgspec.json.Decoder(Pin)


class Pins(NamedTuple):
    """The pins of colleagues: how many, by whom, the most first, and the first few assets."""

    n: int
    by: Sequence[tuple[str, int]]
    items: Sequence[Item]


class PurgeReturns(NamedTuple):
    """The assets of a purge: how many are back soon, may be, and stay away.

    half and all (ms): within which half of those, and nearly all, are. Agents report at intervals,
    and a look at any moment finds as long a time passed as is still to pass.
    """

    returns: int
    may: int
    stays: int
    half: int | None
    all: int | None


class RunQuerySet(models.QuerySet["Run"]):
    """Runs."""

    def reviews(self) -> RunQuerySet:
        """Return those that nobody has started yet."""
        return self.filter(status=REVIEW)

    def started(self) -> RunQuerySet:
        """Return those that somebody has started."""
        return self.exclude(status=REVIEW)

    def not_ended(self) -> RunQuerySet:
        """Return the runs that have not ended, reviews among them."""
        return self.filter(ended_at=None)

    def open(self) -> RunQuerySet:
        """Return the runs under way, in the order of their starts.

        Leaves out those whose scenario is no longer configured.
        """
        rows = self.not_ended().started().filter(scenario__in=list(scenarios()))
        return rows.order_by("started_at", "pk")

    def newest(self) -> RunQuerySet:
        """Return them in order, the newest first."""
        return self.order_by("-created_at", "-pk")

    def delete_with_items(self) -> int:
        """Delete them with their assets, a portion at a time. Returns how many runs."""
        gone = 0
        for pk in list(self.values_list("pk", flat=True)):
            delete_in_portions(Item.objects.filter(run=pk))
            gone += delete_rows(Run.objects.filter(pk=pk))
        return gone

    def delete_surplus_reviews(self, username: str) -> None:
        """Delete a user's reviews but for the newest."""
        mine = self.reviews().filter(username=username).newest()
        delete_surplus(mine, MOST_REVIEWS, RunQuerySet.delete_with_items)


class Run(ScenarioRow):
    """One command for many assets.

    schedule: of a run that schedules a task, what it asks for; chosen: what was chosen, in
    words; beyond: how many more match; unchanged: only where state, pending and override are
    still what the review saw; user and username: who prepared it; sender: in whose name it goes
    on; senders: in whose it went, by name, since when and from which number of an asset on;
    problem: what holds it up, or why it is stopped, in words; lease and lease_until: which
    worker has it, until when; rate: assets sent a second of late; ended_at: when nothing was
    left to be sent or answered; tallies: how many assets had each outcome then.
    """

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=10)
    state = models.CharField(max_length=64, blank=True)
    until = models.BigIntegerField(null=True)
    reason = models.CharField(max_length=500)
    schedule = models.JSONField(default=dict)
    unchanged = models.BooleanField(default=True)
    chosen = models.CharField(max_length=400)
    beyond = models.IntegerField(default=0)
    repeated = models.IntegerField(default=0)
    matched = models.IntegerField(default=0)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="bulk_runs"
    )
    username = models.CharField(max_length=150)
    sender = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    senders = models.JSONField(default=list)
    status = models.CharField(max_length=10, default=REVIEW)
    changed_by = models.CharField(max_length=150, blank=True)
    created_at = models.BigIntegerField()
    started_at = models.BigIntegerField(null=True)
    last_sent_at = models.BigIntegerField(null=True)
    ended_at = models.BigIntegerField(null=True)
    tallies = models.JSONField(default=dict)
    rate = models.FloatField(default=0)
    problem = models.CharField(max_length=300, blank=True)
    lease = models.CharField(max_length=36, blank=True)
    lease_until = models.BigIntegerField(default=0)

    objects = RunQuerySet.as_manager()

    class Meta:
        indexes = (
            Index(fields=["-created_at"], name="bulk_newest"),
            Index(fields=["started_at"], condition=Q(ended_at=None), name="bulk_open"),
        )

    def refresh_from_db(self, *args: Any, **kwargs: Any) -> None:
        """Read the row again; how far it has come is counted again too."""
        self.__dict__.pop("counts", None)
        super().refresh_from_db(*args, **kwargs)

    # ---- in whose name ----

    @property
    def sender_name(self) -> str:
        """Return in whose name commands are sent; before the start, who prepared it."""
        return self.senders[-1]["name"] if self.senders else self.username

    def sender_of(self, number: int) -> str:
        """Return in whose name the command for the asset of this number was sent, or would be."""
        names = [each["name"] for each in self.senders if each["first"] <= number]
        return names[-1] if names else self.sender_name

    def _taken_over(self, user: User, now: int) -> dict[str, Any]:
        """Return the fields of a run that continues in this user's name from `now` (ms).

        Commands that were claimed and not stored as sent are sent with the rest: the job carries a
        command out once.
        """
        if self.sender_id == user.pk:
            return {}
        first = self.items.unsent().aggregate(first=Min("number"))["first"] or 0
        sender = {"name": user.get_username(), "since": now, "first": first}
        return {"sender": user, "senders": [*self.senders, sender]}

    # ---- changes ----
    # Each is about the run as it was seen: none is made where somebody else has changed it since.

    def start(self, user: User, now: int) -> bool:
        """Start what was reviewed, in a user's name. Returns whether nobody had started it."""
        begun = {"status": RUNNING, "started_at": now, "changed_by": user.get_username()}
        reviewed = Run.objects.reviews().filter(pk=self.pk)
        return bool(reviewed.update(**begun, **self._taken_over(user, now)))

    def pause(self, user: User) -> bool:
        """Pause the run. Returns whether it was running."""
        return self._change(user, (RUNNING,), status=PAUSED)

    def resume(self, user: User, now: int) -> bool:
        """Go on in a user's name from `now` (ms). Returns whether it was paused or stopped."""
        fields = {"problem": "", **self._taken_over(user, now)}
        return self._change(user, (PAUSED, STOPPED), status=RUNNING, **fields)

    def cancel(self, user: User) -> bool:
        """Leave unsent what has not been sent, whoever has the run. Returns whether any was."""
        open_ones = self._not_ended().filter(status__in=(RUNNING, PAUSED, STOPPED))
        by = user.get_username()
        return bool(open_ones.update(status=CANCELLED, problem="", changed_by=by))

    def _change(self, user: User, before: Collection[str], **fields: Any) -> bool:
        """Change the run if its status is one of these and nobody else has taken it over."""
        same = self._not_ended().filter(status__in=before, sender=self.sender_id)
        return bool(same.update(changed_by=user.get_username(), **fields))

    def _not_ended(self) -> RunQuerySet:
        return Run.objects.not_ended().filter(pk=self.pk)

    # ---- progress ----

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many of its assets have each outcome."""
        return self.tallies if self.ended_at else self.items.counts()

    @property
    def to_send(self) -> int:
        """Return how many are to be sent, or were."""
        return self.matched - self.skipped

    @property
    def skipped(self) -> int:
        """Return how many the review left out."""
        return self.counts.get(SKIPPED, 0)

    @property
    def ready(self) -> int:
        """Return how many are still to be sent."""
        return self.counts.get(READY, 0)

    @property
    def waiting(self) -> int:
        """Return how many have no answer yet."""
        return self._count(WAITING)

    @property
    def applied(self) -> int:
        """Return how many were applied."""
        return self.counts.get(APPLIED, 0)

    @property
    def refused(self) -> int:
        """Return how many the job refused."""
        return self.counts.get(REFUSED, 0)

    @property
    def finished(self) -> int:
        """Return how many have an outcome that nothing comes after."""
        return self._count(FINAL)

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left to be sent, and no answer is waited for."""
        return self.ended_at is not None or not (self.ready or self.waiting)

    @property
    def percent(self) -> float:
        """Return how many of those to be sent are finished, of a hundred."""
        return round(100 * self.finished / self.to_send, 1) if self.to_send else 100.0

    @property
    def percent_sent(self) -> float:
        """Return how many of those to be sent are on their way or finished, of a hundred."""
        sent = self.to_send - self.ready
        return round(100 * sent / self.to_send, 1) if self.to_send else 100.0

    @property
    def time_left_ms(self) -> int | None:
        """Return how long until all is sent, ms; None where that is not known."""
        running = self.status == RUNNING and self.ready and self.rate
        return int(1000 * self.ready / self.rate) + 1000 if running else None

    @property
    def status_text(self) -> str:
        """Return the status in words."""
        if self.status == RUNNING and not self.ready:
            return "Waiting for answers"
        return STATUSES[self.status]

    @property
    def lines(self) -> list[tuple[str, str, int]]:
        """Return each outcome that there is, in words, with how many have it.

        The numbers add up to `matched`.
        """
        return [(o, self.outcome_text(o), self.counts[o]) for o in OUTCOMES if self.counts.get(o)]

    def outcome_text(self, outcome: str) -> str:
        """Return an outcome in words."""
        return UNANSWERED if outcome == SENT and self.ended_at else OUTCOMES[outcome]

    def _count(self, outcomes: Iterable[str]) -> int:
        return sum(self.counts.get(outcome, 0) for outcome in outcomes)

    # ---- pins of colleagues among its assets ----
    # Named at the review, left unless requested.

    def pins(self, name: str) -> Pins:
        """Return the pins of others than this user that the run would end."""
        items = self.items.ready().pinned_by_others(name)
        by = list(
            items.values_list("pinned_by").annotate(n=Count("pk")).order_by("-n", "pinned_by")
        )
        listed = list(items.order_by("number")[:LISTED_PINS])
        return Pins(sum(n for _, n in by), by, listed)

    def leave_pins(self, name: str) -> int:
        """Leave the pins of others than this user as they are. Returns how many."""
        why = Left(Concat(Value("pinned by "), F("pinned_by")), 200)
        return self.items.ready().pinned_by_others(name).update(outcome=SKIPPED, text=why)

    def leave_new_pins(self, name: str) -> int:
        """Leave what others than this user have pinned since the review, as nobody confirmed that.
        Returns how many.

        Where commands carry the version of the review, the job refuses these anyway.
        """
        if self.unchanged or self.kind not in ENDS_PINS:
            return 0
        rows = AssetState.objects.filter(scenario=self.scenario, asset=OuterRef("asset"))
        newer = rows.filter(overridden=True, override_since__gt=self.created_at)
        newer = newer.exclude(override_user=name)
        return self.items.ready().filter(Exists(newer)).update(outcome=SKIPPED, text=PINNED_SINCE)

    # ---- what comes of it ----

    @property
    def took_ms(self) -> int:
        """Return the time from start to end of an ended run, ms."""
        return (self.ended_at or 0) - (self.started_at or 0)

    def purge_returns(self) -> PurgeReturns:
        """Return what of the assets that the run would purge is back, by when."""
        ready = self.items.ready()
        counts = Counter(dict(ready.values_list("returns").annotate(n=Count("pk")).order_by()))
        known_ages = ready.filter(returns=RETURNS).values_list("age", flat=True).order_by()
        ages = sorted(age for age in known_ages if age is not None)
        half = ages[len(ages) // 2] if ages else None
        most = ages[len(ages) * 98 // 100] if ages else None
        return PurgeReturns(counts[RETURNS], counts[MAY_RETURN], counts[STAYS], half, most)

    def moved_on(self) -> int:
        """Return how many assets have another state than the review saw, or are gone: the job will
        refuse the commands to these, as they name the version that they are about."""
        changed = AssetState.objects.filter(
            Q(purged=True) | ~Q(state=OuterRef("was")),
            scenario=self.scenario,
            asset=OuterRef("asset"),
            version__gt=OuterRef("version"),
        )
        return self.items.ready().filter(Exists(changed)).count()

    def renewal_fault(self, now: int) -> str:
        """Return why it cannot be reviewed again at `now` (Unix ms) for what was refused as its
        state had moved on; empty where it can."""
        times = (self.until, self.schedule.get("at"))
        passed = [at for at in times if at is not None and at <= now]
        if passed:
            return f"Its time, {utc(passed[0])}, has passed: choose these by name, with a new one."
        refused = self.items.refused_as_moved_on()
        return "" if refused.exists() else "None was refused because its state had changed."

    def renewal(self, user: User, now: int, *, unchanged: bool) -> Run:
        """Return a run with the same command and reason for what was refused as its state had moved
        on, not saved yet.

        unchanged: whether it, too, is to be refused where the state is not that of its review any
        more.
        """
        n = self.items.refused_as_moved_on().count()
        return Run(
            scenario=self.scenario,
            kind=self.kind,
            state=self.state,
            until=self.until,
            reason=self.reason,
            schedule=self.schedule,
            unchanged=unchanged,
            chosen=f"{n:,} refused before, because their state had changed",
            user=user,
            username=user.get_username(),
            created_at=now,
        )


class ItemQuerySet(models.QuerySet["Item"]):
    """Assets of runs."""

    def ready(self) -> ItemQuerySet:
        """Return those to be sent."""
        return self.filter(outcome=READY)

    def unsent(self) -> ItemQuerySet:
        """Return the items to be sent, and those not stored as sent."""
        return self.filter(outcome__in=UNSENT_YET)

    def waiting(self) -> ItemQuerySet:
        """Return those that may have been sent and have no answer."""
        return self.filter(outcome__in=WAITING)

    def refused_as_moved_on(self) -> ItemQuerySet:
        """Return those for which the job refused the command as the state had moved on."""
        text = STATE_MOVED_ON.removeprefix(records.REFUSED)
        return self.filter(outcome=REFUSED, text=text).order_by("number")

    def pinned_by_others(self, name: str) -> ItemQuerySet:
        """Return those that others than this user had pinned at the review."""
        return self.exclude(pinned_by="").exclude(pinned_by=name)

    def counts(self) -> dict[str, int]:
        """Return how many have each outcome; of one run, read from the index alone."""
        return dict(self.values_list("outcome").annotate(n=Count("pk")).order_by())

    def reasons(self, outcome: str) -> list[tuple[str, int]]:
        """Return why assets were left out or refused, the commonest first."""
        groups = self.filter(outcome=outcome).values_list("text").annotate(n=Count("pk"))
        return list(groups.order_by("-n", "text")[:MOST_REASONS])


class Item(models.Model):
    """One asset of a run. number: its place; was: its state at the review ("": not on the board).

    version: of the review, sortable; returns: whether it would be back after a purge, and age: how
    old its newest report was, ms; pinned_by: who had pinned it at the review, and pin: how, as
    JSON; command: the id of its command, made of run and asset; text: why it was left out or
    refused; partition and offset: the command's place in the log.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="items")
    number = models.IntegerField()
    asset = models.CharField(max_length=255)
    outcome = models.CharField(max_length=10, default=READY)
    text = models.CharField(max_length=200, blank=True)
    was = models.CharField(max_length=64, blank=True)
    version = models.CharField(max_length=40, blank=True)
    returns = models.SmallIntegerField(default=STAYS)
    age = models.BigIntegerField(null=True)
    pinned_by = models.CharField(max_length=255, blank=True, default="")
    pin = models.TextField(blank=True, default="")
    command = models.CharField(max_length=36)
    partition = models.IntegerField(null=True)
    offset = models.BigIntegerField(null=True)
    answered_version = models.CharField(max_length=40, blank=True)
    answered_at = models.BigIntegerField(null=True)

    objects = ItemQuerySet.as_manager()

    class Meta:
        constraints = (UniqueConstraint(fields=["run", "number"], name="one_bulk_item_per_number"),)
        indexes = (
            Index(fields=["run", "outcome", "number"], name="bulk_outcomes"),
            Index(fields=["asset"], name="bulk_asset"),
        )

    def __str__(self) -> str:
        return f"{self.asset}: {self.outcome}"

    @property
    def pinned(self) -> Pin | None:
        """Return how the asset was pinned at the review."""
        return _PIN.decode(self.pin) if self.pin else None


# ---- bulk ----------------------------------------------------------------------------------------
# The time for which runs are kept, and how many.

KEPT_MS = 90 * DAY_MS
REVIEW_KEPT_MS = DAY_MS
MOST_RUNS = 1_000
MOST_ITEMS = 3_000_000
# Most reviews of one user that wait to be confirmed: the newest.
MOST_REVIEWS = 5


def _delete_surplus_items(_now: int) -> int:
    """Delete the oldest ended runs until all have few enough assets. Returns how many runs."""
    surplus = []
    total = Run.objects.aggregate(n=Sum("matched"))["n"] or 0
    ended = Run.objects.exclude(ended_at=None).order_by("created_at", "pk")
    for pk, matched in ended.values_list("pk", "matched"):
        if total <= MOST_ITEMS:
            break
        surplus.append(pk)
        total -= matched
    return Run.objects.filter(pk__in=surplus).delete_with_items()


KEPT = (
    Retention(
        "runs of many commands", Run, "created_at", KEPT_MS, delete=RunQuerySet.delete_with_items
    ),
    Retention(
        "reviews that nobody confirmed",
        Run,
        "created_at",
        REVIEW_KEPT_MS,
        condition=Q(status=REVIEW),
        delete=RunQuerySet.delete_with_items,
    ),
    Retention(
        "bulk runs that have ended",
        Run,
        "created_at",
        at_most=MOST_RUNS,
        condition=Q(ended_at__isnull=False),
        delete=RunQuerySet.delete_with_items,
    ),
    Thinning("assets of runs", _delete_surplus_items, at_most=MOST_ITEMS),
)
