"""Markdown that is read as plain text too."""

from __future__ import annotations

import re

from dashboard.core.bidi import isolated

_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")
_BREAKS = re.compile(r"\s*[\r\n\u2028\u2029]+\s*")


def plain(text: str) -> str:
    """Return somebody's text on one line, in which nothing is markup."""
    return escaped(isolated(_BREAKS.sub(" / ", text.strip())))


def escaped(text: str) -> str:
    """Return a sentence in which nothing is markup; the names in it are isolated already."""
    return _MARKS.sub(r"\\\1", text)
