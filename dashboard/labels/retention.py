"""Retention of label files, and of the labels of purged assets."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from dashboard.core.retention import Retention, delete_rows
from dashboard.core.times import DAY_MS
from dashboard.labels.models import BEGUN, CANCELLED, DONE, STOPPED, LabelUpload
from dashboard.labels.writer import forget, labelled
from dashboard.states.models import AssetState
from dashboard.states.retention import HIDDEN_KEPT_MS

UPLOADS_KEPT_MS = 90 * DAY_MS
REVIEWS_KEPT_MS = DAY_MS
UPLOADS_OF_USER = 10
"""Most tables of one user that are kept: the newest."""


def _delete_assets(rows: QuerySet[AssetState]) -> int:
    """Delete purged assets with their labels. Returns how many."""
    by_scenario: dict[str, list[str]] = {}
    for scenario, asset in rows.values_list("scenario", "asset"):
        by_scenario.setdefault(scenario, []).append(asset)
    for scenario, assets in by_scenario.items():
        if labelled(scenario).filter(asset__in=assets).exists():
            forget(scenario, assets)
    return delete_rows(rows)


KEPT = (
    Retention(
        "purged assets, hidden",
        AssetState,
        "purged_at",
        HIDDEN_KEPT_MS,
        condition=Q(purged=True),
        delete=_delete_assets,
    ),
    Retention(
        "label files",
        LabelUpload,
        "sent_at",
        UPLOADS_KEPT_MS,
        condition=Q(status__in=(STOPPED, DONE, CANCELLED)),
    ),
    Retention(
        "label files that nobody applied",
        LabelUpload,
        "sent_at",
        REVIEWS_KEPT_MS,
        condition=~Q(status__in=BEGUN),
    ),
)
