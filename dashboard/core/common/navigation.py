"""Navigation: the menu, short URLs, the glossary, and the parts of URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard.core.common.access import (
    ADMINS,
    OPERATORS,
    Role,
    is_fragment,
    role_of,
    role_required,
)
from dashboard.core.common.extension_point import Provider

# ---- navigation ----------------------------------------------------------------------------------
# The console's pages, as the menu of every page lists them and the command palette finds them.

EVERYBODY = frozenset(Role)


def _always() -> bool:
    return True


def _mail_is_caught() -> bool:
    return bool(settings.TALLYBOARD.catches_mail)


def _stores_run() -> bool:
    return bool(settings.TALLYBOARD.asks_stores)


def _invoices_run() -> bool:
    return bool(settings.TALLYBOARD.runs("invoices"))


def _views_run() -> bool:
    """Return whether somebody has declared views, or a pipeline fills one of the examples."""
    given = settings.TALLYBOARD
    return given.views is not None or given.runs("product-counts") or given.runs("loyalty")


class MenuEntry(NamedTuple):
    """A page: its URL name, its title, what it answers, and who may open it.

    offered: returns whether this copy of the product has it. menu: the roles whose menu lists it.
    tabs: the pages that share its place in the menu; place: what the menu calls all of them, its
    title where empty.
    """

    view: str
    title: str
    hint: str
    roles: frozenset[Role] = EVERYBODY
    offered: Callable[[], bool] = _always
    menu: frozenset[Role] = EVERYBODY
    place: str = ""
    tabs: tuple[MenuEntry, ...] = ()

    @property
    def pages(self) -> tuple[MenuEntry, ...]:
        """Return its own page and its tabs."""
        return (self, *self.tabs)

    @property
    def menu_title(self) -> str:
        """Return what the menu calls it."""
        return self.place or self.title

    @property
    def views(self) -> set[str]:
        """Return the URL names of its pages."""
        return {page.view for page in self.pages}

    def is_open_to(self, role: Role | None) -> bool:
        """Return whether the role may open the page, and the page is there."""
        return role in self.roles and self.offered()


# By room, in the menu's order: a page is in the group named after its room.
GROUPS: dict[str, tuple[MenuEntry, ...]] = {
    "Board": (
        MenuEntry(
            "board:events", "Events", "what changed, and when", menu=OPERATORS,
            tabs=(MenuEntry("board:as-of", "As of", "a past moment, and how it differs from now"),),
        ),
        MenuEntry("board:wall", "Wall", "all boards on one screen", menu=OPERATORS),
        MenuEntry(
            "board:overrides", "Overrides", "who pinned what, until when", menu=OPERATORS,
            place="What is set",
            tabs=(MenuEntry("schedules:schedules", "Schedules", "what will run, and whose it is"),),
        ),
        MenuEntry("handover:handover", "Handover", "what the next shift needs to know", OPERATORS),
    ),
    "Watch": (
        MenuEntry(
            "incidents:incidents", "Incidents", "what is worked on, by whom",
            tabs=(
                MenuEntry("incidents:by-asset", "By asset", "each asset's bad times"),
                MenuEntry("incidents:groups", "By label", "the bad times of a customer, a tier"),
            ),
        ),
        MenuEntry(
            "agents:agents", "Agents", "who reports, who is silent or muted", OPERATORS,
            tabs=(
                MenuEntry("bulk:stale", "Not reporting", "assets without reports", OPERATORS),
            ),
        ),
        MenuEntry("maintenance:windows", "Maintenance", "what is worked on, and when"),
        MenuEntry("bulk:bulk", "Bulk", "one command for many assets", menu=OPERATORS),
        MenuEntry("labels:labels", "Labels", "customer, tier, owner of assets", menu=OPERATORS),
    ),
    "Notify": (
        MenuEntry(
            "summaries:summary", "Summary", "how a week, a month or a year went",
            tabs=(
                MenuEntry("summaries:settings", "Targets", "what it is measured by", ADMINS),
                MenuEntry("status:pages", "Status pages", "what customers may see", ADMINS),
            ),
        ),
        MenuEntry(
            "notifications:messages", "Messages", "what was sent, held, and why", OPERATORS,
            place="Notifications",
            tabs=(
                MenuEntry("notifications:rules", "Rules", "who is notified of what", OPERATORS),
                MenuEntry("notifications:rotas", "On call", "whose turn it is", OPERATORS),
                MenuEntry("notifications:channels", "Channels", "mail, webhooks, chats", ADMINS),
                MenuEntry(
                    "mail_catcher:mails", "Caught mail", "what would have been sent", OPERATORS,
                    _mail_is_caught,
                ),
            ),
        ),
    ),
    "Retail": (
        MenuEntry(
            "orders:where", "Find an order", "each store asked for an order", EVERYBODY,
            _stores_run, OPERATORS,
        ),
        MenuEntry(
            "invoices:invoices", "Invoices", "what the stores have sold today", EVERYBODY,
            _invoices_run, OPERATORS,
        ),
        MenuEntry(
            "topic_views:views", "Topics", "topics as tables, by key", OPERATORS, _views_run,
        ),
    ),
    "Operate": (
        MenuEntry(
            "rules:scenarios", "Scenarios", "which rule applies where", OPERATORS,
            tabs=(
                MenuEntry("what_if:trials", "What if", "the past under another rule", OPERATORS),
            ),
        ),
        MenuEntry(
            "console:job", "Job", "how Spark's queries run", OPERATORS, place="Engine",
            tabs=(
                MenuEntry("console:partitions", "Partitions", "how far each has got", OPERATORS),
                MenuEntry("state_store:readings", "State store", "what Spark committed", ADMINS),
                MenuEntry("dead_letters:letters", "Dead letters", "refused records", ADMINS),
                MenuEntry("replays:replay", "Replay", "rebuild states from the log", ADMINS),
            ),
        ),
        MenuEntry(
            "users:users", "Users", "who may log in, and as what", ADMINS,
            tabs=(
                MenuEntry("users:roles", "Roles", "what each role may do", ADMINS),
                MenuEntry("accounts:all-tokens", "API tokens", "what programs may do", ADMINS),
            ),
        ),
        MenuEntry("retention:retention", "Retention", "how long everything is kept", ADMINS),
        MenuEntry("audit:entries", "Audit", "who did what", ADMINS),
    ),
}  # fmt: skip
HOME = "summaries:summary"
open_incidents: Provider[[], int] = Provider(lambda: 0)
"""Returns how many incidents the bar counts; provided by `incidents`."""
first_board: Provider[[User], str] = Provider(lambda _user: "")
"""Returns the address of the board that a user begins with, "" where none is chosen; provided by
`filters`."""
BAR = ("incidents:incidents", "handover:handover", HOME)
"""What stands in the bar itself, after the boards."""
FIRST: dict[Role, str] = {Role.MANAGER: HOME}
"""What stands before the boards, by role."""


OFTEN: dict[Role, tuple[str, ...]] = {
    Role.OPERATOR: (
        "incidents:incidents", "handover:handover", "board:events", "agents:agents",
        "board:overrides", "maintenance:windows",
    ),
    Role.ADMIN: (
        "incidents:incidents", "console:job", "rules:scenarios", "dead_letters:letters",
        "users:users", "audit:entries",
    ),
    Role.MANAGER: (HOME, "incidents:incidents", "maintenance:windows", "board:events"),
}  # fmt: skip
"""What a role opens most, besides the boards: the palette offers it before anything is typed."""


def entries() -> list[MenuEntry]:
    """Return every entry of the menu."""
    return list(chain.from_iterable(GROUPS.values()))


def every_page() -> list[MenuEntry]:
    """Return every entry's page and tabs."""
    return [page for entry in entries() for page in entry.pages]


class MenuBar(NamedTuple):
    """A role's bar: what stands before and after the boards, and what is behind *More*."""

    before: list[MenuEntry]
    after: list[MenuEntry]
    more: list[tuple[str, list[MenuEntry]]]


def bar_of(role: Role | None) -> MenuBar:
    """Return the role's bar, without empty groups."""
    first = FIRST.get(role, "") if role else ""
    bar = [place for place in _listed(entries(), role) if place.view in BAR]
    bar.sort(key=lambda place: BAR.index(place.view))
    groups = ((title, _listed(group, role)) for title, group in GROUPS.items())
    rest = ((title, [each for each in own if each.view not in BAR]) for title, own in groups)
    return MenuBar(
        [place for place in bar if place.view == first],
        [place for place in bar if place.view != first],
        [(title, own) for title, own in rest if own],
    )


def _listed(group: Iterable[MenuEntry], role: Role | None) -> list[MenuEntry]:
    return [entry for entry in group if role in entry.menu and entry.is_open_to(role)]


def place_of(path: str) -> tuple[MenuEntry, MenuEntry] | None:
    """Return the entry and the tab that a path belongs to: whose address begins it, the longest."""
    begun = [
        (len(address), entry, page)
        for entry in entries()
        for page in entry.pages
        if path.startswith(address := reverse(page.view))
    ]
    return max(begun, key=lambda each: each[0])[1:] if begun else None


# ---- short addresses -----------------------------------------------------------------------------
# Short URLs that people type: each leads to the first page of a group that the role may open.


def _places(name: str) -> list[MenuEntry]:
    """Return the pages of a short URL, first choice first."""
    match name:
        case "mail":
            return sorted(_messages(), key=lambda place: place.view != "mail_catcher:mails")
        case "notifications":
            return _messages()
        case "retention":
            return [place for place in entries() if place.view == "retention:retention"]
        case _:
            return sorted(entries(), key=lambda place: place.view != HOME)


def _messages() -> list[MenuEntry]:
    """Return the pages of messages and of what sends them."""
    [entry] = (each for each in entries() if each.view == "notifications:messages")
    return list(entry.pages)


@require_safe
@role_required("read")
def first_page(request: HttpRequest, name: str) -> HttpResponse:
    """Redirect to the first of a short URL's pages that the role may open.

    If there is none, redirect to the first page, which says who may open it. name: the short URL's.
    """
    role, places = role_of(request.user), [each for each in _places(name) if each.offered()]
    mine = [place for place in places if place.is_open_to(role)]
    return redirect((mine or places)[0].view)


# ---- glossary ------------------------------------------------------------------------------------
# The glossary: the page that explains the product's own words; other pages link to it.


class Word(NamedTuple):
    """A word and its meaning. name: its anchor on the page."""

    name: str
    word: str
    meaning: str


# Grouped by where readers meet the words.
TERM_GROUPS: dict[str, tuple[Word, ...]] = {
    "On a board": (
        Word("asset", "Asset", "Something that is watched: a site, a network, an order, a client "
             "address."),
        Word("agent", "Agent", "A program that reports: a WAF proxy, a scrubber, a probe, a "
             "station."),
        Word("report", "Report", "One agent's claim about one asset's state."),
        Word("vote", "Vote", "An agent's latest report on an asset. It is live until it expires; "
             "then it is silent, and counts only against an all-clear."),
        Word("tally", "Tally", "The scenario's rule applied to the votes on an asset."),
        Word("raise", "Raise and lower", "A state is raised when it gets worse, and lowered when "
             "it gets better. Live votes alone raise a state. To lower it takes enough live votes "
             "that say better, and no agent that said worse may merely have fallen silent."),
        Word("hold", "Hold", "How long the votes must support a state before the asset enters "
             "it."),
        Word("pending", "Pending", "A state whose hold is running."),
        Word("pin", "Pin, or override", "A state that an operator has set, whatever is reported. "
             "Votes are still tallied underneath; that state shows again when the pin ends."),
        Word("unconfirmed", "Unconfirmed", "Too few agents vote, or no vote says that the state is "
             "this good or this bad. The mark says which."),
        Word("disputed", "Disputed", "An agent says worse than what is shown: by a vote, live or "
             "silent, by a flapping one, or in doubt."),
        Word("in-doubt", "In doubt", "An agent's clock is wrong, it contradicts itself, or its "
             "reports cannot be taken. What it says may raise an alarm, and gives no all-clear."),
        Word("to-and-fro", "Flapping agent", "An agent whose vote has turned worse twice within a "
             "vote's lifetime, and milder in between. For a lifetime that state disputes a "
             "milder one."),
        Word("mute", "Mute", "An agent's votes do not count for a time. They are kept and shown."),
        Word("acknowledged", "Acknowledged", "Somebody has said that they are working on it, for a "
             "limited time."),
        Word("purge", "Purge", "To take an asset off the board. The next report on it brings it "
             "back as new."),
        Word("reminder", "Reminder", "A record that is repeated while an asset stays in a state."),
        Word("life-cycle", "Life cycle", "A scenario whose states follow each other, such as the "
             "steps of an order. None is worse than another."),
    ),
    "In a summary": (
        Word("availability", "Availability", "The time in good states, divided by the time in good "
             "and bad states, added up over assets. Unconfirmed time and maintenance are in "
             "neither."),
        Word("error-budget", "Error budget", "The bad time that a target leaves: of 99.5 percent, "
             "half a percent of the good and bad time."),
        Word("not-observed", "Not observed", "A time before a scenario's first record, one in "
             "which the job sent no heartbeat, or one to come. It counts in no figure."),
        Word("incident", "Incident", "What people work on under one number: assets of a scenario "
             "that leave their good states together. A summary counts each asset's unbroken time "
             "outside its good states as one."),
        Word("flapping", "Flapping", "An incident that begins less than 15 minutes after the one "
             "before of the same asset has ended."),
        Word("false-alarm", "False alarm", "A time in which an asset was about to enter a worse "
             "state, and did not."),
        Word("service-hours", "Service hours", "The hours of a week in which a scenario's "
             "availability matters, in the reporting zone."),
    ),
    "In the job": (
        Word("log", "Log", "The records of a scenario's source topic in Kafka, in their order. "
             "The board is computed from them, and from nothing else."),
        Word("partition", "Partition", "A part of a log. All records of an asset are in the same "
             "one; a record is identified by its partition and offset."),
        Word("offset", "Offset", "A record's number in its partition."),
        Word("bucket", "Bucket", "All assets of one partition, which the job processes together. "
             "Each bucket has its state, its order of records and its clock."),
        Word("log-time", "Log time", "A bucket's clock: the newest time at which the broker "
             "appended one of the records it has applied. Expiries, holds and ends follow it, so a "
             "job that is behind delays them but never changes their outcome."),
        Word("tick", "Tick", "A record that the job appends to every partition, so that time "
             "passes where nobody reports."),
        Word("timer", "Timer", "An event that time will cause: an end, an expiry, a hold, a "
             "reminder, a purge."),
        Word("kernel", "Kernel", "The engine for rules of the built-in kinds, in Java inside "
             "Spark."),
        Word("engine", "Engine", "The part of the job that applies a scenario's rule: the kernel, "
             "or Python for a rule that is written in it. Both give the same states."),
        Word("epoch", "Epoch", "How many times a query has begun again from its log. Each rebuild "
             "raises it, so that new versions are higher than all before."),
        Word("version", "Version", "Epoch, offset and step of a state record: 3.3040.0. It rises "
             "with each record of an asset; of two records the higher version counts."),
        Word("checkpoint", "Checkpoint", "Spark's files of a query: the offsets that it has "
             "reached, and its state. It continues from there after a restart."),
        Word("trigger", "Trigger", "How Spark processes records: each as it comes (real-time), or "
             "many together (micro-batches)."),
        Word("dead-letter", "Dead letter", "A record that the job could not read, or refused."),
    ),
}  # fmt: skip

TERMS = {term.name: term for terms in TERM_GROUPS.values() for term in terms}


@require_safe
@role_required("read")
def glossary(request: HttpRequest) -> HttpResponse:
    """Return the page of all words and their meanings."""
    return render(request, "glossary.html", {"groups": TERM_GROUPS})


# ---- paths ---------------------------------------------------------------------------------------
# Names of assets and agents in URL paths, whatever characters they contain.


class AssetConverter:
    """An asset's name at the end of a path: any characters, including slashes."""

    regex = r".+"

    def to_python(self, value: str) -> str:
        """Return the name as the server decoded it."""
        return value

    def to_url(self, value: str) -> str:
        """Return the name; Django percent-encodes what it must, and leaves slashes."""
        return value


def agent_path(scenario: str, agent: str) -> str:
    """Return the path of an agent's page.

    A slash in the name is encoded, so that no browser shortens the path.
    """
    return f"/agents/{quote(scenario, safe='')}/{quote(agent, safe='')}/"


# ---- pages ---------------------------------------------------------------------------------------
# Pages that refresh a part of themselves.


def render_page(
    request: HttpRequest, page: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """Return a page; scripts get only the part that refreshes.

    page: such as `board/events`, whose part is `board/_events.html`.
    """
    folder, _, name = page.rpartition("/")
    template = f"{folder}/_{name}.html" if is_fragment(request) else f"{page}.html"
    return render(request, template, dict(context), status=status)
