"""The pages of rotas."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import form_of, role_required, user_of
from dashboard.core.common.forms import UtcTimeField
from dashboard.core.common.navigation import OPERATORS
from dashboard.core.common.tables import Column, Table, number_of
from dashboard.core.common.times import DAY_MS, now_ms, unix_ms
from dashboard.notify.notifications.channels import CHANNELS
from dashboard.notify.notifications.models import MAX_TITLE, Rota, RotaShift

# ---- rota forms ----------------------------------------------------------------------------------
# Forms of a rota and of its shifts. Times in UTC.

LONGEST_SHIFT_MS = 31 * DAY_MS
MOST_SHIFTS = 1_000
"""Most shifts of a rota that are not over."""


class RotaForm(forms.Form):
    """A rota: its name, and how who is on call is reached."""

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
        """Return the name. Raises ValidationError where another rota has it."""
        name = str(self.cleaned_data["name"])
        others = Rota.objects.in_use().filter(name=name)
        if others.exclude(pk=self.row.pk if self.row else 0).exists():
            raise forms.ValidationError("Expected a name that no other rota has.")
        return name


class ShiftForm(forms.Form):
    """A user's time on call."""

    who = forms.ModelChoiceField(User.objects.none(), label="Who")
    begins = UtcTimeField(label="From (UTC)")
    ends = UtcTimeField(label="Until (UTC)")
    override = forms.BooleanField(required=False, label="Override: stands before other shifts")

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        who = self.fields["who"]
        assert isinstance(who, forms.ModelChoiceField)
        who.queryset = User.objects.filter(is_active=True).order_by("username")
        self.fields["begins"].required = self.fields["ends"].required = True

    def clean(self) -> dict[str, Any]:
        """Return the fields. An end not after the beginning, or too late, is an error of it."""
        data = super().clean() or self.cleaned_data
        begins, ends = unix_ms(data.get("begins")), unix_ms(data.get("ends"))
        if begins is not None and ends is not None and not 0 < ends - begins <= LONGEST_SHIFT_MS:
            self.add_error("ends", "Expected a time after From, within 31 days.")
        return data


# ---- rota views ----------------------------------------------------------------------------------
# The pages of rotas: who is on call from when to when, and who is now.

ROTAS = Table("rotas", "Rota", "On call now", Column.time("Until"), "Reached by")
SHIFTS = Table("", "Who", "From", "Until", "Kind", "Written by", Column.unseen("Remove"))


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read", among=OPERATORS)
def rotas(request: HttpRequest) -> HttpResponse:
    """Return the page of rotas; store a new one."""
    form = RotaForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return _created(request, form)
    now = now_ms()
    rows = [(row, row.shift_at(now)) for row in Rota.objects.in_use()]
    context = {"now": now, "rows": rows, "table": ROTAS, "form": form}
    status = 422 if form.errors else 200
    return render(request, "notifications/rotas.html", context, status=status)


def _created(request: HttpRequest, form: RotaForm) -> HttpResponse:
    user = user_of(request)
    row = Rota.objects.create(
        user=user, username=user.get_username(), changed_at=now_ms(), **form.cleaned_data
    )
    record(Actor.of(request), "notify.rota.created", target=row.name, kinds=row.kinds)
    messages.success(request, f"The rota {row.name} is made: add its shifts.")
    return redirect("notifications:rota", row.pk)


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def rota(request: HttpRequest, number: int) -> HttpResponse:
    """Return the page of one rota."""
    row = _rota(number)
    return _page(request, row, RotaForm(row=row), ShiftForm())


@never_cache
@form_of("notifications:rota", "number")
@role_required("command")
def change_rota(request: HttpRequest, number: int) -> HttpResponse:
    """Change a rota, or retire it."""
    row = _rota(number)
    if request.POST.get("do") == "retire":
        row.retire(now_ms())
        record(Actor.of(request), "notify.rota.retired", target=row.name)
        messages.success(request, f"The rota {row.name} is retired.")
        return redirect("notifications:rotas")
    form = RotaForm(request.POST, row)
    if not form.is_valid():
        return _page(request, row, form, ShiftForm())
    Rota.objects.filter(pk=row.pk).update(**form.cleaned_data, changed_at=now_ms())
    record(Actor.of(request), "notify.rota.changed", target=row.name, **form.cleaned_data)
    messages.success(request, "The rota is changed.")
    return redirect("notifications:rota", number)


@never_cache
@form_of("notifications:rota", "number")
@role_required("command")
def add_shift(request: HttpRequest, number: int) -> HttpResponse:
    """Add a shift to a rota."""
    row, form, now = _rota(number), ShiftForm(request.POST), now_ms()
    if form.is_valid() and row.shifts_from(now).count() >= MOST_SHIFTS:
        form.add_error(None, f"Expected at most {MOST_SHIFTS:,} shifts to come: remove some.")
    if not form.is_valid():
        return _page(request, row, RotaForm(row=row), form)
    data = form.cleaned_data
    shift = RotaShift.objects.create(
        rota=row,
        user=data["who"],
        begins_at=unix_ms(data["begins"]),
        ends_at=unix_ms(data["ends"]),
        override=data["override"],
        written_by=user_of(request).get_username(),
        written_at=now,
    )
    _log_shift(request, "notify.shift.added", shift)
    messages.success(request, f"{data['who']} is on call then.")
    return redirect("notifications:rota", number)


@never_cache
@form_of("notifications:rota", "number")
@role_required("command")
def remove_shift(request: HttpRequest, number: int) -> HttpResponse:
    """Remove a shift of a rota."""
    row, chosen = _rota(number), number_of(request.POST.get("shift", "")) or 0
    shift = row.shifts.filter(pk=chosen).select_related("user", "rota").first()
    if shift is not None:
        _log_shift(request, "notify.shift.removed", shift)
        shift.delete()
        messages.success(request, "The shift is removed.")
    return redirect("notifications:rota", number)


def _log_shift(request: HttpRequest, action: str, shift: RotaShift) -> None:
    record(
        Actor.of(request), action, target=shift.rota.name, who=shift.user.get_username(),
        begins_at=shift.begins_at, ends_at=shift.ends_at, override=shift.override,
    )  # fmt: skip


def _page(request: HttpRequest, row: Rota, form: RotaForm, shift_form: ShiftForm) -> HttpResponse:
    now = now_ms()
    context = {
        "now": now,
        "row": row,
        "form": form,
        "shift_form": shift_form,
        "table": SHIFTS,
        "current": row.shift_at(now),
        "shifts": row.shifts_from(now)[:MOST_SHIFTS],
    }
    status = 422 if form.errors or shift_form.errors else 200
    return render(request, "notifications/rota.html", context, status=status)


def _rota(number: int) -> Rota:
    """Return a rota in use. Raises Http404."""
    return get_object_or_404(Rota.objects.in_use(), pk=number)
