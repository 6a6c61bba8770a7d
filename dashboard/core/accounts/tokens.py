"""Issuing and checking API tokens.

A token has the form `tb_<prefix>_<secret>`. Its secret has 256 random bits, so a single round of
SHA-256 is enough; the prefix finds the row and identifies the token to people.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User

from dashboard.core.accounts.models import ApiToken, digest_of
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import Action
from dashboard.core.common.tables import Column, Table

SCHEME = "tb"
MAX_TOKENS = 50
"""Most tokens in force per user."""
_LATER_COLUMNS = (
    "Purpose", "Scopes", "Created", Column.time("Last used"), Column.time("Expires"),
    Column.unseen("Revoke"),
)  # fmt: skip
TOKENS = Table("tokens", "Prefix", *_LATER_COLUMNS)
ALL_TOKENS = Table("all-tokens", "Prefix", "User", *_LATER_COLUMNS)

SCOPES: dict[Action, str] = {
    "read": "read what a role shows: boards, incidents, commands, summaries",
    "command": "set, vote, release, purge, schedule, cancel, mute; change labels and rules",
    "report": "send reports, and Alertmanager's alerts",
    "metrics": "read /metrics",
}
"""The scopes of a token; the user's role must allow them too."""

_TOKEN = re.compile(rf"{SCHEME}_([0-9a-f]{{8}})_[0-9a-f]{{64}}")


class TooManyTokens(ValueError):
    """The user has as many tokens in force as allowed."""


def issue(
    user: User,
    now: datetime,
    label: str = "",
    scopes: Collection[Action] = tuple(SCOPES),
    expires_at: datetime | None = None,
) -> str:
    """Create a token for `user` and return it; it cannot be shown again. Raises TooManyTokens."""
    if user.api_tokens.in_force(now).count() >= MAX_TOKENS:
        raise TooManyTokens(f"At most {MAX_TOKENS} tokens may be in force; revoke one first.")
    prefix = secrets.token_hex(4)
    token = f"{SCHEME}_{prefix}_{secrets.token_hex(32)}"
    user.api_tokens.create(
        label=label,
        prefix=prefix,
        digest=digest_of(token),
        scopes=" ".join(scope for scope in SCOPES if scope in scopes),
        created_at=now,
        expires_at=expires_at,
    )
    return token


def log_issued(actor: Actor, token: str) -> None:
    """Record in the audit that a token was created, with only the prefix of the token itself."""
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
    """Return the token's row if it is in force and its user active, else None. Records its use."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    row = ApiToken.objects.in_force(now).select_related("user").filter(prefix=match[1]).first()
    if row is None or not row.user.is_active or not row.matches(token):
        return None
    row.record_use(now)
    return row
