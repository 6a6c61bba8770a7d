"""Pages that renew a part of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.core.access import is_fragment


def render_page(
    request: HttpRequest, page: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """Return a page; to a script the part of it that renews itself.

    page: as `board/events`, which has its part in `board/_events.html`.
    """
    folder, _, name = page.rpartition("/")
    template = f"{folder}/_{name}.html" if is_fragment(request) else f"{page}.html"
    return render(request, template, dict(context), status=status)
