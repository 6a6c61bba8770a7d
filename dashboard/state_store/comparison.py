"""The comparison of the database with what the state store has of an asset. Times in ms.

Both come from the one fold, so where neither is behind the other they must say the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from domain.version import Version
from wire.batch_query import StoredAsset

EQUAL, BEHIND, BOARD_BEHIND, DIFFERS = "equal", "behind", "board-behind", "differs"
# By verdict: its word, icon, colour and meaning; what matters most first.
VERDICTS: dict[str, tuple[str, str, str, str]] = {
    DIFFERS: (
        "differs",
        "warning",
        "red",
        "neither is behind, and they are different: run manage.py reconcile",
    ),
    BOARD_BEHIND: (
        "board behind",
        "clock",
        "orange",
        "the store had emitted more than the database had stored: is the materialiser behind?",
    ),
    BEHIND: (
        "store behind",
        "clock",
        "grey",
        "the board has changed since this batch was committed, as is usual while the job runs",
    ),
    EQUAL: ("equal", "check", "green", "state, doubts, votes, override and pending are the same"),
}


class Board(NamedTuple):
    """The database's row of an asset. record: of the states topic, as JSON; at: of its cause."""

    version: str
    at: int
    purged: bool
    record: str


class Judged(NamedTuple):
    """A verdict, and the fields in which the two differ."""

    verdict: str
    fields: tuple[str, ...] = ()


def judge(stored: StoredAsset, epoch: int, board: Board | None) -> Judged:
    """Compare an asset of the store with the database's row and return the verdict."""
    if board is None:
        return Judged(EQUAL if stored.state is None else BOARD_BEHIND)
    version = Version.parse(board.version)
    if version.epoch != epoch:
        return Judged(BEHIND if version.epoch > epoch else BOARD_BEHIND)
    if (version.offset, version.step) > (stored.offset, stored.step):
        return Judged(BEHIND)
    if stored.state is None:
        return Judged(EQUAL if board.purged else DIFFERS, () if board.purged else ("state",))
    if stored.changed > (version.offset, version.step) or board.at < stored.emitted_at:
        return Judged(BOARD_BEHIND)
    fields = _differing(stored, board)
    return Judged(DIFFERS, fields) if fields else Judged(EQUAL)


def judge_missing(epoch: int, reached: int, board: Board) -> Judged:
    """Return the verdict on an asset that the board shows and the store has not.

    reached: its bucket's offset.
    """
    version = Version.parse(board.version)
    behind = (version.epoch, version.offset) > (epoch, reached)
    return Judged(BEHIND) if behind else Judged(DIFFERS, ("state",))


def _differing(stored: StoredAsset, board: Board) -> tuple[str, ...]:
    """Return the fields in which they do not say the same.

    A row without a state is a purged one.
    """
    if board.purged:
        return ("state",)
    record: dict[str, Any] = msgspec.json.decode(board.record)
    plain: dict[str, Any] = msgspec.to_builtins(stored)
    names = ("state", "previous", "since", "unconfirmed", "disputed", "pending", "override")
    fields = [name for name in names if plain[name] != record.get(name)]
    is_other = plain["unconfirmed_reason"] != record.get("unconfirmed_reason")
    if is_other and "unconfirmed" not in fields:
        fields.append("unconfirmed")
    if _votes(plain["votes"]) != _votes(record["votes"]):
        fields.append("votes")
    if _doubts(plain["doubts"]) != _doubts(record.get("doubts", [])):
        fields.append("doubts")
    return tuple(fields)


def _votes(votes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return of votes the part that is reported at once; ages may be reported up to 30 s later."""
    return sorted(
        (
            vote["agent"],
            vote["state"],
            vote["weight"],
            vote.get("silent") or 0,
            vote.get("doubt") or "",
            vote.get("detail_fault") or "",
            flapping(vote),
        )
        for vote in votes
    )


def flapping(vote: dict[str, Any]) -> str:
    """Return the state to which a vote has turned twice, of a record or of the store; else empty.

    The store also has votes that have turned once.
    """
    flap = vote.get("flapping") or vote.get("flap") or {}
    return str(flap.get("state", "")) if flap.get("again", True) else ""


def _doubts(doubts: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return of doubts the part that is reported at once."""
    return sorted(
        (each["agent"], each["reason"], each["said"] or "", each["weight"]) for each in doubts
    )
