"""The letters that pass a filter as a file: NDJSON or CSV, streamed a portion at a time."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required
from dashboard.core.exports import CONTENT_TYPES
from dashboard.core.listing import Order, TableFile
from dashboard.core.roles import Role
from dashboard.dead_letters.forms import FilterForm
from dashboard.dead_letters.models import DeadLetter
from dashboard.dead_letters.stored_records import headers_of, key_of, value_of

FIELDS = (
    "id", "reason", "scenario", "topic", "partition", "offset", "appended_at", "noted_at",
    "repeats", "size", "whole", "asset", "agent", "fate", "fate_at", "fate_by", "why", "edited",
    "new_topic", "new_partition", "new_offset",
)  # fmt: skip
BYTES = ("key", "value")


@require_safe
@never_cache
@role_required("read", frozenset((Role.ADMIN,)))
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return all letters that pass the filter, oldest first, as a file."""
    if form not in CONTENT_TYPES:
        raise Http404
    asked = FilterForm(request.GET)
    if not asked.is_valid():
        context = {"fault": "The filter cannot be read: use the list's own."}
        return render(request, "dead_letters/refused.html", context, status=422)
    told = {"form": form, "filter": asked.wanted().query()}
    note(Actor.of(request), "export.letters", target=f"dead-letters.{form}", **told)
    return LETTER_FILE.response(request, form, asked.wanted().rows())


def _object(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as an object of NDJSON; bytes that are not UTF-8 as `…_base64`."""
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


def _cells(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as a row of CSV."""
    data = {name: getattr(letter, name) for name in FIELDS}
    for name, value in (("key", key_of(letter)), ("value", value_of(letter))):
        data[name] = (value or b"").decode(errors="replace")
    return data


LETTER_FILE = TableFile(
    "dead-letters",
    (*FIELDS, *BYTES),
    _object,
    cells=_cells,
    order=Order("appended_at", down=False),
    portion_size=200,
)
