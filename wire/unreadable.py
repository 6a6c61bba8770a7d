"""Why a source record is unreadable: the field, what was expected, what was given, and where.

Only refused records get here, so that readable ones cost nothing extra.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from reprlib import Repr
from typing import Any

import msgspec

from domain.config_values import PlainError
from domain.names import CONTROL, MAX_NAME
from domain.records import Unreadable
from domain.scenario import ScenarioError

KEY = "key"
"""The path of a fault in the record's key. For a fault in the whole value it is empty."""
NOTHING = "nothing"
"""The given value if a field, a key or a value is missing."""
END = "the end"
"""The given value if a value ends too early."""

MAX_GIVEN = 80
"""How much of the given value is shown, characters."""

_SHORT = Repr()
_SHORT.maxlevel = 2
_SHORT.maxstring = _SHORT.maxlong = MAX_GIVEN

_AT_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)\Z")
_HALF_PAIR = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
)


def bad_field(reason: str, data: Mapping[str, Any], name: str, expected: str) -> Unreadable:
    """Return the refusal of a field in the value's object."""
    given = _shown(data[name]) if name in data else NOTHING
    return Unreadable(reason, name, expected, given)


def bad_scenario(data: Mapping[str, Any], error: ScenarioError) -> Unreadable:
    """Return the refusal of a scenario record, with the path within the scenario."""
    if "scenario" not in data or not isinstance(error.__cause__, PlainError):
        return bad_field("bad-scenario", data, "scenario", f"a scenario ({error})"[:300])
    fault = error.__cause__
    return Unreadable("bad-scenario", fault.path[:80], fault.expected[:300], fault.given)


def bad_key(key: bytes | None, asset: str) -> Unreadable:
    """Return the refusal of a key. asset: the decoded key."""
    if not key:
        return Unreadable("bad-asset", KEY, "a key, which names the asset", NOTHING)
    if control := CONTROL.search(asset):
        byte, given = len(asset[: control.start()].encode()), f"U+{ord(control[0]):04X}"
        return Unreadable("bad-asset", KEY, "no control character", given, byte)
    expected = f"at most {MAX_NAME} characters"
    return Unreadable("bad-asset", KEY, expected, f"{len(asset):,}")


def bad_utf8(path: str, error: UnicodeDecodeError) -> Unreadable:
    """Return the refusal of a key or value that is not UTF-8."""
    given = error.object[error.start : error.end].hex(" ")
    return Unreadable("not-utf8", path, "UTF-8", given, error.start)


def bad_json(value: bytes, error: msgspec.DecodeError) -> Unreadable:
    """Return the refusal of a value, given the decoder's error."""
    if match := _AT_BYTE.match(str(error)):
        expected, byte = f"JSON ({match[1]})", min(int(match[2]), len(value))
        given = value[byte : byte + 4].decode(errors="ignore")[:1]
        return Unreadable("not-json", "", expected, given or END, byte)
    if half := _HALF_PAIR.search(value):
        expected = "a character, not half of a surrogate pair"
        return Unreadable("not-json", "", expected, half[0].decode(), half.start())
    if "truncated" in str(error):
        return Unreadable("not-json", "", "more JSON", END, len(value))
    return Unreadable("not-json", "", f"JSON ({error})", "")


def broken_off(value: bytes, refusal: Unreadable) -> Unreadable:
    """Return the refusal of a report that breaks off, in a record that is refused."""
    if refusal.reason == "not-json":
        return refusal
    return Unreadable("not-json", "", "more JSON", END, len(value))


def no_object(data: object) -> Unreadable:
    """Return the refusal of a value that is valid JSON but not an object."""
    return Unreadable("unknown-type", "", "an object with a type", _shown(data))


def too_many_brackets(value: bytes, most: int) -> Unreadable:
    """Return the refusal of a value with more than `most` opening brackets."""
    places = [bracket.start() for bracket in re.finditer(rb"[\[{]", value)]
    expected = f"at most {most} opening brackets"
    return Unreadable("too-large", "", expected, f"{len(places):,}", places[most])


def too_long(path: str, size: int, most: int) -> Unreadable:
    """Return the refusal of a value or field that is too large. size, most: bytes."""
    return Unreadable("too-large", path, f"at most {most:,} bytes", f"{size:,}")


def _shown(value: object) -> str:
    return _SHORT.repr(value)[:MAX_GIVEN]
