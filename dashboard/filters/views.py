"""What a filter may go on with, and the filters that are kept."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.scenarios import scenario_or_404, scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import now_ms
from dashboard.filter_language.addresses import board_url
from dashboard.filter_language.parser import MAX_TEXT
from dashboard.filters import saved_filters
from dashboard.filters.completion import offers
from dashboard.filters.forms import SaveForm
from dashboard.filters.models import SavedFilter
from domain.scenario import Scenario

MAX_STATES = 50
"""Most states of a board's buttons that are taken into a filter."""
OWN = Table("filters", "Name", "Scenario", "Filter", Column("Rename"), Column("Change"))
SHARED = Table("shared-filters", "Name", "By", "Scenario", "Filter")


@require_safe
@never_cache
@role_required("read")
def complete(request: HttpRequest) -> HttpResponse:
    """Return what may be typed at a place in a filter, as JSON."""
    text = request.GET.get("q", "")[:MAX_TEXT]
    try:
        at = max(0, min(int(request.GET.get("at", "")), len(text)))
    except ValueError:
        at = len(text)
    scenario = scenario_or_404(request.GET.get("scenario", next(iter(scenarios()))))
    found = offers(scenario, text, at, _name(request))
    items = [each._asdict() for each in found.items]
    return JsonResponse({"start": found.start, "end": found.end, "items": items})


@require_safe
@never_cache
@role_required("read")
def kept(request: HttpRequest) -> HttpResponse:
    """Return the page of the user's own filters, and those that others share."""
    every = [
        {"is": each, "scenario": scenarios()[each.scenario], "own": each.user_id == request.user.pk}
        for each in saved_filters.visible(user_of(request))
    ]
    own = [row for row in every if row["own"]]
    context = {
        "own": own,
        "own_table": OWN,
        "shared_table": SHARED,
        "shared": [row for row in every if not row["own"]],
        "most": saved_filters.MOST_OWN,
    }
    return render(request, "filters/filters.html", context)


@require_safe
@never_cache
@role_required("read")
def use(request: HttpRequest, number: int) -> HttpResponse:
    """Redirect to the board with a filter that the user may see. Raises Http404."""
    found = get_object_or_404(saved_filters.visible(user_of(request)), pk=number)
    return redirect(saved_filters.address(found))


@form_of("filters:kept")
@role_required("read")
def save(request: HttpRequest) -> HttpResponse:
    """Keep what the board shows under a name."""
    given = request.POST
    scenario, now = scenario_or_404(given.get("scenario", "")), now_ms()
    states, text = given.getlist("state")[:MAX_STATES], given.get("q", "")
    try:
        made = saved_filters.whole(scenario, states, text, now)
        found, before = saved_filters.save(
            user_of(request), scenario, given.get("title", ""), made, now
        )
    except saved_filters.Refused as error:
        return _not_saved(request, scenario, states, error)
    if "shared" in given:
        _share(request, found, on=True)
    if "default" in given:
        saved_filters.make_default(found, on=True)
    messages.success(request, f"Saved as “{found.title}”{_instead(found, before)}.")
    return redirect(saved_filters.address(found))


def _instead(found: SavedFilter, before: str) -> str:
    """Return words that a filter of this name had another text, and who sees the new one.

    Empty if it had no other text.
    """
    if before in ("", found.text):
        return ""
    seen = "; everybody sees it, as it is shared" if found.shared else ""
    return f", in place of “{before}”{seen}"


def _not_saved(
    request: HttpRequest, scenario: Scenario, states: list[str], error: saved_filters.Refused
) -> HttpResponse:
    """Return the form (422) with what was typed, and with what is wrong about it."""
    field = "title" if error.field == "name" else "q"
    context = {
        "scenario": scenario,
        "form": SaveForm(request.POST, error, field),
        "states": states,
        "board": board_url(scenario.name, request.POST.get("q", "")[:MAX_TEXT], states),
    }
    return render(request, "filters/refused.html", context, status=422)


@form_of("filters:kept")
@role_required("read")
def change(request: HttpRequest, number: int) -> HttpResponse:
    """Rename, share, delete or begin with one of one's own filters."""
    found = SavedFilter.objects.filter(user=user_of(request), pk=number).first()
    what = _CHANGES.get(request.POST.get("do", ""))
    if found is None or what is None:
        raise Http404
    try:
        messages.success(request, what(request, found))
    except saved_filters.Refused as error:
        messages.error(request, f"Nothing was changed. {error}.")
    return redirect("filters:kept")


def _rename(request: HttpRequest, found: SavedFilter) -> str:
    saved_filters.rename(found, request.POST.get("title", ""))
    return f"It is called “{found.title}” now."


def _share(request: HttpRequest, found: SavedFilter, *, on: bool) -> str:
    saved_filters.share(found, on=on)
    note(Actor.of(request), "filter.shared" if on else "filter.unshared",
         scenario=found.scenario, target=found.title, filter=found.text)  # fmt: skip
    return f"“{found.title}” is {'everybody’s to see' if on else 'yours alone'} now."


def _default(_request: HttpRequest, found: SavedFilter, *, on: bool) -> str:
    saved_filters.make_default(found, on=on)
    return f"Your board begins with {f'“{found.title}”' if on else 'everything'} now."


def _delete(_request: HttpRequest, found: SavedFilter) -> str:
    found.delete()
    return f"“{found.title}” is deleted."


_CHANGES: dict[str, Callable[[HttpRequest, SavedFilter], str]] = {
    "rename": _rename,
    "share": lambda request, found: _share(request, found, on=True),
    "unshare": lambda request, found: _share(request, found, on=False),
    "default": lambda request, found: _default(request, found, on=True),
    "no-default": lambda request, found: _default(request, found, on=False),
    "delete": _delete,
}


def _name(request: HttpRequest) -> str:
    return request.user.get_username()
