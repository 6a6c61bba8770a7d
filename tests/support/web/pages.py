"""Pages as they are read."""

from __future__ import annotations

import html
import re


def text_of(markup: str) -> str:
    """Return the words of a page or of a part of it, without its markup and on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())
