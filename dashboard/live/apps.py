"""The live app."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from dashboard.annotations.row_marks import Mark


class LiveConfig(AppConfig):
    """Changes on their way to the browsers."""

    name = "dashboard.live"

    def ready(self) -> None:
        """Offer what this process hears to the packages below, which know of no sockets."""
        from dashboard.annotations.row_marks import marks_changed
        from dashboard.job.liveness import process_signs
        from dashboard.live.shared_live_view import live_view
        from dashboard.states.newest import overlay

        overlay.register(lambda scenario, asset: live_view().entry(scenario, asset))
        process_signs.register(lambda: live_view().signs)
        marks_changed.connect(_show_marks)


def _show_marks(scenario: str, marks: Collection[Mark], **_kwargs: object) -> None:
    """Show marks on this process's boards at once; other processes find them in the database."""
    from dashboard.live.shared_live_view import live_view

    live_view().annotate(scenario, marks)
