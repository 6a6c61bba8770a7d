"""Form fields, widgets, typed times and filters that pages share, and views for forms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.generic import FormView

from dashboard.core.common.access import (
    EVERY_ROLE,
    Action,
    Role,
    form_of,
    role_required,
    takes,
)
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import (
    FIELD_MINUTE,
    FIELD_SECOND,
    now_ms,
    unix_ms,
)
from domain.config_values import PlainError, duration, duration_text
from domain.scenario import Scenario
from domain.wall_clock import weekly

# ---- fields --------------------------------------------------------------------------------------
# Fields and widgets that several pages share.


def scenario_choices() -> list[tuple[str, str]]:
    """Return the scenarios' names and titles as choices for a field."""
    return [(each.name, each.title) for each in scenarios().values()]


class SpanField(forms.CharField):
    """A duration as text, such as `30s` or `5m`. Its clean value is in ms, or None if empty."""

    def __init__(self, *, zero: bool = False, **options: Any) -> None:
        super().__init__(max_length=20, **options)
        self._zero = zero

    def clean(self, value: Any) -> int | None:
        """Return the duration, ms, or None. Raises ValidationError."""
        text = super().clean(value)
        if not text:
            return None
        try:
            return duration(text, "", self._zero)
        except PlainError as error:
            raise forms.ValidationError(f"Expected {error.expected}.") from None

    def prepare_value(self, value: Any) -> Any:
        """Return a duration in ms as text."""
        return duration_text(value) if isinstance(value, int) else value


class LocalTimeInput(forms.DateTimeInput):
    """An input for a date and time in the viewer's time zone, which the page names beside it."""

    input_type = "datetime-local"
    template_name = "forms/local_time.html"


class UtcTimeField(forms.DateTimeField):
    """An optional date and time in UTC, to the minute, or to the second with `seconds`."""

    def __init__(self, *, label: str, seconds: bool = False, **options: Any) -> None:
        attrs: dict[str, Any] = {"type": "datetime-local"} | ({"step": 1} if seconds else {})
        form = FIELD_SECOND if seconds else FIELD_MINUTE
        super().__init__(
            label=label,
            required=False,
            widget=forms.DateTimeInput(attrs=attrs, format=form),
            error_messages={"invalid": "Expected a day and a time, as 2026-11-22T14:30."},
            **options,
        )


WEEKLY = ("weekly_until", "weekly_every", "weekly_zone", "weekly_without")
"""The fields of what recurs, which a form names behind its begin and end."""


class WeeklyForm(forms.Form):
    """A form for something that may begin again every week, at the same time of day in a zone."""

    weekly_until = forms.DateField(
        required=False,
        label="Repeat until",
        help_text="Empty: once. At most a year.",
        widget=forms.DateInput(attrs={"type": "date"}),
        error_messages={"invalid": "Expected a day, such as 2026-11-22."},
    )
    weekly_every = forms.IntegerField(
        required=False, min_value=1, max_value=12, label="Weeks apart", initial=1
    )
    weekly_zone = forms.CharField(
        required=False,
        max_length=64,
        label="Time zone",
        help_text="For the time of day, such as Europe/Berlin. Empty: UTC.",
    )
    weekly_without = forms.CharField(
        required=False,
        max_length=1_000,
        label="Except on",
        help_text="Such as 2026-12-25, 2027-01-01.",
    )

    def clean_weekly_zone(self) -> str:
        """Return the zone, UTC unless given. Raises ValidationError."""
        zone = str(self.cleaned_data["weekly_zone"]).strip() or "UTC"
        if zone not in available_timezones():
            raise forms.ValidationError("Expected an IANA time zone, such as Europe/Berlin.")
        return zone

    def clean_weekly_without(self) -> set[date]:
        """Return the days that are left out. Raises ValidationError."""
        texts = filter(None, map(str.strip, self.cleaned_data["weekly_without"].split(",")))
        try:
            return set(map(date.fromisoformat, texts))
        except ValueError:
            raise forms.ValidationError("Expected days, such as 2026-12-25, 2027-01-01.") from None

    def spans(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return when it begins and ends; begin, end: the first time, Unix ms.

        The fields must be valid.
        """
        data = self.cleaned_data
        if data.get("weekly_until") is None:
            return [(begin, end)]
        every, without = data["weekly_every"] or 1, data["weekly_without"]
        return weekly(begin, end, data["weekly_zone"], data["weekly_until"], without, every)

    def clean(self) -> dict[str, Any]:
        """Return the fields. Days on which nothing begins are an error of their field."""
        data = super().clean() or self.cleaned_data
        begin = unix_ms(data.get(self.begin_field))
        if begin is not None and not self.errors and not self._recurs(begin):
            self.add_error("weekly_until", "Expected a day on or after one on which it begins.")
        return data

    def _recurs(self, begin: int) -> bool:
        """Return whether it ever begins."""
        try:
            return bool(self.spans(begin, begin))
        except OverflowError:  # beyond the calendar
            return False

    begin_field = "begin"
    """The field with the first time."""

    def once(self) -> WeeklyForm:
        """Return the form without the fields of what recurs, to change one of these."""
        for name in WEEKLY:
            del self.fields[name]
        return self


# ---- filter forms --------------------------------------------------------------------------------
# Filters: links that narrow a list, forms with a period, and filters as query strings.


class Choice(NamedTuple):
    """A link that narrows a list. chosen: whether it is the current one."""

    title: str
    address: str
    chosen: bool


def scenario_links(chosen: Scenario, path: str = "") -> list[Choice]:
    """Return a link to the list for each scenario.

    path: the list's; by default the current page.
    """
    return [
        Choice(each.title, f"{path}?{urlencode({'scenario': each.name})}", each.name == chosen.name)
        for each in scenarios().values()
    ]


class FilterForm(forms.Form):
    """A filter in the query of a URL.

    Fields in PLACES, which name a position in the list, are dropped when the filter changes.
    """

    template_name = "forms/filter.html"

    PLACES: tuple[str, ...] = ()
    """Fields that say where in the list a page begins; they are not part of the filter."""
    SHOWING: tuple[str, ...] = ("zone",)
    """Fields that say how rows are shown, not which."""
    FEW = 2
    """Fields of a filter that always shows; a longer one of a list collapses on a phone."""
    collapses = False
    """Whether it collapses on a phone if it has many fields; what is asked for does not."""

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the query parameters that the filter reads."""
        return tuple(cls.base_fields)

    @property
    def collapsed(self) -> bool:
        """Return whether the fields collapse on a phone."""
        return self.collapses and len(self.visible_fields()) > self.FEW

    @property
    def narrowing(self) -> int:
        """Return how many of the fields narrow the list."""
        aside = (*self.PLACES, *self.SHOWING)
        return sum(bool(self._given(name)) for name in self.fields if name not in aside)

    def offer(self, name: str, choices: Sequence[tuple[str, Any]]) -> None:
        """Set a field's choices, which may be grouped."""
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        field.error_messages["invalid_choice"] = "Expected one of the choices."

    def query(self) -> str:
        """Return the filter as a query string."""
        parts = (name for name in self.fields if name not in self.PLACES)
        given = {name: self._given(name) for name in parts}
        return urlencode({name: value for name, value in given.items() if value}, doseq=True)

    def _given(self, name: str) -> Any:
        """Return what was submitted for a field, as a list if it is multiple-choice."""
        field = self.fields[name]
        if isinstance(field, forms.MultipleChoiceField):
            chosen = field.widget.value_from_datadict(self.data, {}, name) or ()
            return list(filter(None, chosen))
        return self.data.get(name)


class ListForm(FilterForm):
    """A list's filter, and the row after which a page begins."""

    collapses = True
    completes = False
    """Whether it is a line in the filter language, which the browser completes."""

    before: forms.Field | None = forms.IntegerField(
        required=False, min_value=0, max_value=2**63 - 1, widget=forms.HiddenInput
    )

    PLACES: tuple[str, ...] = ("before",)

    @property
    def narrows(self) -> bool:
        """Return whether the list shows less than by itself."""
        return bool(self.query())

    @classmethod
    def offers(cls, _text: str, _at: int) -> dict[str, Any]:
        """Return what may stand at a position of the filter. Raises Http404 if it is no line."""
        raise Http404

    def rows(self) -> QuerySet[Any]:
        """Return the rows that pass the filter. The form must be valid."""
        raise NotImplementedError

    def criteria(self) -> dict[str, Any]:
        """Return a valid form's filter, by field; times in Unix ms."""
        aside = (*self.PLACES, *self.SHOWING)
        parts = {name: self.cleaned_data[name] for name in self.fields if name not in aside}
        return {
            name: unix_ms(value) if isinstance(value, datetime) else value
            for name, value in parts.items()
        }


def time_zone_of(query: Mapping[str, Any]) -> ZoneInfo:
    """Return the zone that a URL names; UTC unless it names one that is known."""
    try:
        return ZoneInfo(str(query.get("zone") or "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


class PeriodForm(FilterForm):
    """A filter with an optional beginning and an optional end, in UTC or in the zone that the URL
    names."""

    start = UtcTimeField(label="From")
    end = UtcTimeField(label="Until")
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        for name in ("start", "end"):
            self.fields[name].label = f"{self.fields[name].label} ({self.time_zone})"

    @property
    def time_zone(self) -> ZoneInfo:
        """The zone of its times; UTC unless the URL names one that is known."""
        return time_zone_of(self.data)

    def clean(self) -> dict[str, Any]:
        """Return the cleaned data; an end not after the beginning is an error of its field."""
        data = super().clean() or self.cleaned_data
        for name in ("start", "end"):
            if data.get(name):
                data[name] = data[name].replace(tzinfo=self.time_zone)
        start, end = data.get("start"), data.get("end")
        if start and end and end <= start:
            self.add_error("end", "Expected a time after From.")
        return data


# ---- typed times ---------------------------------------------------------------------------------
# Times that users type, in their own time zones.


def typed_end(typed: str, zone: str, now: int) -> int:
    """Return the moment (Unix ms) of a date and time in the viewer's time zone.

    Raises ValidationError if it is not a valid time, or is past.
    """
    try:
        at = datetime.fromisoformat(typed)
        until = unix_ms(at if at.tzinfo else at.replace(tzinfo=_zone(zone)))
    except (ValueError, OverflowError):
        raise forms.ValidationError(
            "Expected a date and a time, such as 2030-01-31T18:00."
        ) from None
    if until <= now:
        raise forms.ValidationError("This time is past; expected a future one.")
    return until


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else timezone.get_current_timezone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


# ---- form pages ----------------------------------------------------------------------------------
# Pages that add, change and end rows.

require_form = require_http_methods(["GET", "HEAD", "POST"])


class FormPage(FormView):
    """A page with a form, or the URL that receives one of a page's forms.

    A subclass sets the attributes of Django's `FormView`. Its `form_valid` returns `done`, or
    `form_invalid`, which shows the input and its errors (422). During a request, `now` (Unix ms) is
    set, and `row` if the URL has its `number`.
    """

    permission: Action = "read"
    roles: Collection[Role] = EVERY_ROLE
    queryset: QuerySet[Any]
    form_class: Any = None
    """`forms.Form` if the page has only buttons; None if it is only read."""
    form_takes: tuple[str, ...] = ()
    """Attributes of the page passed to its form, besides the submitted data."""
    form_name = "form"
    """The form's name in the template."""
    page = ""
    """The URL name of the page with the form, if this URL only receives it."""
    page_parts: tuple[str, ...] = ("number",)
    """The parts of this URL that the page's URL takes too."""
    parameters: tuple[str, ...] = ()
    """The query parameters that the page reads."""

    now: int
    row: Any = None

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Return the view, restricted to the page's roles and never cached."""
        guard = role_required(cls.permission, cls.roles)
        view = never_cache(guard(takes(*cls.parameters)(super().as_view(**initkwargs))))
        if cls.page:
            return form_of(cls.page, *cls.page_parts)(view)
        return (require_safe if cls.form_class is None else require_form)(view)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Return the response, once the row is found. Raises Http404."""
        self.now = now_ms()
        if "number" in kwargs:
            self.row = get_object_or_404(self.get_queryset(), pk=kwargs["number"])
        return super().dispatch(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Any]:
        """Return the rows that have pages."""
        return self.queryset.all()

    def get_form_kwargs(self) -> dict[str, Any]:
        """Return the form's arguments; the data is None unless something was submitted."""
        data = self.request.POST if self.request.method == "POST" else None
        return {"data": data} | {name: getattr(self, name) for name in self.form_takes}

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the template's context: the form, the row, the time, and what is given."""
        if self.form_class is None:
            context.setdefault("form", None)
        return super().get_context_data(now=self.now, row=self.row, **context)

    def form_invalid(self, form: Any, status: int = 422) -> HttpResponse:
        """Return the page with the form as submitted."""
        context = self.get_context_data(**{self.form_name: form})
        return self.render_to_response(context, status=status)

    def done(self, words: str, to: str, *parts: Any) -> HttpResponse:
        """Redirect to a page that shows these words about what was done."""
        messages.success(self.request, words)
        return redirect(to, *parts)
