"""What every page may ask for: how many dead letters are open."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest

from dashboard.dead_letters.queries import count_open


def open_letters(_request: HttpRequest) -> dict[str, Callable[[], int]]:
    """`open_letters` for templates; counted only where a page shows it, to admins."""
    return {"open_letters": count_open}
