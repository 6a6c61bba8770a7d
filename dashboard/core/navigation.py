"""The console's pages: what the menu of every page lists, and the command palette finds."""

from __future__ import annotations

from typing import NamedTuple

from dashboard.core.roles import Role

EVERYBODY = frozenset(Role)
ADMINS = frozenset((Role.ADMIN,))


class Place(NamedTuple):
    """A page: the name of its address, its title, what it answers, and who may open it."""

    view: str
    title: str
    hint: str
    roles: frozenset[Role] = EVERYBODY


GROUPS: dict[str, tuple[Place, ...]] = {
    "Watch": (
        Place("board:events", "Events", "every change of a state"),
        Place("board:as-of", "As of", "a past moment, and what differs from now"),
        Place("board:overrides", "Overrides", "who pinned what, until when"),
        Place("agents:agents", "Agents", "who reports, and whose votes count nothing"),
        Place("glossary", "Glossary", "what the words mean"),
    ),
    "Work": (
        Place("filters:kept", "Filters", "saved, and shared by others"),
        Place("labels:labels", "Labels", "customer, tier, owner of assets"),
        Place("handover:handover", "Handover", "what who begins a shift has to know"),
        Place("bulk:bulk", "Bulk", "one command for many assets"),
        Place("bulk:stale", "Stale", "assets that nobody reports on"),
    ),
    "Job": (
        Place("console:job", "Job", "how Spark's queries fare"),
        Place("rules:scenarios", "Scenarios", "which rule holds where, and who changed it"),
        Place("console:partitions", "Partitions", "who owns what, and how far behind"),
        Place("what_if:trials", "What if", "what another rule would have made"),
        Place("state_store:readings", "State store", "what Spark has committed", ADMINS),
        Place("replays:replay", "Replay", "have the log read again", ADMINS),
        Place("dead_letters:letters", "Dead letters", "records that were refused", ADMINS),
    ),
    "Administer": (
        Place("accounts:users", "Users", "who may log in, and as what", ADMINS),
        Place("accounts:all-tokens", "API tokens of all", "what programs may do", ADMINS),
        Place("audit:entries", "Audit", "who did what", ADMINS),
    ),
}
"""By group, in the menu's order."""


def places(role: Role | None) -> list[tuple[str, list[Place]]]:
    """The pages that `role` may open, by group; a group without any is left out."""
    mine = (
        (title, [place for place in group if role in place.roles])
        for title, group in GROUPS.items()
    )
    return [(title, found) for title, found in mine if found]
