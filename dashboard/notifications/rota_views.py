"""The pages of rotas: who is on call from when to when, and who is now."""

from __future__ import annotations

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.listing import number_of
from dashboard.core.navigation import OPERATORS
from dashboard.core.tables import Column, Table
from dashboard.core.times import now_ms, unix_ms
from dashboard.notifications.models import Rota, RotaShift
from dashboard.notifications.rota_forms import MOST_SHIFTS, RotaForm, ShiftForm
from dashboard.notifications.rota_shifts import shift_at, shifts_from

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
    rows = [(row, shift_at(row, now)) for row in _in_use().order_by("name")]
    context = {"now": now, "rows": rows, "table": ROTAS, "form": form}
    status = 422 if form.errors else 200
    return render(request, "notifications/rotas.html", context, status=status)


def _created(request: HttpRequest, form: RotaForm) -> HttpResponse:
    user = user_of(request)
    row = Rota.objects.create(
        user=user, username=user.get_username(), changed_at=now_ms(), **form.cleaned_data
    )
    note(Actor.of(request), "notify.rota.created", target=row.name, kinds=row.kinds)
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
        Rota.objects.filter(pk=row.pk).update(retired_at=now_ms())
        note(Actor.of(request), "notify.rota.retired", target=row.name)
        messages.success(request, f"The rota {row.name} is retired.")
        return redirect("notifications:rotas")
    form = RotaForm(request.POST, row)
    if not form.is_valid():
        return _page(request, row, form, ShiftForm())
    Rota.objects.filter(pk=row.pk).update(**form.cleaned_data, changed_at=now_ms())
    note(Actor.of(request), "notify.rota.changed", target=row.name, **form.cleaned_data)
    messages.success(request, "The rota is changed.")
    return redirect("notifications:rota", number)


@never_cache
@form_of("notifications:rota", "number")
@role_required("command")
def add_shift(request: HttpRequest, number: int) -> HttpResponse:
    """Add a shift to a rota."""
    row, form, now = _rota(number), ShiftForm(request.POST), now_ms()
    if form.is_valid() and shifts_from(row, now).count() >= MOST_SHIFTS:
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
    _note_shift(request, "notify.shift.added", shift)
    messages.success(request, f"{data['who']} is on call then.")
    return redirect("notifications:rota", number)


@never_cache
@form_of("notifications:rota", "number")
@role_required("command")
def remove_shift(request: HttpRequest, number: int) -> HttpResponse:
    """Remove a shift of a rota."""
    row, chosen = _rota(number), number_of(request.POST.get("shift", "")) or 0
    shift = RotaShift.objects.filter(rota=row, pk=chosen).select_related("user", "rota").first()
    if shift is not None:
        _note_shift(request, "notify.shift.removed", shift)
        shift.delete()
        messages.success(request, "The shift is removed.")
    return redirect("notifications:rota", number)


def _note_shift(request: HttpRequest, action: str, shift: RotaShift) -> None:
    note(
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
        "current": shift_at(row, now),
        "shifts": shifts_from(row, now)[:MOST_SHIFTS],
    }
    status = 422 if form.errors or shift_form.errors else 200
    return render(request, "notifications/rota.html", context, status=status)


def _in_use() -> QuerySet[Rota]:
    return Rota.objects.filter(retired_at=None)


def _rota(number: int) -> Rota:
    """Return a rota in use. Raises Http404."""
    return get_object_or_404(_in_use(), pk=number)
