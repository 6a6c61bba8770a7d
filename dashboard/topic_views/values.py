"""Keys and values as programs and people get them, whatever bytes they are."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Callable
from fnmatch import translate
from typing import Any, Literal, NamedTuple

from dashboard.dead_letters.byte_display import runs

Form = Literal["json", "text", "base64"]

_EMPTY = {b"", b"null", b'""', b"{}", b"[]"}
_LONGEST_EMPTY = 64


class Shown(NamedTuple):
    """A value for a program. form: JSON as it is, text, or bytes in Base64."""

    form: Form
    value: Any


def shown(data: bytes) -> Shown:
    """Return bytes as JSON where they are some that every reader takes, else as text, else in
    Base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Shown("base64", b64encode(data).decode())
    try:
        return Shown("json", json.loads(text, parse_constant=_refuse, parse_float=_finite))
    except (ValueError, RecursionError):
        return Shown("text", text)


def printed(data: bytes) -> str:
    """Return bytes on one line: what is no text or not seen comes with its number."""
    return "".join(run.text for run in runs(data)).replace("\n", "\\n").replace("\t", "\\t")


def is_empty(data: bytes) -> bool:
    """Return whether a value says nothing: no bytes, or JSON's null, "", {} or []."""
    return len(data) <= _LONGEST_EMPTY and b"".join(data.split()) in _EMPTY


def matcher(pattern: str) -> Callable[[bytes], bool]:
    """Return a function that says whether a whole key matches a pattern, as file names have them:
    `*`, `?`, `[ab]`."""
    match = re.compile(translate(pattern)).match
    return lambda key: bool(match(key.decode(errors="surrogateescape")))


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number that no reader takes")
    return number
