"""An asset of the store next to the database's record, line by line. Times in Unix ms."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from dashboard.state_store.comparison import flapping
from wire.batch_query import StoredAsset

# Most votes, and most doubts, that are told one by one.
MOST_TOLD = 20


# What both sides have.
FIELDS = (
    "state", "previous", "since", "unconfirmed", "disputed", "votes", "doubts", "pending",
    "override",
)  # fmt: skip


class Line(NamedTuple):
    """A field as each side has it; differs: whether that is a difference."""

    field: str
    store: str
    board: str
    differs: bool


def lines(stored: StoredAsset | None, board: dict[str, Any] | None, differing: str) -> list[Line]:
    """Return both sides, field by field; what only the store has is empty on the other side."""
    store = _told(msgspec.to_builtins(stored)) if stored is not None else {}
    other = _told(board) if board is not None and "state" in board else {}
    fields = differing.split(", ")
    shared = [
        Line(name, store.get(name, "–"), other.get(name, "–"), name in fields) for name in FIELDS
    ]
    return [*shared, *_own(stored)]


def _own(stored: StoredAsset | None) -> list[Line]:
    if stored is None:
        return []
    timers = [
        f"{type_}{f' of {agent}' if agent else ''} {_time(at)}" for at, type_, agent in stored.dues
    ]
    texts = {
        "tallied": stored.tallied or "nothing",
        "last event": f"offset {stored.offset}, step {stored.step}",
        "last change": f"offset {stored.changed[0]}, step {stored.changed[1]}",
        "timers": "; ".join(timers) or "none",
        "answers remembered": str(stored.answers),
    }
    if stored.waits:
        waits = (f"{state} since {_time(since)}" for state, since in stored.waits)
        texts["waits"] = "; ".join(waits)
    if stored.purged_at is not None:
        texts["purged"] = _time(stored.purged_at)
    if stored.forget_at is not None:
        texts["forgotten"] = _time(stored.forget_at)
    return [Line(name, text, "", False) for name, text in texts.items()]


def _told(record: dict[str, Any]) -> dict[str, str]:
    """Return a record's fields as text."""
    pending, pin, doubts = record["pending"], record["override"], record.get("doubts") or []
    return {
        "state": record["state"] or "purged",
        "previous": record["previous"] or "–",
        "since": _time(record["since"]) if record["state"] else "–",
        "unconfirmed": _unconfirmed(record),
        "disputed": record.get("disputed") or "no",
        "votes": _texts([_vote(vote) for vote in record["votes"][:MOST_TOLD]], record["votes"]),
        "doubts": _texts([_doubt(each) for each in doubts[:MOST_TOLD]], doubts),
        "pending": f"{pending['state']} at {_time(pending['due'])}" if pending else "none",
        "override": _override(pin) if pin else "none",
    }


def _unconfirmed(record: dict[str, Any]) -> str:
    if not record["unconfirmed"]:
        return "no"
    reason = record.get("unconfirmed_reason")
    return f"yes: {reason}" if reason else "yes"


def _vote(vote: dict[str, Any]) -> str:
    silent = vote.get("silent")
    since = f", silent since {_time(silent)}" if silent is not None else ""
    doubt = f", in doubt: {vote['doubt']}" if vote.get("doubt") else ""
    fault = f", detail left out: {vote['detail_fault']}" if vote.get("detail_fault") else ""
    to = flapping(vote)
    flaps = f", goes to and fro: {to}" if to else ""
    return f"{vote['agent']}: {vote['state']} (weight {vote['weight']}{since}{doubt}{flaps}{fault})"


def _doubt(doubt: dict[str, Any]) -> str:
    said = doubt["said"] or "nothing readable"
    return f"{doubt['agent']}: {doubt['reason']}, said {said} (weight {doubt['weight']})"


def _texts(texts: list[str], every: list[Any]) -> str:
    more = len(every) - len(texts)
    return ("; ".join(texts) + (f"; and {more} more" if more > 0 else "")) or "none"


def _override(pin: dict[str, Any]) -> str:
    end = f"until {_time(pin['until'])}" if pin["until"] is not None else "without an end"
    return f"{pin['state']} by {pin['user']}, {end}"


def _time(at: int) -> str:
    try:
        when = datetime.fromtimestamp(at / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(at)
    return when.strftime("%Y-%m-%d %H:%M:%S.") + f"{at % 1000:03d} UTC"
