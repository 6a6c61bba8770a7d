"""The console's pages: what the menu of every page lists, and the command palette finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.conf import settings

from dashboard.core.roles import OPERATORS, Role

EVERYBODY = frozenset(Role)
ADMINS = frozenset((Role.ADMIN,))


def _always() -> bool:
    return True


def _mail_is_caught() -> bool:
    return bool(settings.TALLYBOARD.catches_mail)


class Place(NamedTuple):
    """A page: the name of its address, its title, what it answers, and who may open it.

    offered: returns whether this copy of the product has it.
    """

    view: str
    title: str
    hint: str
    roles: frozenset[Role] = EVERYBODY
    offered: Callable[[], bool] = _always


# By group, in the menu's order.
GROUPS: dict[str, tuple[Place, ...]] = {
    "Manage": (
        Place("summaries:summary", "Summary", "how a week, a month or a year went"),
        Place("summaries:settings", "Targets", "what summaries are measured by", ADMINS),
    ),
    "Watch": (
        Place("board:events", "Events", "every change of a state"),
        Place("incidents:incidents", "Incidents", "each time that an asset was in trouble"),
        Place("board:as-of", "As of", "a past moment, and how it differs from now"),
        Place("board:overrides", "Overrides", "who pinned what, until when"),
        Place("agents:agents", "Agents", "who reports, and who is muted", OPERATORS),
        Place("orders:where", "Find an order", "each store asked for an order"),
        Place("invoices:invoices", "Invoices", "what the stores have sold today"),
        Place("glossary", "Glossary", "what the words mean"),
    ),
    "Work": (
        Place("filters:kept", "Saved filters", "your own, and shared by others"),
        Place("labels:labels", "Labels", "customer, tier, owner of assets"),
        Place("handover:handover", "Handover", "what the next shift needs to know", OPERATORS),
        Place("maintenance:windows", "Maintenance", "what is worked on, and when"),
        Place("schedules:schedules", "Schedules", "tasks that the job will run, and who owns them"),
        Place("bulk:bulk", "Bulk", "one command for many assets"),
        Place("bulk:stale", "Not reporting", "assets that nobody reports on", OPERATORS),
    ),
    "Notify": (
        Place("notifications:messages", "Messages", "what was sent, held, and why", OPERATORS),
        Place("notifications:rules", "Rules", "who is told of which incidents", OPERATORS),
        Place("notifications:rotas", "Rotas", "who is on call", OPERATORS),
        Place("notifications:channels", "Channels", "mail, webhooks, chats", ADMINS),
        Place(
            "mail_catcher:mails",
            "Caught mail",
            "what would have been sent",
            OPERATORS,
            _mail_is_caught,
        ),
    ),
    "Engine": (
        Place("console:job", "Job", "how Spark's queries fare", OPERATORS),
        Place(
            "rules:scenarios",
            "Scenarios",
            "which rule applies where, and who changed it",
            OPERATORS,
        ),
        Place("console:partitions", "Partitions", "who owns what, and how far behind", OPERATORS),
        Place("topic_views:views", "Topics", "topics as tables, by key", OPERATORS),
        Place("what_if:trials", "What if", "the last hours under another rule", OPERATORS),
        Place("state_store:readings", "State store", "what Spark has committed", ADMINS),
        Place("replays:replay", "Replay", "have the log read again", ADMINS),
        Place("dead_letters:letters", "Dead letters", "records that were refused", ADMINS),
    ),
    "Administer": (
        Place("users:users", "Users", "who may log in, and as what", ADMINS),
        Place("accounts:all-tokens", "API tokens", "what programs may do", ADMINS),
        Place("retention:retention", "Retention", "how long everything is kept", ADMINS),
        Place("audit:entries", "Audit", "who did what", ADMINS),
    ),
}


def places(role: Role | None) -> list[tuple[str, list[Place]]]:
    """Return the pages that `role` may open, by group; a group without any is left out."""
    mine = (
        (title, [place for place in group if role in place.roles and place.offered()])
        for title, group in GROUPS.items()
    )
    return [(title, found) for title, found in mine if found]
