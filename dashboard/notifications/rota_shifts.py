"""The shifts of a rota. Times in Unix ms."""

from __future__ import annotations

from django.db.models import QuerySet

from dashboard.notifications.models import Rota, RotaShift


def shift_at(rota: Rota, at: int) -> RotaShift | None:
    """Return the shift that counts at a time: an override before others, the last written first.

    Shifts of users who are not active do not count.
    """
    return _shifts(rota).filter(begins_at__lte=at, ends_at__gt=at).first()


def shifts_from(rota: Rota, at: int) -> QuerySet[RotaShift]:
    """Return the shifts that are not over at a time, in their order."""
    rows = RotaShift.objects.filter(rota=rota, ends_at__gt=at).select_related("user")
    return rows.order_by("begins_at", "pk")


def _shifts(rota: Rota) -> QuerySet[RotaShift]:
    rows = RotaShift.objects.filter(rota=rota, user__is_active=True).select_related("user")
    return rows.order_by("-override", "-written_at", "-pk")
