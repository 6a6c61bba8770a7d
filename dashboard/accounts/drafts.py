"""Drafts: the content that a form carries to another page, where an address is too short for it.

The form answers with a redirect to an address that names the draft, so that the page can be loaded
again. A user sees only drafts of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.http import HttpRequest, QueryDict

from dashboard.accounts.models import Draft
from dashboard.core.access import user_of
from dashboard.core.retention import delete_surplus
from dashboard.core.times import now_ms

KEPT = 20
"""Drafts of a user, the newest."""


def keep(request: HttpRequest, kind: str, data: Mapping[str, str | Sequence[str]]) -> str:
    """Store the content of a page of this kind. Returns the end of the page's address."""
    user, now = user_of(request), now_ms()
    text = urlencode(data, doseq=True)
    made = Draft.objects.create(id=uuid4(), user=user, kind=kind, data=text, at=now)
    delete_surplus(Draft.objects.filter(user=user).order_by("-at"), KEPT)
    return f"?draft={made.pk}"


def found(request: HttpRequest, kind: str) -> QueryDict | None:
    """Return the draft that the address names; None where it names none of this user's."""
    try:
        wanted = UUID(request.GET.get("draft", ""))
    except ValueError:
        return None
    draft = Draft.objects.filter(pk=wanted, user=user_of(request), kind=kind).first()
    return QueryDict(draft.data) if draft else None
