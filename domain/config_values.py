"""Read checked values from plain data (TOML, JSON), with errors that name the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)\Z")
MAX_DURATION = 366 * _UNITS["d"]
"""Longest duration that a scenario may contain, ms."""


class PlainError(ValueError):
    """A value that its key does not allow."""

    def __init__(self, path: str, expected: str, got: object) -> None:
        shown = repr(got)
        self.path, self.expected = path, expected
        self.given = shown if len(shown) <= 80 else shown[:77] + "..."
        super().__init__(f"{path}: expected {expected}, got {self.given}")


def duration(value: object, path: str, zero: bool = False) -> int:
    """Return a duration in ms, given text such as "250ms", "30s", "5m", "1h", "7d" or integer ms.

    zero: whether 0 is allowed. Raises PlainError.
    """
    ms: int | None = None
    if isinstance(value, str) and (match := _DURATION.match(value)):
        ms = int(match[1]) * _UNITS[match[2]]
    elif isinstance(value, int) and not isinstance(value, bool):
        ms = value
    if ms is None or not (0 if zero else 1) <= ms <= MAX_DURATION:
        raise PlainError(path, 'a duration such as "30s", "5m" or "1h", at most 366d', value)
    return ms


def duration_text(ms: int) -> str:
    """Return a duration in ms as text in the largest unit that fits; `duration` reads it back."""
    for unit in ("d", "h", "m", "s"):
        if ms and ms % _UNITS[unit] == 0:
            return f"{ms // _UNITS[unit]}{unit}"
    return f"{ms}ms" if ms else "0s"


def whole(low: int, high: int) -> Callable[[object, str], int]:
    """Return a reader for integers from `low` to `high`, which raises PlainError."""

    def read(value: object, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise PlainError(path, f"an integer from {low} to {high}", value)
        return value

    return read


def read_toml(path: Path, error: type[ValueError]) -> dict[str, Any]:
    """Read a TOML file. Raises `error`, which names the file, if that fails."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise error(f"{path}: expected TOML in UTF-8: {problem}") from None


class ConfigTable:
    """A mapping with its path.

    Its readers raise PlainError and remember the keys they were asked for.
    """

    def __init__(self, data: object, path: str) -> None:
        if not isinstance(data, Mapping):
            raise PlainError(path, "a table", data)
        self.path = path
        self._data = data
        self._asked: set[str] = set()
        self._within: list[ConfigTable] = []

    def keys(self) -> list[str]:
        """Return the keys present."""
        return list(self._data)

    def get(self, key: str) -> Any:
        """Return the unchecked value, or None."""
        self._asked.add(key)
        return self._data.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a non-empty text of at most 255 characters. Raises PlainError."""
        value = self.get(key)
        value = default if value is None else value
        if not isinstance(value, str) or not 0 < len(value) <= 255:
            raise PlainError(f"{self.path}.{key}", "a text of 1-255 characters", value)
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """Return one of `choices`. Raises PlainError."""
        value = self.get(key)
        value = default if value is None else value
        if value not in choices:
            raise PlainError(f"{self.path}.{key}", f"one of {', '.join(choices)}", value)
        return str(value)

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """Return an integer from `low` to `high`. Raises PlainError."""
        value = self.get(key)
        return whole(low, high)(default if value is None else value, f"{self.path}.{key}")

    def optional(self, key: str, read: Callable[[object, str], T]) -> T | None:
        """Return the value as converted by `read`, or None if the key is absent."""
        value = self.get(key)
        return None if value is None else read(value, f"{self.path}.{key}")

    def table(self, key: str) -> ConfigTable:
        """Return the table at `key`. Raises PlainError."""
        return self._enter(self.get(key), f"{self.path}.{key}")

    def tables(self, key: str, short: str = "") -> list[ConfigTable]:
        """Return the list of tables at `key`. Raises PlainError.

        short: the key of a table's text that may stand there in place of the table.
        """
        value = self.get(key)
        if not isinstance(value, list):
            expected = "a list of tables or texts" if short else "a list of tables"
            raise PlainError(f"{self.path}.{key}", expected, value)
        entries = [{short: each} if short and isinstance(each, str) else each for each in value]
        return [self._enter(each, f"{self.path}.{key}[{at}]") for at, each in enumerate(entries)]

    def mapping(self, key: str) -> dict[str, Any]:
        """Return the table at `key` as a new dict, empty if absent. Raises PlainError."""
        value = self.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise PlainError(f"{self.path}.{key}", "a table", value)
        return dict(value)

    def mapping_itself(self) -> dict[str, Any]:
        """Return this whole table as a new dict."""
        return dict(self._data)

    def no_more(self) -> None:
        """Raise PlainError if this table, or one within it, has a key that was never asked for."""
        for key in self._data:
            if key not in self._asked:
                known = ", ".join(sorted(self._asked))
                raise PlainError(f"{self.path}.{key}", f"a known key ({known})", key)
        for table in self._within:
            table.no_more()

    def _enter(self, data: object, path: str) -> ConfigTable:
        table = ConfigTable(data, path)
        self._within.append(table)
        return table
