"""The time for which annotations are kept. Notes that are shown stay with the assets' names."""

from __future__ import annotations

from django.db.models import Q

from dashboard.annotations.models import Acknowledgement, Handover, Mark, Note, Shift
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS

KEPT_MS = 90 * DAY_MS
MARK_KEPT_MS = DAY_MS
"""How long a mark of nothing is kept: by then every live process has seen it."""

KEPT = (
    Retention("acknowledgements that have ended", Acknowledgement, "until", KEPT_MS),
    Retention("deleted notes", Note, "deleted_at", KEPT_MS),
    Retention("shifts", Shift, "began_at", KEPT_MS),
    Retention("texts for the next shift", Handover, "at", at_most=1_000),
    Retention(
        "marks of what is no longer annotated",
        Mark,
        "changed_at",
        MARK_KEPT_MS,
        condition=Q(notes=0),
        also_past="ack_until",
    ),
)
