"""Issuing, checking and revoking API tokens.

A token reads `tb_<prefix>_<secret>`. Its secret has 256 random bits, so one round of SHA-256 is
hash enough; the prefix finds the row and names the token to people.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from dashboard.core.accounts.models import ApiToken
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import Action
from dashboard.core.common.tables import Column, Table

SCHEME = "tb"
USE_RECORDED_EVERY = timedelta(minutes=1)
"""`last_used_at` is as coarse as this, so that a busy client does not write at each request."""

MAX_TOKENS = 50
"""Most tokens in force that one user may have."""
_LATER_COLUMNS = (
    "For", "Scopes", "Made", Column.time("Last used"), Column.time("Ends"), Column.unseen("Revoke"),
)  # fmt: skip
TOKENS = Table("tokens", "Prefix", *_LATER_COLUMNS)
ALL_TOKENS = Table("all-tokens", "Prefix", "User", *_LATER_COLUMNS)

SCOPES: dict[Action, str] = {
    "read": "read what a role shows: boards, incidents, commands, summaries",
    "command": "set, vote, release, purge, schedule, cancel, mute; change labels and rules",
    "report": "send reports, and Alertmanager's alerts",
    "metrics": "read /metrics",
}
"""What a token can be made for; the user's role must allow it too."""

_TOKEN = re.compile(rf"{SCHEME}_([0-9a-f]{{8}})_[0-9a-f]{{64}}")
_PREFIX = re.compile(r"[0-9a-f]{8}")


class TooManyTokens(ValueError):
    """The user has as many tokens in force as allowed."""


def issue(
    user: User,
    now: datetime,
    label: str = "",
    scopes: Collection[Action] = tuple(SCOPES),
    expires_at: datetime | None = None,
) -> str:
    """Make a token for `user` and return it; it cannot be had again. Raises TooManyTokens."""
    if in_force(now).filter(user=user).count() >= MAX_TOKENS:
        raise TooManyTokens(f"At most {MAX_TOKENS} tokens may be in force; revoke one first.")
    prefix = secrets.token_hex(4)
    token = f"{SCHEME}_{prefix}_{secrets.token_hex(32)}"
    ApiToken.objects.create(
        user=user,
        label=label,
        prefix=prefix,
        digest=_digest(token),
        scopes=" ".join(scope for scope in SCOPES if scope in scopes),
        created_at=now,
        expires_at=expires_at,
    )
    return token


def log_issued(actor: Actor, token: str) -> None:
    """Log that a token was made; of the token itself only the prefix."""
    row = ApiToken.objects.select_related("user").get(prefix=token.split("_")[1])
    record(
        actor,
        "token.issued",
        target=row.user.get_username(),
        token=row.prefix,
        label=row.label or None,
        scopes=row.scopes,
        ends=row.expires_at and row.expires_at.isoformat(),
    )


def find(token: str, now: datetime) -> ApiToken | None:
    """Return the token's row if it is in force and its user active, else None. Records the use."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    row = in_force(now).select_related("user").filter(prefix=match[1]).first()
    if row is None or not row.user.is_active or not compare_digest(row.digest, _digest(token)):
        return None
    if row.last_used_at is None or now - row.last_used_at >= USE_RECORDED_EVERY:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row


def revoke(user: User, prefix: str, now: datetime) -> bool:
    """Revoke the user's token with this prefix. Returns False where there is none to revoke."""
    if not _PREFIX.fullmatch(prefix):
        return False
    rows = ApiToken.objects.filter(user=user, prefix=prefix, revoked_at=None)
    return rows.update(revoked_at=now) == 1


def revoke_all(user: User, now: datetime) -> int:
    """Revoke all of the user's tokens. Returns how many were in force."""
    lasting = in_force(now).filter(user=user).count()
    ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=now)
    return lasting


def in_force(now: datetime) -> QuerySet[ApiToken]:
    """Return the tokens of all users, active or not, that are neither revoked nor expired."""
    lasting = Q(expires_at=None) | Q(expires_at__gt=now)
    return ApiToken.objects.filter(lasting, revoked_at=None)


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()
