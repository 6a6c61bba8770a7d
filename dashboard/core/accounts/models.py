"""API tokens, first passwords, drafts and known addresses in the database."""

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
# API tokens (stored only as hashes), passwords for one login, drafts, and the addresses that users
# log in from.

USE_RECORDED_EVERY = timedelta(minutes=1)
"""Granularity of `last_used_at`, so that a busy client does not write with each request."""
_PREFIX = re.compile(r"[0-9a-f]{8}")


def digest_of(token: str) -> str:
    """Return the hash of a token, which is what the database stores."""
    return sha256(token.encode()).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """API tokens, of active and inactive users."""

    def not_revoked(self) -> ApiTokenQuerySet:
        """Return the tokens that are not revoked, including expired ones."""
        return self.filter(revoked_at=None)

    def in_force(self, now: datetime) -> ApiTokenQuerySet:
        """Return the tokens that are neither revoked nor expired."""
        return self.not_revoked().filter(Q(expires_at=None) | Q(expires_at__gt=now))

    def revoke(self, prefix: str, now: datetime) -> bool:
        """Revoke the token with this prefix, and return whether there was one to revoke."""
        if not _PREFIX.fullmatch(prefix):
            return False
        return self.not_revoked().filter(prefix=prefix).update(revoked_at=now) == 1

    def revoke_all(self, now: datetime) -> int:
        """Revoke all tokens, and return how many were in force."""
        lasting = self.in_force(now).count()
        self.not_revoked().update(revoked_at=now)
        return lasting


class ApiToken(models.Model):
    """A bearer token of one user. The token itself is shown only once, when it is issued.

    scopes: what it may be used for, separated by spaces; expires_at: None for no expiry.
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
        """Return whether the token has this scope."""
        return scope in self.scopes.split()

    def expired(self, now: datetime) -> bool:
        """Return whether the token has expired."""
        return self.expires_at is not None and self.expires_at <= now

    def matches(self, token: str) -> bool:
        """Return whether this row belongs to the token."""
        return compare_digest(self.digest, digest_of(token))

    def record_use(self, now: datetime) -> None:
        """Store that the token was used, at most once a minute."""
        if self.last_used_at is None or now - self.last_used_at >= USE_RECORDED_EVERY:
            ApiToken.objects.filter(pk=self.pk).update(last_used_at=now)


class FirstPasswordQuerySet(models.QuerySet["FirstPassword"]):
    """First passwords."""

    def expired(self, now: datetime) -> FirstPasswordQuerySet:
        """Return the first passwords that have expired."""
        return self.filter(ends_at__lte=now)


class FirstPassword(models.Model):
    """Marks a user's password as given by an admin, and to be changed at its first use.

    ends_at: when it expires.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="first_password"
    )
    ends_at = models.DateTimeField()

    objects = FirstPasswordQuerySet.as_manager()

    def __str__(self) -> str:
        return f"first password of {self.user}"


class Draft(models.Model):
    """The content that a user's form passed to another page, as a query string: `a=1&b=2`.

    kind: of the page; at: when it was stored, Unix ms.
    """

    id = models.UUIDField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)
    data = models.TextField()
    at = models.BigIntegerField(db_index=True)

    def __str__(self) -> str:
        return f"{self.kind} of {self.user}"


class KnownAddress(models.Model):
    """An address that a user has logged in from, last at `seen_at`; for IPv6 the /64 network.

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
# How long drafts and records of ended sessions are kept.

KEPT = (
    Retention("drafts of forms", Draft, "at", DAY_MS),
    Thinning("sessions that have ended", forget_ended),
)


# ---- drafts --------------------------------------------------------------------------------------
# Drafts: content that a form passes to another page when an address is too short for it.
#
# The form answers with a redirect to an address with the draft's id, so that the page can be
# reloaded. Users see only their own drafts.

DRAFTS_KEPT = 20
"""Most drafts kept per user, the newest ones."""


def keep_draft(request: HttpRequest, kind: str, data: Mapping[str, str | Sequence[str]]) -> str:
    """Store the content of a page of this kind, and return the query string that refers to it."""
    user, now = user_of(request), now_ms()
    text = urlencode(data, doseq=True)
    made = Draft.objects.create(id=uuid4(), user=user, kind=kind, data=text, at=now)
    delete_surplus(Draft.objects.filter(user=user).order_by("-at", "-pk"), DRAFTS_KEPT)
    return f"?draft={made.pk}"


def find_draft(request: HttpRequest, kind: str) -> QueryDict | None:
    """Return the draft that the address refers to; None if there is none of this user's."""
    try:
        key = UUID(request.GET.get("draft", ""))
    except ValueError:
        return None
    draft = Draft.objects.filter(pk=key, user=user_of(request), kind=kind).first()
    return QueryDict(draft.data) if draft else None
