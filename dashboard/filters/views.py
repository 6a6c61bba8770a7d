"""What a filter may go on with, and the filters that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.filter_language.addresses import board_url
from dashboard.filter_language.parser import MAX_TEXT
from dashboard.filters import saved_filters
from dashboard.filters.completion import offers
from dashboard.filters.models import MAX_TITLE, SavedFilter
from domain.scenario import Scenario

MAX_STATES = 50
"""Most states of a board's buttons that are taken into a filter."""


@require_safe
@never_cache
@role_required("read")
def complete(request: HttpRequest) -> HttpResponse:
    """What may stand at a place of a filter, as JSON."""
    text = request.GET.get("q", "")[:MAX_TEXT]
    try:
        at = max(0, min(int(request.GET.get("at", "")), len(text)))
    except ValueError:
        at = len(text)
    scenario = _scenario(request.GET.get("scenario", next(iter(scenarios()))))
    found = offers(scenario, text, at, _name(request))
    items = [each._asdict() for each in found.items]
    return JsonResponse({"start": found.start, "end": found.end, "items": items})


@require_safe
@never_cache
@role_required("read")
def kept(request: HttpRequest) -> HttpResponse:
    """One's own filters, and those that others share."""
    every = [
        {"is": each, "scenario": scenarios()[each.scenario], "own": each.user_id == request.user.pk}
        for each in saved_filters.visible(_user(request))
    ]
    own = [row for row in every if row["own"]]
    context = {
        "own": own,
        "shared": [row for row in every if not row["own"]],
        "most": saved_filters.MOST_OWN,
    }
    return render(request, "filters/filters.html", context)


@require_safe
@never_cache
@role_required("read")
def use(request: HttpRequest, number: int) -> HttpResponse:
    """The board with a filter that one may see."""
    found = saved_filters.visible(_user(request)).filter(pk=number).first()
    if found is None:
        raise Http404
    return redirect(saved_filters.address(found))


@form_of("filters:kept")
@role_required("read")
def save(request: HttpRequest) -> HttpResponse:
    """Keep what the board shows under a name."""
    given = request.POST
    scenario, now = _scenario(given.get("scenario", "")), now_ms()
    states, text = given.getlist("state")[:MAX_STATES], given.get("q", "")
    try:
        made = saved_filters.whole(scenario, states, text, now)
        found, before = saved_filters.save(
            _user(request), scenario, given.get("title", ""), made, now
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
    """That a filter of this name had another text, and who sees the new one."""
    if before in ("", found.text):
        return ""
    seen = "; everybody sees it, as it is shared" if found.shared else ""
    return f", in place of “{before}”{seen}"


def _not_saved(
    request: HttpRequest, scenario: Scenario, states: list[str], error: saved_filters.Refused
) -> HttpResponse:
    """What was typed once more, with what is wrong about it."""
    given = request.POST
    text = given.get("q", "")[:MAX_TEXT]
    context = {
        "scenario": scenario,
        "fault": str(error),
        "field": error.field,
        "title": given.get("title", "")[:MAX_TITLE],
        "text": text,
        "states": states,
        "shared": "shared" in given,
        "default": "default" in given,
        "board": board_url(scenario.name, text, states),
    }
    return render(request, "filters/refused.html", context, status=422)


@form_of("filters:kept")
@role_required("read")
def change(request: HttpRequest, number: int) -> HttpResponse:
    """Rename, share, delete or begin with one of one's own filters."""
    found = SavedFilter.objects.filter(user=_user(request), pk=number).first()
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


def _scenario(name: str) -> Scenario:
    if name not in scenarios():
        raise Http404
    return scenarios()[name]


def _user(request: HttpRequest) -> User:
    return cast("User", request.user)


def _name(request: HttpRequest) -> str:
    return request.user.get_username()
