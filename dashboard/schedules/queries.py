"""The list of scheduled tasks: filtered, the next run first."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import F, Q, QuerySet

from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import exact_span
from dashboard.schedules.messages import messages_url
from dashboard.schedules.models import ENDINGS, ScheduledTask
from dashboard.states.board_rows import asset_path
from domain.scenario import Scenario

ACTIONS = {
    "emit": "Write its state to Kafka again",
    "notify": "Notify",
    "set": "Set",
    "release": "Release",
    "purge": "Purge",
}
"""What a task does, as pages name it."""
WAITING, ASIDE, OVER = "waiting", "aside", "over"
STATUSES = {
    WAITING: Q(ended_at=None, aside=""),
    ASIDE: Q(ended_at=None) & ~Q(aside=""),
    OVER: Q(ended_at__isnull=False),
}
STATUS_TITLES = {WAITING: "Waiting", ASIDE: "Set aside", OVER: "Over"}


class Wanted(NamedTuple):
    """A filter of tasks. q: a part of the asset's name; do: an action; owner: a name; status: of
    STATUSES, empty for those that are not over."""

    scenario: str = ""
    q: str = ""
    do: str = ""
    owner: str = ""
    status: str = ""

    def rows(self) -> QuerySet[ScheduledTask]:
        """Return the tasks that pass, the next run first."""
        conditions = {
            "scenario": self.scenario,
            "asset__icontains": self.q,
            "do": self.do,
            "owner": self.owner,
        }
        given = {name: value for name, value in conditions.items() if value}
        rows = ScheduledTask.objects.filter(scenario__in=scenarios()).filter(**given)
        rows = rows.filter(STATUSES[self.status] if self.status else Q(ended_at=None))
        return rows.order_by(F("next_at").asc(nulls_last=True), "-ended_at", "pk")


def set_aside() -> int:
    """Return how many tasks of all scenarios are set aside."""
    return Wanted(status=ASIDE).rows().count()


class Entry(NamedTuple):
    """A task as pages show it."""

    row: ScheduledTask
    scenario: Scenario

    @property
    def action(self) -> str:
        """What it does, in words; the state of a `set` is shown beside it."""
        return ACTIONS.get(self.row.do, self.row.do)

    @property
    def rhythm(self) -> str:
        """How often it runs, and how often at most from now on, in words."""
        row = self.row
        if row.every is None:
            return "once"
        most = "" if row.times is None else f", {row.times:,} more"
        return f"every {exact_span(row.every)}{most}"

    @property
    def ended(self) -> str:
        """How it ended, in words; empty while it has not."""
        return ENDINGS.get(self.row.ending, "")

    @property
    def asset_url(self) -> str:
        """The address of the asset's page."""
        return asset_path(self.row.scenario, self.row.asset)

    @property
    def messages_url(self) -> str:
        """The address of the messages about it; empty where it has not notified yet."""
        notified = self.row.do == "notify" and self.row.ran_at is not None
        return messages_url(self.row) if notified else ""


def entry_of(row: ScheduledTask) -> Entry:
    """Return a task as pages show it."""
    return Entry(row, scenarios()[row.scenario])


FIELDS = (
    "scenario", "asset", "do", "state", "every", "until", "times", "owner", "reason", "outcome",
    "ran_at", "aside", "ended_at",
)  # fmt: skip


def plain(row: ScheduledTask) -> dict[str, Any]:
    """Return a task as the API gives it."""
    own = {name: getattr(row, name) for name in FIELDS}
    texts = {name: own[name] or None for name in ("state", "outcome", "aside")}
    named = {"id": str(row.task), "if": row.condition or None, "next": row.next_at}
    return own | texts | named | {"ending": row.ending or None}


TASKS = Table(
    "schedules",
    "Asset",
    "Scenario",
    "Does",
    Column.text("If", "only if the asset is in this state then"),
    Column.time("Next run"),
    "How often",
    "Owner",
    Column.text("Last outcome"),
    "Status",
    Column.unseen("Cancel"),
)
