"""Names from outside within sentences: whatever their writing direction, the sentence keeps its."""

from __future__ import annotations

import re

# What steers the direction of text, or ends its paragraph.
_CONTROLS = r"\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
# Where the scripts are that are written from right to left.
_LEFTWARDS = r"\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"

_STEERS = re.compile(f"[{_CONTROLS}]")
_TURNS = re.compile(f"[{_CONTROLS}{_LEFTWARDS}]")


def isolated(name: str) -> str:
    """Return the name for a sentence without markup: between Unicode's FSI and PDI, as `<bdi>` is
    in HTML.

    Characters that would break out of it are shown as replaced, as in `js/board/badges.js`.
    """
    return f"\u2068{_STEERS.sub(chr(0xFFFD), name)}\u2069" if _TURNS.search(name) else name
