"""Pages as a browser lays them out: the white space that it drops, no test compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest
from django.test import Client

_BLOCKS = (
    "article|aside|blockquote|body|button|dd|details|dialog|div|dl|dt|fieldset|figure|footer|form"
    "|h[1-6]|head|header|html|legend|li|link|main|nav|ol|option|p|pre|script|section|select|summary"
    "|table|tbody|td|template|th|thead|title|tr|ul"
)
_VERBATIM = re.compile(r"(<(pre|textarea|script)\b.*?</\2>)", re.DOTALL)
_SPACE = re.compile(r"(=\"[^\"]*\")|\s+")  # what an attribute says stays as it is
_BESIDE_BLOCK = re.compile(rf"\s*(</?(?:{_BLOCKS})\b(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>)\s*")


def laid_out(html: str) -> str:
    """Collapse white space, and drop it beside block elements; `pre`, `textarea`, `script` stay."""
    parts = _VERBATIM.split(html.strip())
    texts, verbatim = parts[::3], [*parts[1::3], ""]
    return "".join(_flowed(text) + kept for text, kept in zip(texts, verbatim, strict=True))


def _flowed(html: str) -> str:
    one_space = _SPACE.sub(lambda match: match[1] or " ", html)
    return _BESIDE_BLOCK.sub(r"\1", re.sub(r" (?=>)", "", one_space))


class _Page:
    """The content of a response, laid out once it is read."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @cached_property
    def _laid_out(self) -> bytes:
        return laid_out(self._content.decode()).encode()

    def __iter__(self) -> Iterator[bytes]:
        yield self._laid_out


@pytest.fixture(scope="session", autouse=True)
def pages_laid_out() -> Iterator[None]:
    """Give every page that the test client gets as a browser lays it out."""
    request = Client.request

    def laid_out_request(self: Client, **environ: Any) -> Any:
        response: Any = request(self, **environ)
        kind = response.headers.get("Content-Type", "")
        if not response.streaming and kind.startswith("text/html"):
            response._container = _Page(response.content)
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "request", laid_out_request)
        yield
