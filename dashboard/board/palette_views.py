"""The command palette's list of assets, as a part of a page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.accounts.access import role_required
from dashboard.board.palette import offers
from domain.names import MAX_NAME


@require_safe
@never_cache
@role_required("read")
def palette(request: HttpRequest) -> HttpResponse:
    """Options for the assets that `q` names in part; none for a text that no name holds."""
    text = request.GET.get("q", "")
    found = offers(text) if len(text) <= MAX_NAME else []
    return render(request, "board/_offers.html", {"offers": found})
