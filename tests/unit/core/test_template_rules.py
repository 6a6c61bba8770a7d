"""Rules that every template keeps."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"


def test_no_line_begins_with_punctuation() -> None:
    """The line's end before it would show as a space between a word and its comma."""
    parted = re.compile(r"\s*(?:<(?!/)[^>]+>)*[,.;:)]")
    lines = [
        f"{path.relative_to(TEMPLATES)}:{at}"
        for path in sorted(TEMPLATES.rglob("*.html"))
        for at, line in enumerate(path.read_text().splitlines(), 1)
        if parted.match(line)
    ]
    assert lines == []


ELEMENT = re.compile(
    r"<(/?)(fieldset|div|section|details|form|table|tbody|ul|ol|dl|p|span|tr|td|nav|summary|label|button)\b"
)


def test_every_element_that_is_opened_is_closed() -> None:
    """A fieldset that stays open takes what follows into it, and hides it with itself."""
    unbalanced = {}
    for path in sorted(TEMPLATES.rglob("*.html")):
        balance: Counter[str] = Counter()
        for closing, name in ELEMENT.findall(path.read_text()):
            balance[name] += -1 if closing else 1
        if open_ones := {name: n for name, n in balance.items() if n}:
            unbalanced[str(path.relative_to(TEMPLATES))] = open_ones
    assert unbalanced == {}
