"""API tokens, first passwords, drafts and sessions as the database keeps them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.http import HttpRequest, QueryDict

from dashboard.core.accounts.sessions import forget_ended
from dashboard.core.common.access import user_of
from dashboard.core.common.retention import Retention, Thinning, delete_surplus
from dashboard.core.common.times import DAY_MS, now_ms

# ---- accounts ------------------------------------------------------------------------------------
# API tokens, of which only a hash is kept, passwords that are good for one login, drafts, and from
# where users log in.

USE_RECORDED_EVERY = timedelta(minutes=1)
"""`last_used_at` is as coarse as this, so that a busy client does not write at each request."""
_PREFIX = re.compile(r"[0-9a-f]{8}")


def digest_of(token: str) -> str:
    """Return the hash of a token that is kept."""
    return sha256(token.encode()).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """API tokens, of users active or not."""

    def not_revoked(self) -> ApiTokenQuerySet:
        """Return those that nobody has revoked, expired ones among them."""
        return self.filter(revoked_at=None)

    def in_force(self, now: datetime) -> ApiTokenQuerySet:
        """Return those that are neither revoked nor expired."""
        return self.not_revoked().filter(Q(expires_at=None) | Q(expires_at__gt=now))

    def revoke(self, prefix: str, now: datetime) -> bool:
        """Revoke the token with this prefix. Returns whether there was one to revoke."""
        if not _PREFIX.fullmatch(prefix):
            return False
        return self.not_revoked().filter(prefix=prefix).update(revoked_at=now) == 1

    def revoke_all(self, now: datetime) -> int:
        """Revoke them all. Returns how many were in force."""
        lasting = self.in_force(now).count()
        self.not_revoked().update(revoked_at=now)
        return lasting


class ApiToken(models.Model):
    """A bearer token of one user. The token itself is shown once, when it is issued.

    scopes: what it may be used for, separated by spaces; expires_at: None for no end.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    label = models.CharField(max_length=100, blank=True)
    prefix = models.CharField(max_length=8, unique=True)
    digest = models.CharField(max_length=64)
    scopes = models.CharField(max_length=100)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.prefix} of {self.user}"

    def allows(self, scope: str) -> bool:
        """Return whether the token was made for this."""
        return scope in self.scopes.split()

    def expired(self, now: datetime) -> bool:
        """Return whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now

    def matches(self, token: str) -> bool:
        """Return whether this is the row of a token."""
        return compare_digest(self.digest, digest_of(token))

    def record_use(self, now: datetime) -> None:
        """Store that the token was used, about once a minute."""
        if self.last_used_at is None or now - self.last_used_at >= USE_RECORDED_EVERY:
            ApiToken.objects.filter(pk=self.pk).update(last_used_at=now)


class FirstPasswordQuerySet(models.QuerySet["FirstPassword"]):
    """First passwords."""

    def expired(self, now: datetime) -> FirstPasswordQuerySet:
        """Return those that let nobody in any more."""
        return self.filter(ends_at__lte=now)


class FirstPassword(models.Model):
    """A note that a user's password is one that an admin has given, to be changed at its first use.

    ends_at: until then it lets somebody in.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="first_password"
    )
    ends_at = models.DateTimeField()

    objects = FirstPasswordQuerySet.as_manager()

    def __str__(self) -> str:
        return f"first password of {self.user}"


class Draft(models.Model):
    """The content that a user's form carried to another page, as in an address: `a=1&b=2`.

    kind: of the page; at: when, Unix ms.
    """

    id = models.UUIDField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)
    data = models.TextField()
    at = models.BigIntegerField(db_index=True)

    def __str__(self) -> str:
        return f"{self.kind} of {self.user}"


class KnownAddress(models.Model):
    """An address that a user has logged in from, last at `seen_at`; of IPv6 the network of 64 bits.

    Wrong passwords from elsewhere do not count against it.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="known_addresses"
    )
    address = models.CharField(max_length=45)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = (UniqueConstraint(fields=["user", "address"], name="one_known_address"),)

    def __str__(self) -> str:
        return f"{self.user} at {self.address}"


# ---- accounts ------------------------------------------------------------------------------------
# The time for which drafts and records of ended sessions are kept.

KEPT = (
    Retention("drafts of forms", Draft, "at", DAY_MS),
    Thinning("sessions that have ended", forget_ended),
)


# ---- drafts --------------------------------------------------------------------------------------
# Drafts: the content that a form carries to another page, where an address is too short for it.
#
# The form answers with a redirect to an address that names the draft, so that the page can be
# loaded again. A user sees only drafts of one's own.

DRAFTS_KEPT = 20
"""Drafts of a user, the newest."""


def keep_draft(request: HttpRequest, kind: str, data: Mapping[str, str | Sequence[str]]) -> str:
    """Store the content of a page of this kind. Returns the end of the page's address."""
    user, now = user_of(request), now_ms()
    text = urlencode(data, doseq=True)
    made = Draft.objects.create(id=uuid4(), user=user, kind=kind, data=text, at=now)
    delete_surplus(Draft.objects.filter(user=user).order_by("-at"), DRAFTS_KEPT)
    return f"?draft={made.pk}"


def find_draft(request: HttpRequest, kind: str) -> QueryDict | None:
    """Return the draft that the address names; None where it names none of this user's."""
    try:
        wanted = UUID(request.GET.get("draft", ""))
    except ValueError:
        return None
    draft = Draft.objects.filter(pk=wanted, user=user_of(request), kind=kind).first()
    return QueryDict(draft.data) if draft else None
