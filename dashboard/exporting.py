"""Tables as files that are sent a portion at a time: lines of CSV, and the answer that streams."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula."""
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}


def attachment(
    request: HttpRequest, parts: Iterator[bytes], name: str, form: str
) -> StreamingHttpResponse:
    """The parts as a file `name.form`; each is made when the one before has been sent."""
    streamed = _off_the_loop(parts) if isinstance(request, ASGIRequest) else parts
    response = StreamingHttpResponse(streamed, content_type=CONTENT_TYPES[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return response


def csv_line(cells: Iterable[Any]) -> bytes:
    """A line of CSV, in which no cell begins as a formula does."""
    line = io.StringIO()
    csv.writer(line).writerow([safe_cell(cell) for cell in cells])
    return line.getvalue().encode(errors="replace")


def safe_cell(value: Any) -> str:
    """A value as a cell's text. One that begins as a formula does gets an apostrophe before it."""
    text = "" if value is None else str(value)
    guarded = isinstance(value, str) and text.lstrip(" ").startswith(FORMULA)
    return f"'{text}" if guarded or text.startswith(("\t", "\r", "\n")) else text


def next_part(parts: Iterator[bytes]) -> bytes:
    """The next part, nothing at the end."""
    return next(parts, b"")


async def _off_the_loop(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The parts, each made in a thread, so that the server's loop waits for no database."""
    while (part := await sync_to_async(next_part)(parts)) != b"":
        yield part
