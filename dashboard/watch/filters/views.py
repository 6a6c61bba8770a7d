"""Filter completion, and saved filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import ADMINS, form_of, role_of, role_required, takes, user_of
from dashboard.core.common.scenarios import scenario_or_404, scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import now_ms
from dashboard.core.states.filter_parser import MAX_TEXT, board_url
from dashboard.watch.filters.completion import offers
from dashboard.watch.filters.models import (
    MAX_TITLE,
    MOST_OWN,
    FilterRefused,
    FirstBoard,
    SavedFilter,
    whole_filter,
)
from domain.scenario import Scenario

# ---- filters -------------------------------------------------------------------------------------
# The form that saves a filter.


class SaveForm(forms.Form):
    """A form for a filter's name and text; `models.py` validates both."""

    scenario = forms.CharField(widget=forms.HiddenInput)
    title = forms.CharField(
        required=False,
        label="Name",
        widget=forms.TextInput(
            attrs={"required": True, "maxlength": MAX_TITLE, "autocomplete": "off"}
        ),
    )
    q = forms.CharField(
        required=False,
        label="Filter",
        widget=forms.TextInput(
            attrs={"maxlength": MAX_TEXT, "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    shared = forms.BooleanField(required=False, label="Share it with everybody")
    default = forms.BooleanField(required=False, label="Open the board with it")

    def __init__(self, data: Any, error: Exception, field: str) -> None:
        """Show what was typed. error: what is wrong with it; field: where."""
        super().__init__(data, auto_id="%s")
        self.add_error(field, f"{error}.")


class FirstBoardForm(forms.Form):
    """A form for the board that a user begins with: the name of a scenario, or the number of a
    filter."""

    board = forms.ChoiceField(required=False, label="Board")

    def __init__(self, user: User, data: Any = None) -> None:
        known = FirstBoard.objects.filter(user=user).first()
        super().__init__(data, initial={"board": known.value if known else ""})
        self.visible = {str(each.pk): each for each in SavedFilter.objects.visible_to(user)}
        boards = [(each.name, each.title) for each in scenarios().values()]
        filters = [(number, each.full_title) for number, each in self.visible.items()]
        choice = self.fields["board"]
        assert isinstance(choice, forms.ChoiceField)
        groups = (("Boards", boards), ("Filters", filters))
        choice.choices = [("", "none"), *((name, group) for name, group in groups if group)]

    def save(self, actor: Actor, user: User) -> None:
        """Store what was chosen."""
        value = self.cleaned_data["board"]
        saved = self.visible.get(value)
        scenario = saved.scenario if saved else value
        FirstBoard.objects.choose(user, scenario, saved)
        record(actor, "filter.first", scenario=scenario, target=saved.title if saved else "")


# ---- filters -------------------------------------------------------------------------------------
# Filter completion, and saved filters.

MAX_STATES = 50
"""Most states of a board's buttons that are put into a filter."""
OWN = Table("filters", "Name", "Scenario", "Filter", Column("Rename"), Column("Change"))
SHARED = Table("shared-filters", "Name", "By", "Scenario", "Filter")


@require_safe
@never_cache
@role_required("read")
@takes("scenario", "q", "at")
def complete(request: HttpRequest) -> HttpResponse:
    """Return what may be typed at a position in a filter, as JSON."""
    text = request.GET.get("q", "")[:MAX_TEXT]
    try:
        at = max(0, min(int(request.GET.get("at", "")), len(text)))
    except ValueError:
        at = len(text)
    scenario = scenario_or_404(request.GET.get("scenario", next(iter(scenarios()))))
    return JsonResponse(offers(scenario, text, at, _name(request)).plain())


@require_safe
@never_cache
@role_required("read")
def kept(request: HttpRequest) -> HttpResponse:
    """Return the page of the user's own filters and those that others share."""
    return _kept(request, FirstBoardForm(user_of(request)))


def _kept(request: HttpRequest, form: FirstBoardForm, status: int = 200) -> HttpResponse:
    user = user_of(request)
    visible = SavedFilter.objects.visible_to(user)
    context = {
        "own": visible.filter(user=user),
        "own_table": OWN,
        "shared_table": SHARED,
        "shared": visible.exclude(user=user),
        "most": MOST_OWN,
        "first": form,
        "may_publish": role_of(user) in ADMINS,
    }
    return render(request, "filters/filters.html", context, status=status)


@form_of("filters:kept")
@role_required("read")
def first(request: HttpRequest) -> HttpResponse:
    """Choose the board that the user begins with."""
    user = user_of(request)
    form = FirstBoardForm(user, request.POST)
    if not form.is_valid():
        return _kept(request, form, 422)
    form.save(Actor.of(request), user)
    messages.success(request, "Your start page is saved.")
    return redirect("filters:kept")


@form_of("filters:kept")
@role_required("read", among=ADMINS)
def tab(request: HttpRequest, number: int) -> HttpResponse:
    """Make one of the admin's own filters a tab of everybody's, or take any tab away."""
    own_or_tab = Q(user=user_of(request)) | Q(tab=True)
    saved = get_object_or_404(SavedFilter.objects.filter(own_or_tab), pk=number)
    do = request.POST.get("do")
    if do not in ("publish", "withdraw"):
        raise Http404
    if do == "withdraw":
        withdraw(Actor.of(request), saved)
        messages.success(request, f"“{saved.title}” is no tab any more.")
        return redirect("filters:kept")
    try:
        publish(Actor.of(request), saved)
    except FilterRefused as error:
        messages.error(request, f"Nothing was changed. {error}.")
    else:
        messages.success(request, f"“{saved.title}” is a tab beside everybody’s boards now.")
    return redirect("filters:kept")


def publish(actor: Actor, saved: SavedFilter) -> None:
    """Make a filter a tab, and record it in the audit. Raises FilterRefused."""
    saved.publish()
    record_filter(actor, "filter.published", saved)


def withdraw(actor: Actor, saved: SavedFilter) -> None:
    """Make a filter no tab any more, and record it in the audit."""
    saved.withdraw()
    record_filter(actor, "filter.withdrawn", saved)


def record_filter(actor: Actor, action: str, saved: SavedFilter) -> None:
    """Record in the audit what was done to a filter."""
    record(actor, action, scenario=saved.scenario, target=saved.title, filter=saved.text)


@require_safe
@never_cache
@role_required("read")
def use(request: HttpRequest, number: int) -> HttpResponse:
    """Redirect to the board with a filter that the user may see. Raises Http404."""
    saved = get_object_or_404(SavedFilter.objects.visible_to(user_of(request)), pk=number)
    return redirect(saved)


@form_of("filters:kept")
@role_required("read")
def save(request: HttpRequest) -> HttpResponse:
    """Save what the board shows under a name."""
    given = request.POST
    scenario, now = scenario_or_404(given.get("scenario", "")), now_ms()
    states, text = given.getlist("state")[:MAX_STATES], given.get("q", "")
    try:
        made = whole_filter(scenario, states, text, now)
        saved, before = SavedFilter.objects.keep(
            user_of(request), scenario, given.get("title", ""), made, now
        )
    except FilterRefused as error:
        return _not_saved(request, scenario, states, error)
    if saved.tab:
        record_filter(Actor.of(request), "filter.changed", saved)
    if "shared" in given:
        _share(request, saved, on=True)
    if "default" in given:
        saved.make_default(on=True)
    messages.success(request, f"Saved as “{saved.title}”{_instead(saved, before)}.")
    return redirect(saved)


def _instead(saved: SavedFilter, before: str) -> str:
    """Return a notice that a filter of this name had another text, and who sees the new one.

    Empty if it had no other text.
    """
    if before in ("", saved.text):
        return ""
    seen = "; it is shared, so everybody sees it" if saved.shared else ""
    return f", in place of “{before}”{seen}"


def _not_saved(
    request: HttpRequest, scenario: Scenario, states: list[str], error: FilterRefused
) -> HttpResponse:
    """Return the form (422) with what was typed and what is wrong with it."""
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
    """Rename, share or delete one of the user's own filters, or make it the default."""
    saved = SavedFilter.objects.filter(user=user_of(request), pk=number).first()
    what = _CHANGES.get(request.POST.get("do", ""))
    if saved is None or what is None:
        raise Http404
    try:
        saved.check_changeable_by(user_of(request))
        messages.success(request, what(request, saved))
    except FilterRefused as error:
        messages.error(request, f"Nothing was changed. {error}.")
    return redirect("filters:kept")


def _rename(request: HttpRequest, saved: SavedFilter) -> str:
    saved.rename(request.POST.get("title", ""))
    if saved.tab:
        record_filter(Actor.of(request), "filter.changed", saved)
    return f"Renamed to “{saved.title}”."


def _share(request: HttpRequest, saved: SavedFilter, *, on: bool) -> str:
    saved.share(on=on)
    record_filter(Actor.of(request), "filter.shared" if on else "filter.unshared", saved)
    return f"“{saved.title}” is now {'shared with everybody' if on else 'yours alone'}."


def _default(_request: HttpRequest, saved: SavedFilter, *, on: bool) -> str:
    saved.make_default(on=on)
    return f"Your board now opens with {f'“{saved.title}”' if on else 'everything'}."


def _delete(_request: HttpRequest, saved: SavedFilter) -> str:
    saved.delete()
    return f"Deleted “{saved.title}”."


_CHANGES: dict[str, Callable[[HttpRequest, SavedFilter], str]] = {
    "rename": _rename,
    "share": lambda request, saved: _share(request, saved, on=True),
    "unshare": lambda request, saved: _share(request, saved, on=False),
    "default": lambda request, saved: _default(request, saved, on=True),
    "no-default": lambda request, saved: _default(request, saved, on=False),
    "delete": _delete,
}


def _name(request: HttpRequest) -> str:
    return request.user.get_username()
