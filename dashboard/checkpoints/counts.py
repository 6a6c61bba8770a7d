"""Counts that the web process reports of other processes."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.core.sql import execute_many

_ADD = """\
INSERT INTO materialiser_counted (name, topic, n) VALUES (%s, %s, %s)
ON CONFLICT (name, topic) DO UPDATE SET n = materialiser_counted.n + excluded.n"""


def add(counts: Mapping[tuple[str, str], int]) -> None:
    """Add to kept counts, by name and topic, in the caller's transaction. In order: no deadlock."""
    execute_many(_ADD, [(*key, n) for key, n in sorted(counts.items()) if n])
