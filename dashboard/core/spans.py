"""Spans of time in words, as a sentence takes them."""

from __future__ import annotations

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


def span(ms: int) -> str:
    """A span in its largest fitting unit: `12 s`, `4 min`, `23 h`, `3 days`."""
    for unit, least, word in ((DAY_MS, 2, "days"), (HOUR_MS, 2, "h"), (MINUTE_MS, 2, "min")):
        if ms >= least * unit:
            return f"{ms // unit} {word}"
    return f"{ms // SECOND_MS} s"


def exact_span(ms: int) -> str:
    """Return a duration of a rule to the second: `20 s`, `5 m`, `1 h 30 m`."""
    seconds = ms // 1000
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    parts_in_use = [f"{n} {unit}" for n, unit in parts if n]
    return " ".join(parts_in_use) if parts_in_use else f"{ms} ms"
