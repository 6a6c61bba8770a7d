"""Marks of the job's page."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from dashboard.console.templatetags.console import NOTHING, Unknown
from dashboard.states.templatetags.board import mark

register = template.Library()

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
    told = figures or {}
    return [
        (title, _with_unit(name, told[name])) for name, title in ROCKSDB.items() if name in told
    ]


def _with_unit(name: str, value: int) -> str:
    if "Latency" in name:
        return ms(value)
    return f"{value:,}" if name.endswith("Count") else size(value)
