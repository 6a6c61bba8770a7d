"""Messages to a browser, as bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from dashboard.live.subscription import Changes


def plain_changes(changes: Changes) -> bytes:
    """Return a `changes` message; each row was serialised once for all sockets."""
    rest: dict[str, Any] = {"type": "changes"}
    if changes.gone:
        rest["gone"] = changes.gone
    if changes.counts is not None:
        rest["counts"] = changes.counts
    if changes.doubts is not None:
        rest["doubts"] = changes.doubts
    if changes.watched:
        rest["watched"] = changes.watched
    if changes.marks:
        rest["marks"] = changes.marks
    if changes.acknowledged is not None:
        rest["acknowledged"] = changes.acknowledged
    if changes.alerts is not None:
        rest["alerts"] = changes.alerts
    rows = b",".join(entry.json() for entry in changes.entries)
    return msgspec.json.encode(rest)[:-1] + b',"rows":[' + rows + b"]}"


def numbered(seq: int, message: bytes) -> bytes:
    """Return a message that is to be acknowledged with this number."""
    return message[:-1] + b',"seq":%d}' % seq
