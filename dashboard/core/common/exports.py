"""Tables as CSV or NDJSON files, streamed in portions."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.forms import Form
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from dashboard.core.common.times import iso

# What a spreadsheet treats as the beginning of a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
# Fields that hold times: ISO 8601 in UTC in CSV, Unix ms in NDJSON.
TIMES = frozenset(
    (
        "at", "since", "until", "appended_at", "noted_at", "fate_at", "answered_at", "reported_at",
        "begin", "end", "began_at", "ended_at", "acknowledged_at", "created_at", "ran_at", "ended",
    )
)  # fmt: skip
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}


def attachment(
    request: HttpRequest, parts: Iterator[bytes], name: str, form: str
) -> StreamingHttpResponse:
    """Return a response that streams the parts as the file `name.form`, each made when needed."""
    streamed = _off_the_loop(parts) if isinstance(request, ASGIRequest) else parts
    response = StreamingHttpResponse(streamed, content_type=CONTENT_TYPES[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return response


def unprocessable(why: str) -> HttpResponse:
    """Return a response (422) that says why the file cannot be made."""
    return HttpResponse(why, status=422, content_type="text/plain; charset=utf-8")


def faults_of(form: Form) -> str:
    """Return a form's errors, the first of each field."""
    return "; ".join(f"{name}: {faults[0]}" for name, faults in form.errors.items())


def written(
    form: str, fields: Sequence[str], portions: Iterable[Iterable[Mapping[str, Any]]]
) -> Iterator[bytes]:
    """Yield rows as a file of this form, one part for each portion that is not empty.

    CSV begins with a line of the fields, and has only these from each row; NDJSON has one line per
    row, an object with everything in it.
    """
    if form == "csv":
        yield csv_line(fields)
    for rows in portions:
        part = b"".join(_line(form, fields, row) for row in rows)
        if part:  # an empty part would mean the end
            yield part


def _line(form: str, fields: Sequence[str], row: Mapping[str, Any]) -> bytes:
    if form == "csv":
        return csv_line(_cell(name, row[name]) for name in fields)
    return msgspec.json.encode(row) + b"\n"


def _cell(name: str, value: Any) -> Any:
    if name not in TIMES or not isinstance(value, int):
        return value
    return iso(value) if value else ""  # 0: unknown


def csv_line(cells: Iterable[Any]) -> bytes:
    """Return a line of CSV, with no cell that begins like a formula."""
    line = io.StringIO()
    csv.writer(line).writerow([safe_cell(cell) for cell in cells])
    return line.getvalue().encode(errors="replace")


def safe_cell(value: Any) -> str:
    """Return a value as a cell's text; an apostrophe precedes what begins like a formula."""
    if isinstance(value, msgspec.Raw):  # already JSON
        return bytes(value).decode()
    text = "" if value is None else str(value)
    guarded = isinstance(value, str) and text.lstrip(" ").startswith(FORMULA)
    return f"'{text}" if guarded or text.startswith(("\t", "\r", "\n")) else text


def next_part(parts: Iterator[bytes]) -> bytes:
    """Return the next part, or b"" at the end."""
    return next(parts, b"")


async def _off_the_loop(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the parts, each made in a thread so that the server's loop waits for no database."""
    while (part := await sync_to_async(next_part)(parts)) != b"":
        yield part
