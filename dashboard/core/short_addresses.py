"""Addresses that people type: each leads to the first page of a group that the role may open."""

from __future__ import annotations

from itertools import chain

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from dashboard.core.access import role_required
from dashboard.core.navigation import GROUPS, Place
from dashboard.core.roles import role_of


def _every() -> list[Place]:
    return list(chain.from_iterable(GROUPS.values()))


def _places(name: str) -> list[Place]:
    """Return the pages of an address, the first choice first."""
    match name:
        case "mail":
            notify = GROUPS["Notify"]
            return sorted(notify, key=lambda place: place.view != "mail_catcher:mails")
        case "notifications":
            return list(GROUPS["Notify"])
        case "retention":
            return [place for place in _every() if place.view == "retention:retention"]
        case _:
            return _every()


@require_safe
@role_required("read")
def first_page(request: HttpRequest, name: str) -> HttpResponse:
    """Redirect to the first of an address's pages that the role may open; where there is none, to
    its first page, which says who may. name: of the address."""
    places = [place for place in _places(name) if place.offered()]
    mine = [place for place in places if role_of(request.user) in place.roles]
    return redirect((mine or places)[0].view)
