"""Navigation: the menu, short URLs, the glossary, and the parts of URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.core.common.access import (
    ADMINS,
    OPERATORS,
    Role,
    is_fragment,
    role_of,
    role_required,
)

# ---- navigation ----------------------------------------------------------------------------------
# The console's pages, as the menu of every page lists them and the command palette finds them.

EVERYBODY = frozenset(Role)


def _always() -> bool:
    return True


def _mail_is_caught() -> bool:
    return bool(settings.TALLYBOARD.catches_mail)


class MenuEntry(NamedTuple):
    """A page: its URL name, its title, what it answers, and who may open it.

    offered: returns whether this copy of the product has it.
    """

    view: str
    title: str
    hint: str
    roles: frozenset[Role] = EVERYBODY
    offered: Callable[[], bool] = _always


# By room, in the menu's order: a page is in the group named after its room.
GROUPS: dict[str, tuple[MenuEntry, ...]] = {
    "Board": (
        MenuEntry("board:events", "Events", "every change of a state"),
        MenuEntry("board:as-of", "As of", "a past moment, and how it differs from now"),
        MenuEntry("board:overrides", "Overrides", "who pinned what, until when"),
        MenuEntry("handover:handover", "Handover", "what the next shift needs to know", OPERATORS),
        MenuEntry("glossary", "Glossary", "what the words mean"),
    ),
    "Watch": (
        MenuEntry("incidents:incidents", "Incidents", "each time that an asset was in trouble"),
        MenuEntry("agents:agents", "Agents", "who reports, and who is muted", OPERATORS),
        MenuEntry("filters:kept", "Saved filters", "your own, and shared by others"),
        MenuEntry("labels:labels", "Labels", "customer, tier, owner of assets"),
        MenuEntry("maintenance:windows", "Maintenance", "what is worked on, and when"),
        MenuEntry("schedules:schedules", "Schedules", "tasks that the job runs, and their owners"),
        MenuEntry("bulk:bulk", "Bulk", "one command for many assets"),
        MenuEntry("bulk:stale", "Not reporting", "assets that nobody reports on", OPERATORS),
    ),
    "Notify": (
        MenuEntry("summaries:summary", "Summary", "how a week, a month or a year went"),
        MenuEntry("summaries:settings", "Targets", "what summaries are measured by", ADMINS),
        MenuEntry("notifications:messages", "Messages", "what was sent, held, and why", OPERATORS),
        MenuEntry("notifications:rules", "Rules", "who is told of which incidents", OPERATORS),
        MenuEntry("notifications:rotas", "Rotas", "who is on call", OPERATORS),
        MenuEntry("notifications:channels", "Channels", "mail, webhooks, chats", ADMINS),
        MenuEntry(
            "mail_catcher:mails",
            "Caught mail",
            "what would have been sent",
            OPERATORS,
            _mail_is_caught,
        ),
    ),
    "Retail": (
        MenuEntry("orders:where", "Find an order", "each store asked for an order"),
        MenuEntry("invoices:invoices", "Invoices", "what the stores have sold today"),
    ),
    "Operate": (
        MenuEntry("console:job", "Job", "how Spark's queries fare", OPERATORS),
        MenuEntry("rules:scenarios", "Scenarios", "which rule applies where", OPERATORS),
        MenuEntry("console:partitions", "Partitions", "who owns what, how far behind", OPERATORS),
        MenuEntry("topic_views:views", "Topics", "topics as tables, by key", OPERATORS),
        MenuEntry("what_if:trials", "What if", "the last hours under another rule", OPERATORS),
        MenuEntry("state_store:readings", "State store", "what Spark has committed", ADMINS),
        MenuEntry("replays:replay", "Replay", "have the log read again", ADMINS),
        MenuEntry("dead_letters:letters", "Dead letters", "records that were refused", ADMINS),
        MenuEntry("users:users", "Users", "who may log in, and as what", ADMINS),
        MenuEntry("accounts:all-tokens", "API tokens", "what programs may do", ADMINS),
        MenuEntry("retention:retention", "Retention", "how long everything is kept", ADMINS),
        MenuEntry("audit:entries", "Audit", "who did what", ADMINS),
    ),
}
HOME = "summaries:summary"


def places(role: Role | None) -> list[tuple[str, list[MenuEntry]]]:
    """Return the pages that `role` may open, by group, without empty groups."""
    mine = (
        (title, [place for place in group if role in place.roles and place.offered()])
        for title, group in GROUPS.items()
    )
    return [(title, found) for title, found in mine if found]


# ---- short addresses -----------------------------------------------------------------------------
# Short URLs that people type: each leads to the first page of a group that the role may open.


def _every() -> list[MenuEntry]:
    return list(chain.from_iterable(GROUPS.values()))


def _places(name: str) -> list[MenuEntry]:
    """Return the pages of a short URL, first choice first."""
    match name:
        case "mail":
            return sorted(_messages(), key=lambda place: place.view != "mail_catcher:mails")
        case "notifications":
            return _messages()
        case "retention":
            return [place for place in _every() if place.view == "retention:retention"]
        case _:
            return sorted(_every(), key=lambda place: place.view != HOME)


def _messages() -> list[MenuEntry]:
    """Return the pages of messages and of what sends them."""
    return [place for place in GROUPS["Notify"] if not place.view.startswith("summaries:")]


@require_safe
@role_required("read")
def first_page(request: HttpRequest, name: str) -> HttpResponse:
    """Redirect to the first of a short URL's pages that the role may open.

    If there is none, redirect to the first page, which says who may open it. name: the short URL's.
    """
    places = [place for place in _places(name) if place.offered()]
    mine = [place for place in places if role_of(request.user) in place.roles]
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
             "silent, by one that goes to and fro, or in doubt."),
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
             "which nothing was heard of the job, or one to come. It counts in no figure."),
        Word("incident", "Incident", "The unbroken time that an asset spends outside "
             "its good states."),
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
