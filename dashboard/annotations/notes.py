"""Notes on assets: written, edited for some minutes and deleted by who wrote them."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import QuerySet

from dashboard.annotations.models import Note
from dashboard.annotations.row_marks import changing
from dashboard.core.rate_limits import Limit
from dashboard.core.times import MINUTE_MS

EDITED_FOR_MS = 15 * MINUTE_MS
"""How long a note may be edited."""
MOST = 500
"""Most notes of one asset."""
LIMIT = Limit("notes", 60)


class NotNow(ValueError):
    """An attempt to write, edit or delete a note that is refused; says why."""


def write(scenario: str, asset: str, user: User, text: str, now: int) -> Note:
    """Add a note. Raises NotNow where the asset has too many, TooMany."""
    LIMIT.take(user.pk, now)
    with changing(scenario, now) as changed:
        if notes_of(scenario, asset).count() >= MOST:
            raise NotNow(f"There are {MOST} notes on it already: delete some first.")
        changed.append(asset)
        name = user.get_username()
        return Note.objects.create(
            scenario=scenario, asset=asset, user=user, username=name, text=text, at=now
        )


def edit(note: Note, user: User, text: str, now: int) -> None:
    """Edit one's own note. Raises NotNow, TooMany."""
    LIMIT.take(user.pk, now)
    if not may_edit(note, user, now):
        raise NotNow("Only its author may edit a note, for 15 minutes.")
    with changing(note.scenario, now) as changed:
        note.text, note.edited_at = text, now
        note.save(update_fields=["text", "edited_at"])
        changed.append(note.asset)


def delete(note: Note, user: User, now: int) -> None:
    """Delete one's own note. Raises NotNow."""
    if not may_delete(note, user):
        raise NotNow("Only its author may delete a note.")
    with changing(note.scenario, now) as changed:
        Note.objects.filter(pk=note.pk, deleted_at=None).update(deleted_at=now)
        changed.append(note.asset)


def may_edit(note: Note, user: User, now: int) -> bool:
    """Return whether the note is the user's, and new enough."""
    return may_delete(note, user) and now - note.at < EDITED_FOR_MS


def may_delete(note: Note, user: User) -> bool:
    """Return whether the note is the user's, and not deleted."""
    return note.deleted_at is None and note.user_id == user.pk


def notes_of(scenario: str, asset: str) -> QuerySet[Note]:
    """Return the notes that are shown, newest first."""
    shown = Note.objects.filter(scenario=scenario, asset=asset, deleted_at=None)
    return shown.order_by("-at", "-pk")
