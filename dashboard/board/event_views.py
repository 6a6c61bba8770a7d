"""The page of what happens on all boards, and the same as a file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.exports import export
from dashboard.board.events import EVENT_FILE, EVENT_TABLE, EVENTS, EVERY, Wanted
from dashboard.core.access import role_required
from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import FilterForm
from dashboard.core.pages import render_page
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.filter_language.parser import MAX_TEXT, FilterError
from dashboard.filters.event_filter import condition_of
from dashboard.filters.examples import placeholder
from domain.names import MAX_STATE

MAX_ID = 2**63 - 1
ALL_QUERY = urlencode({"scenario": EVERY})
"""The address's filter that lets the events of all boards pass."""


class FilterText(forms.TextInput):
    """An input of a filter, with a list of what may be typed next."""

    input_type = "search"
    template_name = "forms/filter_text.html"

    def __init__(self) -> None:
        super().__init__(
            attrs={
                "autocomplete": "off",
                "spellcheck": "false",
                "role": "combobox",
                "aria-autocomplete": "list",
                "aria-expanded": "false",
                "aria-controls": "offers",
            }
        )


class EventFilter(FilterForm):
    """What the address asks for."""

    scenario = forms.ChoiceField(required=False)
    state = forms.CharField(required=False, max_length=MAX_STATE, label="To state")
    q = forms.CharField(required=False, max_length=MAX_TEXT, label="Filter", widget=FilterText)
    all = forms.BooleanField(required=False, label="Include reminders and ended pins")
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_ID, widget=forms.HiddenInput
    )

    PLACES = ("before",)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        groups = [("", "Boards with severity"), (EVERY, "All boards")]
        self.offer("scenario", [*groups, *scenario_choices()])
        shown = scenarios().get(self.data.get("scenario", "")) or next(iter(scenarios().values()))
        self.fields["q"].widget.attrs["placeholder"] = placeholder(shown)
        self.fields["state"].widget.attrs = {"list": "states-known", "autocomplete": "off"}

    def clean(self) -> dict[str, Any]:
        """Return the cleaned data; add an error if the text is not a filter of events."""
        if not self.errors:
            wanted = self.wanted()
            try:
                condition_of(wanted.q, wanted.known(), wanted.now)
            except FilterError as error:
                self.add_error("q", str(error))
        return self.cleaned_data

    def wanted(self) -> Wanted:
        """Return the filter of a valid form."""
        given = self.cleaned_data
        return Wanted(given["scenario"], given["state"], given["q"], given["all"], now_ms())


@require_safe
@never_cache
@role_required("read")
def event_list(request: HttpRequest) -> HttpResponse:
    """List events, newest first; for a script, the part of the page that refreshes itself."""
    form = EventFilter(request.GET)
    valid = form.is_valid()
    wanted = form.wanted() if valid else Wanted()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    query = form.query() if valid else ""
    context = {
        "now": now_ms(),
        "form": form,
        "table": EVENT_TABLE,
        "narrowed": query not in ("", ALL_QUERY),
        "all_query": ALL_QUERY,
        "address": request.get_full_path(),
        **EVENTS.context(wanted.rows() if valid else None, before, query),
        "states": {spec.name: spec.label for s in scenarios().values() for spec in s.states},
    }
    return render_page(request, "board/events", context, status=200 if valid else 422)


@require_safe
@never_cache
@role_required("read")
def event_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the newest events that pass the filter as CSV or NDJSON."""
    filter_form = EventFilter(request.GET)
    return export(request, EVENT_FILE, form, filter_form, lambda: filter_form.wanted().rows())
