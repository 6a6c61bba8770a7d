"""API tokens in the audit."""

from __future__ import annotations

from dashboard.accounts.models import ApiToken
from dashboard.audit.log import Actor, note


def note_issued(actor: Actor, token: str) -> None:
    """Log that a token was made; of the token itself only the prefix."""
    row = ApiToken.objects.select_related("user").get(prefix=token.split("_")[1])
    note(
        actor,
        "token.issued",
        target=row.user.get_username(),
        token=row.prefix,
        label=row.label or None,
        scopes=row.scopes,
        ends=row.expires_at and row.expires_at.isoformat(),
    )
