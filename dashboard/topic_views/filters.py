"""Which rows of a view are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from dashboard.topic_views.expressions import expression
from dashboard.topic_views.table import Row
from dashboard.topic_views.values import is_empty, matcher

MAX_PATTERN = 255
"""Longest pattern of keys, characters."""


class Wanted(NamedTuple):
    """A pattern of whole keys, as file names have them (`*`, `?`, `[ab]`), empty for all; whether
    rows of which the value is empty are left out; and a regular expression of whole keys, empty for
    all."""

    keys: str = ""
    not_empty: bool = False
    matches: str = ""

    def test(self) -> Callable[[Row], bool]:
        """Return a function that says whether a row is wanted. Raises BadExpression."""
        tests = [matcher(self.keys)] if self.keys else []
        tests += [expression(self.matches)] if self.matches else []
        return lambda row: all(passes(row.key) for passes in tests) and self._has_value(row)

    def prefix(self) -> bytes:
        """Return what the keys of all wanted rows begin with."""
        return re.split(r"[*?\[]", self.keys, maxsplit=1)[0].encode(errors="surrogateescape")

    def _has_value(self, row: Row) -> bool:
        return not (self.not_empty and is_empty(row.value))
