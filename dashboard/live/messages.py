"""Messages to a browser, as bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from dashboard.live.changes import Changes


def plain_changes(changes: Changes) -> bytes:
    """Return a `changes` message, made once for all sockets that are sent the same changes."""
    if not changes.body:
        changes.body = _body(changes)
    return changes.body


def _body(changes: Changes) -> bytes:
    """Return the message; each row was serialised once for all sockets."""
    beside = {name: getattr(changes, name) for name in ("gone", "watched", "marks", "alerts")}
    rest: dict[str, Any] = {"type": "changes"}
    rest.update(changes.figures.items())
    rest |= {name: news for name, news in beside.items() if news}
    rows = b",".join(entry.json() for entry in changes.entries)
    return msgspec.json.encode(rest)[:-1] + b',"rows":[' + rows + b"]}"


def numbered(seq: int, message: bytes) -> bytes:
    """Return a message that is to be acknowledged with this number."""
    return message[:-1] + b',"seq":%d}' % seq
