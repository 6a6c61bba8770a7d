"""The command palette's list of assets and of what can be done, as a part of a page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.palette_actions import acts
from dashboard.board.palette_search import offers
from dashboard.core.access import role_required
from dashboard.core.roles import may
from domain.names import MAX_NAME

# Longest address of a board that is looked at.
MOST_BOARD = 4_000


@require_safe
@never_cache
@role_required("read")
def palette(request: HttpRequest) -> HttpResponse:
    """Render the assets that `q` names in part, and what it asks to be done, by role.

    board: the address of the board that is shown, if one is.
    """
    text = request.GET.get("q", "")
    if len(text) > MAX_NAME:
        return render(request, "board/_palette_results.html", {})
    board = request.GET.get("board", "")[:MOST_BOARD]
    able = may(request.user, "command")
    context = {"offers": offers(text), "acts": acts(text, board) if able else []}
    return render(request, "board/_palette_results.html", context)
