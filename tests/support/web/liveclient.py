"""A browser's side of the live board in Python, by the rules of js/board/rows.js and paging.js."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dashboard.board.live.page_filter import token_of_order
from dashboard.core.states.queries import Ranking

Row = dict[str, Any]
LATER = 1_000_000


class Client:
    """What a browser holds after the messages it was sent."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.counts: dict[str, int] = {}
        self.doubts: dict[str, int] = {}
        self.unhandled: dict[str, int] = {}
        self.causes: dict[str, str] = {}
        self.marks: dict[str, list[Any]] = {}
        self.now = 0
        self.total = 0
        self.next: str | None = None
        self.stopped = False
        self.ranking: Ranking | None = None
        self.ranked = False
        self.seq = 0

    def apply(self, message: Mapping[str, Any]) -> None:
        """Take one message; a snapshot replaces what is held, a change only raises it."""
        if message["type"] not in ("snapshot", "changes"):
            return
        if "seq" in message:  # which is to be acknowledged
            assert message["seq"] > self.seq, "messages are numbered upwards"
            self.seq = message["seq"]
        self.counts = message.get("counts", self.counts)
        self.doubts = message.get("doubts", self.doubts)
        self.unhandled = message.get("unhandled", self.unhandled)
        self.causes = message.get("causes", self.causes)
        for mark in msgspec.json.decode(msgspec.json.encode(message.get("marks", []))):
            known = self.marks.get(mark[0])
            if known is None or mark[1] > known[1]:
                self.marks[mark[0]] = mark
        if message["type"] == "snapshot":
            self.total, self.next = message["total"], message["next"]
            self.stopped = bool(message.get("stopped"))
            self.ranked = bool(message.get("ranked"))
            self._replace(message["rows"])
        else:
            self._change(message["rows"], message.get("gone", ()))

    def _replace(self, rows: Iterable[Row]) -> None:
        before, self.rows = self.rows, {}
        for row in rows:
            old = before.get(row["asset"])
            self.rows[row["asset"]] = old if old and old["version"] > row["version"] else row

    def _change(self, rows: Iterable[Row], gone: Iterable[tuple[str, str]]) -> None:
        for row in rows:
            old = self.rows.get(row["asset"])
            if old is None or row["version"] > old["version"]:
                self.rows[row["asset"]] = row
        for asset, version in gone:
            if asset in self.rows and self.rows[asset]["version"] <= version:
                del self.rows[asset]

    def shown(self, limit: int) -> list[Row]:
        """The rows on the page, in its order."""
        return sorted(self.rows.values(), key=self.place)[:limit]

    def place(self, row: Row) -> tuple[Any, ...]:
        """Return what decides whether a row is on the page."""
        rank = self.ranking.key(row) if self.ranking and self.ranked else ()
        return (rank, self.order(row))

    def order(self, row: Row) -> tuple[int, int, str]:
        """Return where a row belongs: what is unhandled first."""
        unhandled = row["alarming"] and not self.is_handled(row)
        return (row["rank"] + LATER * (not unhandled), -row["since"], row["asset"])

    def is_handled(self, row: Row) -> bool:
        """Return whether somebody has it in hand by now, or it is in maintenance."""
        _, _, ack, _, work, _ = self.marks.get(row["asset"], [None, 0, None, 0, None, None])
        held = ack is not None and self.now < ack[2] and ack[3] <= row["severity"]
        return held or (work is not None and self.now < work[1])

    def token(self, limit: int) -> str | None:
        """Return where the next page begins, as rows stand now; None where there is none."""
        whole = len(self.rows) <= limit
        if (self.next is None or self.stopped) and whole:
            return self.next
        if self.ranked:
            return None
        last = self.shown(limit)[-1:]
        return token_of_order(self.order(last[0])) if last else self.next


def assert_snapshot_plus_events(client: Client, fresh: Mapping[str, Any], limit: int) -> None:
    """A client that applied a snapshot and what came after it shows what a fresh snapshot does."""
    expected = {row["asset"]: row["version"] for row in fresh["rows"]}
    shown = {row["asset"]: row["version"] for row in client.shown(limit)}
    gaps = {a: v for a, v in expected.items() if shown.get(a) != v}
    stale = {a: v for a, v in shown.items() if a not in expected}
    assert not gaps, f"missing or of another version: {gaps}, shown {shown}"
    assert not stale, f"not in a fresh snapshot: {stale}"
    assert [row["asset"] for row in client.shown(limit)] == [row["asset"] for row in fresh["rows"]]
    assert {row["asset"]: row for row in client.shown(limit)} == {
        row["asset"]: row for row in fresh["rows"]
    }
    marks = {mark[0]: mark for mark in msgspec.json.decode(msgspec.json.encode(fresh["marks"]))}
    assert {asset: client.marks[asset] for asset in marks} == marks
    unmarked = [client.marks[a] for a in expected.keys() - marks.keys() if a in client.marks]
    assert not any(any(mark[2:]) for mark in unmarked), f"not in a fresh snapshot: {unmarked}"
    assert client.causes == fresh.get("causes", {})
