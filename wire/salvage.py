"""The members of a JSON object that cannot be read as a whole, each as the bytes that it came in.

A value is skipped by strings and brackets alone, and its bytes are not decoded: what is wrong
inside of it spoils no other member. Reading ends where the object breaks off.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_MARK = re.compile(_STRING.pattern + rb'|["\[\]{},]', re.DOTALL)
_SCALAR = re.compile(rb'["\-0-9]')


class Members(NamedTuple):
    """The members of an object: of a repeated key the last. whole: whether the object ends, and
    the value with it."""

    spans: dict[str, bytes]
    whole: bool


def members(value: bytes) -> Members:
    """Return the members of the object that a value is or begins with."""
    spans: dict[str, bytes] = {}
    at = _space(value, 0)
    if value[at : at + 1] != b"{":
        return Members(spans, whole=False)
    if value[(end := _space(value, at + 1)) : end + 1] == b"}":
        return Members(spans, whole=_space(value, end + 1) == len(value))
    while True:
        key = _STRING.match(value, _space(value, at + 1))
        if key is None or value[(at := _space(value, key.end())) : at + 1] != b":":
            return Members(spans, whole=False)
        begin = _space(value, at + 1)
        at = _end(value, begin)
        if at < 0:
            return Members(spans, whole=False)
        name = plain(key[0])
        if isinstance(name, str):
            spans[name] = value[begin:at].rstrip(b" \t\r\n")
        if value[at : at + 1] == b"}":
            return Members(spans, whole=_space(value, at + 1) == len(value))


def plain(span: bytes | None) -> Any:
    """Return the text, the number or the null of a member; anything else as the bytes it is."""
    if span is None or span == b"null":
        return None
    if not _SCALAR.match(span):
        return span
    try:
        span.decode()
        return msgspec.json.decode(span)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return span


def _space(value: bytes, at: int) -> int:
    space = _SPACE.match(value, at)
    return at if space is None else space.end()


def _end(value: bytes, begin: int) -> int:
    """Return where the value ends that begins there: at a comma or a brace, -1 if it breaks off."""
    depth = 0
    for mark in _MARK.finditer(value, begin):
        token = mark[0]
        if token == b'"':
            return -1
        if token in (b"[", b"{"):
            depth += 1
        elif token in (b"]", b"}"):
            if depth == 0:
                return mark.start() if token == b"}" else -1
            depth -= 1
        elif token == b"," and depth == 0:
            return mark.start()
    return -1
