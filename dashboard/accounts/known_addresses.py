"""Addresses that users have logged in from: guesses from elsewhere keep nobody out there."""

from __future__ import annotations

from datetime import timedelta

from allauth.core.internal.ratelimit import get_ip
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from dashboard.accounts.models import KnownAddress

# How long after the last login from there.
KNOWN_FOR = timedelta(days=90)
# Most addresses of one user: those last logged in from.
MOST = 20


def note_login(request: HttpRequest, user: User) -> None:
    """Store the address that a user has logged in from."""
    now, mine = timezone.now(), KnownAddress.objects.filter(user=user)
    KnownAddress.objects.update_or_create(
        user=user, address=get_ip(request), defaults={"seen_at": now}
    )
    newest = mine.filter(seen_at__gt=now - KNOWN_FOR).order_by("-seen_at", "-pk")
    kept = list(newest.values_list("pk", flat=True)[:MOST])
    mine.exclude(pk__in=kept).delete()


def is_known(request: HttpRequest, name: str) -> bool:
    """Return whether the user of this name has logged in from the request's address."""
    since = timezone.now() - KNOWN_FOR
    known = KnownAddress.objects.filter(user__username__iexact=name, seen_at__gt=since)
    return known.filter(address=get_ip(request)).exists()
