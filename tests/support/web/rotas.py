"""Rotas, and who is on call."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from dashboard.core.common.times import now_ms
from dashboard.notify.notifications.models import Rota, RotaShift


def make_rota(name: str = "Night") -> Rota:
    """Store a rota that sends mail; return it."""
    return Rota.objects.create(name=name, kinds=["mail"], changed_at=1, username="olga")


def put_on_call(rota: Rota, name: str, begin: int = 0, end: int | None = None, **more: Any) -> User:
    """Store a new user with a mail address, who is on call; return the user.

    begin, end: Unix ms, by default before and long after now; more: of the shift.
    """
    user = User.objects.create(username=name, email=f"{name}@example.org")
    times = {"begins_at": begin, "ends_at": 2 * now_ms() if end is None else end}
    RotaShift.objects.create(
        rota=rota, user=user, **{"written_by": "olga", "written_at": 1} | times | more
    )
    return user
