"""The letters that pass a filter as a file: NDJSON or CSV, streamed a portion at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.accounts.access import role_required
from dashboard.accounts.roles import Role
from dashboard.deadletters.forms import FilterForm
from dashboard.deadletters.models import DeadLetter
from dashboard.deadletters.reading import Wanted
from dashboard.deadletters.stored import headers_of, key_of, value_of

PORTION = 200
"""Letters read and sent at a time: no file is held in memory."""
FIELDS = (
    "id", "reason", "scenario", "topic", "partition", "offset", "appended_at", "noted_at",
    "repeats", "size", "whole", "asset", "agent", "fate", "fate_at", "fate_by", "why", "edited",
    "new_topic", "new_partition", "new_offset",
)  # fmt: skip
BYTES = ("key", "value")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula."""


@require_safe
@never_cache
@role_required("read", frozenset((Role.ADMIN,)))
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """All letters that pass the filter, oldest first, as a file."""
    if form not in FORMS:
        raise Http404
    asked = FilterForm(request.GET)
    if not asked.is_valid():
        context = {"fault": "The filter cannot be read: use the list's own."}
        return render(request, "deadletters/refused.html", context, status=422)
    lines, content_type = FORMS[form]
    found = lines(asked.wanted())
    streamed = _off_the_loop(found) if isinstance(request, ASGIRequest) else found
    response = StreamingHttpResponse(streamed, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="dead-letters.{form}"'
    return response


def as_ndjson(wanted: Wanted) -> Iterator[bytes]:
    """A JSON object in a line for each letter; bytes that are no UTF-8 as `…_base64`."""
    for letters in _portions(wanted):
        yield b"".join(msgspec.json.encode(_object(letter)) + b"\n" for letter in letters)


def as_csv(wanted: Wanted) -> Iterator[bytes]:
    """A line for each letter, a head before. No cell begins as a formula does."""
    yield _csv_line((*FIELDS, *BYTES))
    for letters in _portions(wanted):
        yield b"".join(_csv_line(_cells(letter)) for letter in letters)


FORMS: dict[str, tuple[Callable[[Wanted], Iterator[bytes]], str]] = {
    "ndjson": (as_ndjson, "application/x-ndjson"),
    "csv": (as_csv, "text/csv; charset=utf-8"),
}


def safe_cell(value: Any) -> str:
    """A value as a cell's text. One that begins as a formula does gets an apostrophe before it."""
    text = "" if value is None else str(value)
    guarded = isinstance(value, str) and text.lstrip(" ").startswith(FORMULA)
    return f"'{text}" if guarded or text.startswith(("\t", "\r", "\n")) else text


def _portions(wanted: Wanted) -> Iterator[list[DeadLetter]]:
    after = (-1, 0)
    while True:
        later = wanted.rows().filter(appended_at__gte=after[0]).order_by("appended_at", "id")
        rows = later.exclude(appended_at=after[0], id__lte=after[1])
        portion = list(islice(rows.iterator(PORTION), PORTION))
        if not portion:
            return
        yield portion
        after = (portion[-1].appended_at, portion[-1].pk)


def _object(letter: DeadLetter) -> dict[str, Any]:
    data = {name: getattr(letter, name) for name in FIELDS}
    for name, value in (("key", key_of(letter)), ("value", value_of(letter))):
        data |= _text_or_base64(name, value)
    data["headers"] = [
        {"name": name, **_text_or_base64("value", v)} for name, v in headers_of(letter)
    ]
    return data


def _text_or_base64(name: str, value: bytes | None) -> dict[str, Any]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": value}


def _cells(letter: DeadLetter) -> list[Any]:
    texts = [(data or b"").decode(errors="replace") for data in (key_of(letter), value_of(letter))]
    return [*(getattr(letter, name) for name in FIELDS), *texts]


def _csv_line(cells: Any) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow([safe_cell(cell) for cell in cells])
    return line.getvalue().encode(errors="replace")


def next_part(parts: Iterator[bytes]) -> bytes:
    """The next part, nothing at the end."""
    return next(parts, b"")


async def _off_the_loop(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The parts, each made in a thread, so that the server's loop waits for no database."""
    while (part := await sync_to_async(next_part)(parts)) != b"":
        yield part
