"""Issuing, checking and revoking API tokens.

A token reads `tb_<prefix>_<secret>`. Its secret has 256 random bits, so one round of SHA-256 is
hash enough; the prefix finds the row and names the token to people.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest

from django.contrib.auth.models import User

from dashboard.accounts.models import ApiToken

SCHEME = "tb"
USE_NOTED_EVERY = timedelta(minutes=1)
"""`last_used_at` is as coarse as this, so that a busy client does not write at each request."""


def issue(user: User, now: datetime, label: str = "") -> str:
    """Make a token for `user` and return it; it cannot be had again."""
    prefix = secrets.token_hex(4)
    token = f"{SCHEME}_{prefix}_{secrets.token_hex(32)}"
    ApiToken.objects.create(
        user=user, label=label, prefix=prefix, digest=_digest(token), created_at=now
    )
    return token


def holder(token: str, now: datetime) -> User | None:
    """The active user whose unrevoked token this is, or None. Notes the use."""
    parts = token.split("_")
    if len(parts) != 3 or parts[0] != SCHEME:
        return None
    row = ApiToken.objects.select_related("user").filter(prefix=parts[1]).first()
    if row is None or not compare_digest(row.digest, _digest(token)):
        return None
    if row.revoked_at is not None or not row.user.is_active:
        return None
    if row.last_used_at is None or now - row.last_used_at >= USE_NOTED_EVERY:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row.user


def revoke(user: User, prefix: str, now: datetime) -> bool:
    """Revoke the user's token with this prefix; False where there is no such token in force."""
    found = ApiToken.objects.filter(user=user, prefix=prefix, revoked_at=None)
    return found.update(revoked_at=now) == 1


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()
