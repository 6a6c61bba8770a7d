"""How long what was is kept."""

from __future__ import annotations

HIDDEN_KEPT_MS = 7 * 86_400_000
"""How long a purged row is kept hidden, so that a replay cannot bring the asset back."""
HISTORY_KEPT_MS = 90 * 86_400_000
"""How long transitions and answers are kept."""
