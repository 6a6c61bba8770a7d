"""The pages of rotas."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import form_of, role_required, user_of
from dashboard.core.common.forms import WEEKLY, FormPage, UtcTimeField, WeeklyForm
from dashboard.core.common.navigation import OPERATORS
from dashboard.core.common.tables import Column, Table, number_of
from dashboard.core.common.times import DAY_MS, unix_ms
from dashboard.notify.notifications.channels import CHANNELS
from dashboard.notify.notifications.models import MAX_TITLE, Rota, RotaShift
from dashboard.notify.notifications.outbox import targets_of_user

# ---- rota forms ----------------------------------------------------------------------------------
# The forms of a rota and its shifts. Times in UTC.

LONGEST_SHIFT_MS = 31 * DAY_MS
MOST_SHIFTS = 1_000
"""Most shifts of a rota that have not ended."""


class RotaForm(forms.Form):
    """A rota: its name, and how the person on call is reached."""

    name = forms.CharField(max_length=MAX_TITLE, label="Name")
    kinds = forms.MultipleChoiceField(
        label="Reached by",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Expected at least one way."},
    )

    def __init__(self, data: Any = None, row: Rota | None = None) -> None:
        initial = {"name": row.name, "kinds": row.kinds} if row else {"kinds": ["mail"]}
        super().__init__(data, initial=initial)
        self.row = row
        kinds = self.fields["kinds"]
        assert isinstance(kinds, forms.ChoiceField)
        kinds.choices = [
            (name, CHANNELS[name].label) for name in ("mail", "push") if name in CHANNELS
        ]

    def clean_name(self) -> str:
        """Return the name. Raises ValidationError if another rota has it."""
        name = str(self.cleaned_data["name"])
        others = Rota.objects.in_use().filter(name=name)
        if others.exclude(pk=self.row.pk if self.row else 0).exists():
            raise forms.ValidationError("Expected a name that no other rota has.")
        return name


class ShiftForm(WeeklyForm):
    """A user's time on call, once or again every so many weeks."""

    begin_field = "begins"
    field_order = ("who", "begins", "ends", *WEEKLY)

    who = forms.ModelChoiceField(User.objects.none(), label="Who")
    begins = UtcTimeField(label="From (UTC)")
    ends = UtcTimeField(label="Until (UTC)")
    override = forms.BooleanField(
        required=False, label="Override: takes precedence over other shifts"
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        who = self.fields["who"]
        assert isinstance(who, forms.ModelChoiceField)
        who.queryset = User.objects.filter(is_active=True).order_by("username")
        self.fields["begins"].required = self.fields["ends"].required = True

    def clean(self) -> dict[str, Any]:
        """Return the fields. An end before the beginning, or too late, is an error of its field."""
        data = super().clean() or self.cleaned_data
        begins, ends = unix_ms(data.get("begins")), unix_ms(data.get("ends"))
        if begins is not None and ends is not None and not 0 < ends - begins <= LONGEST_SHIFT_MS:
            self.add_error("ends", "Expected a time after From, within 31 days.")
        return data


# ---- rota views ----------------------------------------------------------------------------------
# The pages of rotas: who is on call when, and who is now.

ROTAS = Table("rotas", "Rota", "On call now", Column.time("Until"), "Reached by")
SHIFTS = Table("", "Who", "From", "Until", "Kind", "Added by", Column.unseen("Remove"))


class RotaList(FormPage):
    """The page of rotas, which also creates one."""

    template_name = "notifications/rotas.html"
    form_class = RotaForm
    roles = OPERATORS

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the rotas with their current shifts."""
        rows = [(row, row.shift_at(self.now)) for row in Rota.objects.in_use()]
        return super().get_context_data(rows=rows, table=ROTAS, **context)

    def form_valid(self, form: Any) -> HttpResponse:
        """Create the rota."""
        user = user_of(self.request)
        row = Rota.objects.create(
            user=user, username=user.get_username(), changed_at=self.now, **form.cleaned_data
        )
        record(Actor.of(self.request), "notify.rota.created", target=row.name, kinds=row.kinds)
        words = f"Created the rota {row.name}: now add its shifts."
        return self.done(words, "notifications:rota", row.pk)


class RotaPage(FormPage):
    """The page of one rota."""

    queryset = Rota.objects.in_use()
    template_name = "notifications/rota.html"
    roles = OPERATORS

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the rota, its shifts, and the forms that change them."""
        shifts = list(self.row.shifts_from(self.now)[:MOST_SHIFTS])
        people, kinds = {shift.user for shift in shifts}, self.row.kinds
        shown = {
            "form": RotaForm(row=self.row),
            "shift_form": ShiftForm(),
            "table": SHIFTS,
            "current": self.row.shift_at(self.now),
            "shifts": shifts,
            "unreachable": {each.pk for each in people if not targets_of_user(each, kinds)},
        }
        return super().get_context_data(**shown | context)


class RotaChange(RotaPage):
    """Changes a rota, or retires it."""

    permission = "command"
    page = "notifications:rota"
    form_class = RotaForm
    form_takes = ("row",)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Retire the rota, or change it."""
        if request.POST.get("do") != "retire":
            return super().post(request, *args, **kwargs)
        self.row.retire(self.now)
        record(Actor.of(request), "notify.rota.retired", target=self.row.name)
        return self.done(f"The rota {self.row.name} is retired.", "notifications:rotas")

    def form_valid(self, form: Any) -> HttpResponse:
        """Change the rota."""
        row, data = self.row, form.cleaned_data
        Rota.objects.filter(pk=row.pk).update(**data, changed_at=self.now)
        record(Actor.of(self.request), "notify.rota.changed", target=row.name, **data)
        return self.done("The rota is saved.", self.page, row.pk)


class ShiftAddition(RotaPage):
    """Adds a shift to a rota."""

    permission = "command"
    page = "notifications:rota"
    form_class = ShiftForm
    form_name = "shift_form"

    def form_valid(self, form: Any) -> HttpResponse:
        """Add the shifts, unless there are too many upcoming ones."""
        row, data = self.row, form.cleaned_data
        spans = form.spans(unix_ms(data["begins"]), unix_ms(data["ends"]))
        if row.shifts_from(self.now).count() + len(spans) > MOST_SHIFTS:
            form.add_error(None, f"Expected at most {MOST_SHIFTS:,} upcoming shifts: remove some.")
            return self.form_invalid(form)
        shifts = [
            RotaShift(
                rota=row,
                user=data["who"],
                begins_at=begins_at,
                ends_at=ends_at,
                override=data["override"],
                written_by=user_of(self.request).get_username(),
                written_at=self.now,
            )
            for begins_at, ends_at in spans
        ]
        RotaShift.objects.bulk_create(shifts)
        _log_shift(self.request, "notify.shift.added", shifts[0], shifts=len(shifts))
        times = "then" if len(shifts) == 1 else f"at {len(shifts)} times"
        return self.done(f"{data['who']} is on call {times}.", self.page, row.pk)


@never_cache
@form_of("notifications:rota", "number")
@role_required("command")
def remove_shift(request: HttpRequest, number: int) -> HttpResponse:
    """Remove a shift of a rota."""
    row = get_object_or_404(Rota.objects.in_use(), pk=number)
    chosen = number_of(request.POST.get("shift", "")) or 0
    shift = row.shifts.filter(pk=chosen).select_related("user", "rota").first()
    if shift is not None:
        _log_shift(request, "notify.shift.removed", shift)
        shift.delete()
        messages.success(request, "The shift is removed.")
    return redirect("notifications:rota", number)


def _log_shift(request: HttpRequest, action: str, shift: RotaShift, **more: Any) -> None:
    record(
        Actor.of(request), action, target=shift.rota.name, who=shift.user.get_username(),
        begins_at=shift.begins_at, ends_at=shift.ends_at, override=shift.override, **more,
    )  # fmt: skip
