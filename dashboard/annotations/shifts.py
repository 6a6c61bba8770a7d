"""Shifts, and since when somebody was away. Times in Unix ms."""

from __future__ import annotations

from typing import NamedTuple

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core.cache import caches

from dashboard.annotations.models import Handover, Presence, Shift
from dashboard.core.times import DAY_MS, HOUR_MS, MINUTE_MS

# How long a shift is.
SHIFT_MS = 8 * HOUR_MS
# One that was taken over longer ago was not ended, but is over.
LONGEST_MS = 16 * HOUR_MS
# A mark of a shift's end is gone by for so long, as some do not set it each time.
MARKED_MS = 7 * DAY_MS
# Who did nothing here for so long was away.
AWAY_MS = 4 * HOUR_MS
# The same text once more within this is the same form once more.
TWICE_MS = MINUTE_MS
# How exactly it is kept when somebody last did something.
NOTED_MS = MINUTE_MS


def here(user: AbstractBaseUser | AnonymousUser, now: int) -> None:
    """Store that the user does something; a pause of hours before it is remembered."""
    assert isinstance(user, User)
    if not caches["figures"].add(f"here:{user.pk}", True, timeout=NOTED_MS // 1000):
        return
    known, made = Presence.objects.get_or_create(user=user, defaults={"last_at": now})
    if made:
        return
    if now - known.last_at > AWAY_MS:
        known.away_from = known.last_at
    known.last_at = max(now, known.last_at)
    known.save(update_fields=["last_at", "away_from"])


class Since(NamedTuple):
    """The time from which on the handover lists changes, and why from there."""

    at: int
    why: str


def last_shift(user: User, now: int) -> Since:
    """Return when the user's last shift ended, else since when they were away."""
    ended = Shift.objects.filter(user=user, ended_at__isnull=False).order_by("-ended_at").first()
    if ended is not None and ended.ended_at and now - ended.ended_at < MARKED_MS:
        return Since(ended.ended_at, "your last shift ended then")
    presence = Presence.objects.filter(user=user).first()
    if presence is not None and presence.away_from is not None:
        return Since(presence.away_from, "you were here then, and not in the 4 hours after it")
    return Since(now - SHIFT_MS, "no shift of yours is known: the last 8 hours")


def current(user: User, now: int) -> Shift | None:
    """Return the shift that the user is in, or None."""
    shifts = Shift.objects.filter(user=user, ended_at=None, began_at__gt=now - LONGEST_MS)
    return shifts.order_by("-began_at").first()


def take_over(user: User, now: int) -> Shift:
    """Begin a shift, or go on with one that is open. Returns it."""
    return current(user, now) or Shift.objects.create(
        user=user, username=user.get_username(), began_at=now
    )


def end(user: User, now: int) -> Shift:
    """End the user's shift; where none was begun, the mark stands all the same."""
    shift = current(user, now) or Shift(user=user, username=user.get_username(), began_at=now)
    shift.ended_at = now
    shift.save()
    return shift


def leave(user: User, text: str, now: int) -> bool:
    """Keep a text for the next shift; one that was sent twice in a row is kept once. Returns
    whether it was kept."""
    newest = Handover.objects.order_by("-at").first()
    if newest and (newest.user_id, newest.text) == (user.pk, text) and now - newest.at < TWICE_MS:
        return False
    Handover.objects.create(user=user, username=user.get_username(), text=text, at=now)
    return True


def shift_ends(user: User, now: int) -> int:
    """Return when the user's shift ends: eight hours after it began, or from now."""
    shift = current(user, now)
    at = shift.began_at + SHIFT_MS if shift else 0
    return at if at > now + NOTED_MS else now + SHIFT_MS
