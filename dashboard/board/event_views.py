"""The page of what happens on all boards, and the same as a file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.board.events import EVENT_FILE, EVENTS, MOST_EXPORTED, Wanted
from dashboard.core.access import role_required
from dashboard.core.listing import file_refusal
from dashboard.core.pages import render_page
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.filter_language.parser import MAX_TEXT, FilterError
from dashboard.filters.event_filter import condition_of
from dashboard.filters.examples import placeholder
from domain.names import MAX_STATE

MAX_ID = 2**63 - 1


FILTER_ATTRS = {
    "type": "search",
    "autocomplete": "off",
    "spellcheck": "false",
    "role": "combobox",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": "offers",
}


class EventFilter(forms.Form):
    """What the address asks for."""

    scenario = forms.ChoiceField(required=False)
    state = forms.CharField(required=False, max_length=MAX_STATE, label="To state")
    q = forms.CharField(required=False, max_length=MAX_TEXT, label="Filter")
    all = forms.BooleanField(required=False, label="Reminders and ends too")
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_ID, widget=forms.HiddenInput
    )

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        known = ((each.name, each.title) for each in scenarios().values())
        choice = self.fields["scenario"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [("", "All scenarios"), *known]
        shown = scenarios().get(self.data.get("scenario", "")) or next(iter(scenarios().values()))
        asked = {**FILTER_ATTRS, "placeholder": placeholder(shown)}
        self.fields["q"].widget = forms.TextInput(attrs=asked)
        self.fields["state"].widget.attrs = {"list": "states-known", "autocomplete": "off"}

    def clean(self) -> dict[str, Any]:
        """The text must be a filter of events."""
        if not self.errors:
            wanted = self.wanted()
            try:
                condition_of(wanted.q, wanted.known(), wanted.now)
            except FilterError as error:
                self.add_error("q", str(error))
        return self.cleaned_data

    def wanted(self) -> Wanted:
        """Of a form that is valid."""
        given = self.cleaned_data
        return Wanted(given["scenario"], given["state"], given["q"], given["all"], now_ms())


@require_safe
@never_cache
@role_required("read")
def event_list(request: HttpRequest) -> HttpResponse:
    """Events, newest first; to a script, the part of the page that renews itself."""
    form = EventFilter(request.GET)
    valid = form.is_valid()
    wanted = form.wanted() if valid else Wanted()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    context = {
        "now": now_ms(),
        "form": form,
        "found": EVENTS.page(wanted.rows(), before) if valid else None,
        "first": not before,
        "narrowed": bool(query_of(wanted)),
        "address": request.get_full_path(),
        "query": query_of(wanted),
        "most": MOST_EXPORTED,
        "states": {spec.name: spec.label for s in scenarios().values() for spec in s.states},
    }
    return render_page(request, "board/events", context, status=200 if valid else 422)


def query_of(wanted: Wanted) -> str:
    """The filter as an address has it."""
    given = {**wanted._asdict(), "all": "on" if wanted.all else "", "now": ""}
    return urlencode({name: text for name, text in given.items() if text})


@require_safe
@never_cache
@role_required("read")
def event_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """The newest events that pass the filter as CSV or NDJSON."""
    asked = EventFilter(request.GET)
    if refusal := file_refusal(form, asked):
        return refusal
    told = {"form": form, "filter": query_of(asked.wanted())}
    note(Actor.of(request), "export.events", target=f"events.{form}", **told)
    return EVENT_FILE.response(request, form, asked.wanted().rows())
