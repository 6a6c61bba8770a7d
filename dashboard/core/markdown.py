"""Markdown that is read as plain text too."""

from __future__ import annotations

import re

from dashboard.core.bidi import isolated

_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")
_BREAKS = re.compile(r"\s*[\r\n\u2028\u2029]+\s*")


def plain(text: str) -> str:
    """Return somebody's text on one line, in which nothing is markup."""
    return _MARKS.sub(r"\\\1", isolated(_BREAKS.sub(" / ", text.strip())))
