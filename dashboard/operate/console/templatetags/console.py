"""What the pages of the console share: figures as text, and marks of the job."""

from __future__ import annotations

from typing import Literal, NamedTuple

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.core.common.access import Role
from dashboard.core.common.navigation import (
    FIRST,
    OFTEN,
    MenuBar,
    MenuEntry,
    bar_of,
    every_page,
    place_of,
)
from dashboard.core.common.times import duration, span
from dashboard.core.job.liveness import Sign, Trend
from dashboard.core.states.templatetags.board import icon, mark

# ---- console -------------------------------------------------------------------------------------
# What the pages of the console share: figures as text, and what stands out as marks.

register = template.Library()

NOTHING = "–"
"""What is shown where something is not known."""

SIGNS: dict[Sign, tuple[str, str, str]] = {
    "unknown": ("question", "grey", "no heartbeat has come from here yet"),
    "silent": ("off", "red", "no heartbeat for five seconds or more"),
    "ahead": ("warning", "red", "its clock is ahead of the job's own: no time passes until then"),
    "behind": ("warning", "amber", "its clock is ten seconds or more behind"),
    "hot": ("flame", "orange", "twice its even share of the scenario's load, or more"),
    "idle": ("ring", "grey", "nothing but ticks in the last minute"),
    "well": ("check", "green", "nothing unusual"),
}
"""By sign: its icon, its colour and what it means."""

TRENDS: dict[Trend, tuple[str, str]] = {
    "rising": ("arrow-up", "red"),
    "falling": ("arrow-down", "green"),
}


@register.simple_tag
def bar(role: Role | None) -> MenuBar:
    """Return what the bar of a page offers `role`."""
    return bar_of(role)


@register.simple_tag(takes_context=True)
def menu_entry(context: Context) -> MenuEntry | None:
    """Return the entry that the page is of, None where the menu has none."""
    place = place_of(context["request"].path)
    return place[0] if place else None


class PageTab(NamedTuple):
    """A page as a tab of the page that is shown. current: as in `aria-current`, else empty."""

    page: MenuEntry
    current: str


class PageTabs(NamedTuple):
    """The pages that share a place in the menu, as far as the reader may open them."""

    title: str
    tabs: list[PageTab]


@register.simple_tag(takes_context=True)
def page_tabs(context: Context) -> PageTabs | None:
    """Return the tabs of the page that is shown, None where it stands alone."""
    path, role = context["request"].path, context.get("role")
    place = place_of(path)
    if place is None:
        return None
    entry, own = place
    open_to = [page for page in entry.pages if page.is_open_to(role)]
    if own not in open_to or len(open_to) == 1:
        return None
    here = "page" if path == reverse(own.view) else "true"
    tabs = [PageTab(page, here if page == own else "") for page in open_to]
    return PageTabs(entry.menu_title, tabs)


class PalettePage(NamedTuple):
    """A page that the palette finds. often: its place among those that the role opens most, where
    the boards are 1; None for others."""

    page: MenuEntry
    often: int | None


@register.simple_tag
def palette_pages(role: Role | None) -> list[PalettePage]:
    """Return every page of the menu and its tabs that `role` may open."""
    if role is None:
        return []
    often = {view: n for n, view in enumerate(OFTEN[role], 0 if role in FIRST else 2)}
    pages = (page for page in every_page() if page.is_open_to(role))
    return [PalettePage(page, often.get(page.view)) for page in pages]


Unknown = Literal[""] | None
"""What a template gives for a part of what is None."""


@register.filter
def figure(value: int | Unknown) -> str:
    """Return a whole number in groups of three digits: `12,345`."""
    return NOTHING if value is None or value == "" else f"{value:,}"


@register.filter
def rate(value: float | Unknown) -> str:
    """Return a number per second as text: `0.4`, `12.3`, `1,234`."""
    if value is None or value == "":
        return NOTHING
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


@register.filter
def lag(ms: int | None) -> str:
    """Return a lag in ms as text: `0.8 s` below ten seconds, then as durations are."""
    if ms is None:
        return NOTHING
    return f"{ms / 1000:.1f} s" if ms < 10_000 else duration(ms)


register.filter(span)


@register.filter
def share(value: float | None) -> str:
    """Return a multiple of the even share as text: `1.3 ×`."""
    return NOTHING if value is None else f"{value:.1f} ×"


@register.filter
def raw(value: float | Unknown) -> str:
    """Return a number as tables sort by it; empty where it is not known."""
    return "" if value is None else str(value)


@register.simple_tag
def sign(name: Sign, count: int | None = None) -> SafeString:
    """Return what stands out, as icon, colour and word. count: in how many partitions."""
    shape, colour, meaning = SIGNS[name]
    words = name if count is None else f"{count} {name}"
    return mark(words, shape, colour, meaning, "sign calm" if name == "well" else "")


@register.simple_tag
def trend(name: Trend | None) -> SafeString | str:
    """Return a mark for a lag that grows or shrinks; empty where it does neither."""
    if name not in TRENDS:
        return ""
    shape, colour = TRENDS[name]
    return format_html('<span class="trend c-{}">{}{}</span>', colour, icon(shape), name)


# ---- job -----------------------------------------------------------------------------------------
# Marks of the job's page.

STATES = {
    "running": ("check", "green"),
    "catching-up": ("arrow-up", "teal"),
    "restarting": ("retry", "amber"),
    "waiting": ("warning", "red"),
    "stalled": ("off", "red"),
    "stopped": ("square", "grey"),
}
"""By state of a query: its icon and its colour."""

TONES = {
    "good": ("check", "green"),
    "bad": ("cross", "red"),
    "waiting": ("clock", "amber"),
    "plain": ("ring", "grey"),
}

ROCKSDB = {
    "sstFileSize": "Files on disk",
    "pinnedBlocksMemoryUsage": "Memory pinned",
    "totalBytesWritten": "Written",
    "totalBytesRead": "Read",
    "bytesCopied": "Copied to the checkpoint",
    "getCount": "Reads",
    "putCount": "Writes",
    "loadLatencyMs": "Load",
    "commitFlushLatency": "Flush",
    "commitCheckpointLatency": "Snapshot",
    "commitFileSyncLatencyMs": "Upload",
    "totalCompactionLatencyMs": "Compaction",
    "readBlockCacheHitCount": "Cache hits",
    "readBlockCacheMissCount": "Cache misses",
}
"""RocksDB's figures by Spark's names, as the job tells them, and ours."""


@register.simple_tag
def query_state(name: str) -> SafeString:
    """Return a query's state as icon, colour and word."""
    return mark(name, *STATES.get(name, ("ring", "grey")))


@register.simple_tag
def outcome(word: str, tone: str) -> SafeString:
    """Return how far a request has come, as icon, colour and word."""
    return mark(word, *TONES[tone])


@register.filter
def size(number: int | Unknown) -> str:
    """Return a number of bytes as text: `512 B`, `1.4 MB`."""
    if number is None or number == "":
        return NOTHING
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


@register.filter
def ms(value: int | Unknown) -> str:
    """Return a duration in ms as text: in ms below ten seconds, else in seconds."""
    if value is None or value == "":
        return NOTHING
    return f"{value:,} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


@register.filter
def rocksdb(figures: dict[str, int] | Unknown) -> list[tuple[str, str]]:
    """Return RocksDB's figures as text, each with its name and in its unit."""
    numbers = figures or {}
    return [
        (title, _with_unit(name, numbers[name]))
        for name, title in ROCKSDB.items()
        if name in numbers
    ]


def _with_unit(name: str, value: int) -> str:
    if "Latency" in name:
        return ms(value)
    return f"{value:,}" if name.endswith("Count") else size(value)
