"""Hostile texts, and what every answer to them must hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pytest

from support.run.selection import sampled

TEXTS = {
    "nul": "a\0b",
    "long": "x" * 1_000_000,
    "control": "a\x1bb\x7f",
    "newline": "a\r\nX-Injected: yes",
    "bidi": "\u202eevil\u2066",
    "surrogate": "\ud800",
    "astral": "\U0010ffff",
    "markup": "<script>alert(1)</script>",
    "quote": "'; DROP TABLE states_assetstate; --",
    "template": "{{ settings.SECRET_KEY }}{% debug %}",
    "empty": "",
    "spaces": "   ",
    "path": "../../etc/passwd",
}
TEXTS_SHARE = 3
"""A plain run tries one in so many texts in each field, others in the next."""


def texts_for(field: str) -> Sequence[str]:
    """Return the texts to try in a field."""
    return sampled(list(TEXTS.values()), TEXTS_SHARE, crc32(field.encode()) % TEXTS_SHARE)


text = pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
"""A test of every text."""


def calm(response: Any, text: str) -> None:
    """A page without a fault, in bounds, on which markup is text."""
    assert response.status_code < 500, response.content[:500]
    assert len(response.content) < 300_000 + 3 * len(text)  # a form shows what was typed
    assert "X-Injected" not in response
    assert b"<script>alert(1)" not in response.content
