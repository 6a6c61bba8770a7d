"""The addresses of the product, from its resolver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.urls import URLPattern, get_resolver

VALUES = {
    "number": "1",
    "id": str(UUID(int=1)),
    "suffix": "csv",
    "form": "csv",
    "scenario": "attack",
    "name": "attack",
    "asset": "shop",
    "agent": "waf-1",
    "partition": "0",
    "offset": "0",
    "query": "kernel",
    "table": "figures",
    "key": "tier",
    "kind": "mail",
    "token": "nothing",
}
"""Values of the parts of addresses, by name."""


def addresses() -> Iterator[tuple[str, URLPattern]]:
    """Yield each address of the product with its pattern, its parts filled in."""
    for path, pattern in _patterns():
        yield _filled(path), pattern


def _patterns(within: Any = None, prefix: str = "/") -> Iterator[tuple[str, URLPattern]]:
    for each in get_resolver().url_patterns if within is None else within:
        path = prefix + str(each.pattern)
        if isinstance(each, URLPattern):
            yield path, each
        else:
            yield from _patterns(each.url_patterns, path)


def _filled(pattern: str) -> str:
    def value(match: Any) -> str:
        if match[1] == "uuid":
            return VALUES["id"]
        return VALUES.get(match[2], "1")

    return re.sub(r"<(\w+):(\w+)>", value, pattern)
