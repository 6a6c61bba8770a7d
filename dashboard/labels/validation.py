"""Validation of labels."""

from __future__ import annotations

import re

from dashboard.filter_language.terms import KEYS
from dashboard.labels.models import MAX_KEY, MAX_VALUE

# Most labels of one asset.
MOST = 16

_KEY = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_KEY - 1}}}")
KEY_EXPECTED = f"expected a small letter, then at most {MAX_KEY - 1} small letters, digits, _ or -"
VALUE_EXPECTED = f"expected 1 to {MAX_VALUE} printable characters"


def key_fault(key: str) -> str:
    """Return why this can be no label's key; empty where it can."""
    if key in KEYS:
        return f"{key} is a word of the filter's own"
    return "" if _KEY.fullmatch(key) else KEY_EXPECTED


def value_fault(value: str) -> str:
    """Return why this can be no label's value; empty where it can."""
    ok = 0 < len(value) <= MAX_VALUE and value.isprintable() and value == value.strip()
    return "" if ok else VALUE_EXPECTED


def fault(key: str, value: str) -> str:
    """Return why this can be no label, naming what of it; empty where it can."""
    if problem := key_fault(key):
        return f"key: {problem}"
    return f"value: {problem}" if (problem := value_fault(value)) else ""
