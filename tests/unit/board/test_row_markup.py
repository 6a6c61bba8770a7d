"""A row of the board is the same whether the server's template or the browser's modules make it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.template import engines
from django.template.loader import get_template

from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.board_rows import VOTES_SHOWN, Row, row_of
from dashboard.watch.annotations.row_marks import AckMark, RowMark, Work, calm_of
from support.histories.state_records import as_read, doubt, record, vote

NODE = shutil.which("node")
RENDERER = Path(__file__).parents[2] / "node" / "render_rows.mjs"
TEMPLATE = re.compile(r'<template id="row-template">(.*?)</template>', re.DOTALL)
NOW = 1_790_000_000_500
"""Between two seconds, so that no duration changes while the test runs."""
ONE_SIDED = {"data-local", "data-moment", "data-state", "aria-selected"}
"""Attributes with which the browser keeps its own account, or the server tells it of a time."""
LAID_OUT = {"tr", "th", "td"}
"""Elements at whose edges space is not seen."""

HEBREW = "\u05d0\u05ea\u05e8"
PIN = {"state": "clear", "until": NOW + 7_200_500, "user": "olga", "reason": "", "command": "",
       "since": 5, "underlying": None}  # fmt: skip

MUTED = {"until": None, "user": "olga"}

RECORDS = [
    record("plain", since=NOW - 65_000),
    record("days", "under-attack", since=NOW - 3 * 86_400_000),
    record("unheard", "unknown"),
    record("strange", "lost <at> sea", votes=[vote(state="lost <at> sea")]),
    record("voted", votes=[vote(), vote("b"), vote("c", "suspicious"), vote("user:olga")]),
    record("muted", votes=[vote(muted=MUTED), vote("b")]),
    record("silent", votes=[vote(silent=NOW - 90_000), vote("b", silent=NOW - 1_000, weight=0)]),
    record("crowded", votes=[vote(f"waf-{n}") for n in range(VOTES_SHOWN + 3)]),
    record(
        "doubted",
        disputed="critical",
        votes=[
            vote(doubt="clock-ahead", reported_at=400_005),
            vote("b", doubt="purged"),
            vote("c"),
        ],
        doubts=[doubt("b"), doubt("d <x>", "unknown-state", "critical")],
    ),
    record(
        "doubted and muted",
        votes=[vote("a", muted=MUTED), vote("b", silent=NOW - 90_000)],
        doubts=[doubt("a", weight=0, muted=MUTED), doubt("b"), doubt("c", muted=MUTED)],
    ),
    record("doubted only", "unknown", doubts=[doubt(f"w{n:02}", said=None) for n in range(16)]),
    record(
        "doubted crowd",
        votes=[vote(f"waf-{n}") for n in range(VOTES_SHOWN + 3)],
        doubts=[doubt(HEBREW, said=f"{HEBREW}<>"), doubt("waf-14")],
        unconfirmed=True,
    ),
    record("disputed", disputed="under-attack", votes=[vote(), vote("b", "under-attack")]),
    record("unconfirmed", unconfirmed=True),
    record("reasoned", unconfirmed=True, unconfirmed_reason="1 of 2 voters"),
    record("pinned", override=PIN),
    record("endless", override=PIN | {"until": None, "user": HEBREW}),
    record("worse beneath", override=PIN | {"underlying": "under-attack"}),
    record("pending", pending={"state": "suspicious", "since": 5, "due": NOW + 30_500}),
    record(f"{HEBREW} \u202e&<b>", disputed="suspicious", unconfirmed=True, override=PIN),
    record("labelled"),
    record("added", votes=[vote(detail={"kind": "syn-flood", "rate": 41_200.5})]),
    record("added aslant", votes=[vote(detail={"kind": f"{HEBREW}<b>", "source": True})]),
    record("held", "under-attack"),
    record("noted"),
    record("both", "suspicious"),
]
MARKS = [
    RowMark("held", 1, AckMark("ada", 5, NOW + 60_000, 0, "I look"), 0),
    RowMark("noted", 1, None, 1),
    RowMark("both", 1, AckMark(HEBREW, 5, NOW + 60_000, 0, ""), 1_000),
    RowMark("plain", 1, AckMark("ada", 5, NOW - 1, 0, "over"), 0),
    RowMark("pinned", 1, None, 2, Work(f"racks <{HEBREW}>", NOW + 60_500, 7)),
    RowMark("days", 1, None, 0, Work("over", NOW - 1, 8), 1042),
    RowMark("disputed", 1, None, 2, None, 7),
]
BEHIND = {"plain": "edge-1", "both": HEBREW, "pinned": "constructor", "days": "edge-2"}
CAUSES = {"edge-1": "Down", HEBREW: f"{HEBREW} <gone>"}
"""What rows lie behind, and which of it is not well."""

Tree = list[Any]
"""An element: tag, attributes, children."""


class Reader(HTMLParser):
    """Reads markup into trees."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[Tree] = [["", {}, []]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = [tag, {name: text or "" for name, text in attrs}, []]
        self.open[-1][2].append(made)
        if tag != "input":
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.open[-1][2].append(data)


def read(markup: str) -> Tree:
    """Return the one element that the markup holds."""
    reader = Reader()
    reader.feed(markup)
    (element,) = (child for child in reader.open[0][2] if not isinstance(child, str))
    return list(element)


def normal(tree: Tree) -> Tree:
    """Return an element without what nobody sees: the order of classes, spaces at a cell's edge."""
    tag, attributes, children = tree
    kept = {name: text for name, text in attributes.items() if name not in ONE_SIDED and text}
    kept["class"] = sorted(kept.get("class", "").split())
    made: list[Any] = []
    for child in children:
        if not isinstance(child, str):
            made.append(normal(child))
        elif made and isinstance(made[-1], str):
            made[-1] += child
        else:
            made.append(child)
    texts = [re.sub(r"\s+", " ", each) if isinstance(each, str) else each for each in made]
    if tag in LAID_OUT:
        texts = [each for each in texts if each != " "]
    return [tag, kept, texts]


def by_template(row: Row, may_command: bool) -> Tree:
    """Return a row as the page has it."""
    context = {
        "scenario": scenarios()["attack"],
        "row": row,
        "row_marks": {mark.asset: mark for mark in MARKS},
        "causes": CAUSES,
        "may_command": may_command,
        "now": NOW,
    }
    return read(get_template("board/_row.html").render(context))


def by_browser(rows: list[Row], may_command: bool) -> list[Tree]:
    """Return rows as the browser adds them."""
    assert NODE
    page = Path(get_template("board/board.html").template.origin.name).read_text()  # type: ignore[attr-defined]
    template = TEMPLATE.search(page)
    assert template
    empty = (
        engines["django"]
        .from_string(template[1])
        .render({"may_command": may_command, "scenario": scenarios()["attack"]})
    )
    scenario = scenarios()["attack"]
    payload = {
        "rows": rows,
        "marks": MARKS,
        "states": [asdict(spec) for spec in scenario.states],
        "causes": CAUSES,
        "template": read(empty),
        "now": NOW,
        "calm": calm_of(scenario),
    }
    done = subprocess.run(
        [NODE, str(RENDERER)],
        input=json.dumps(payload),
        env=os.environ | {"TZ": "UTC"},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return [list(tree) for tree in json.loads(done.stdout)]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("may_command", [True, False])
def test_template_and_browser_make_the_same_row(may_command: bool) -> None:
    scenario = scenarios()["attack"]
    rows = [row_of(scenario, as_read(each)) for each in RECORDS]
    for row in rows:
        row["labels"] = [["tier", "gold"], ["owner", HEBREW]] if row["asset"] == "labelled" else []
        row["behind"] = BEHIND.get(row["asset"], "")
    for row, tree in zip(rows, by_browser(rows, may_command), strict=True):
        assert normal(tree) == normal(by_template(row, may_command)), row["asset"]
