"""The live app."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from dashboard.watch.annotations.row_marks import RowMark


class LiveConfig(AppConfig):
    """Changes on their way to the browsers."""

    name = "dashboard.board.live"

    def ready(self) -> None:
        """Offer what this process hears to the packages below, which know of no sockets."""
        from dashboard.board.live.live_view import live_view
        from dashboard.core.job.liveness import process_signs
        from dashboard.core.states.stores import overlay
        from dashboard.watch.annotations.row_marks import marks_changed

        overlay.register(lambda scenario, asset: live_view().entry(scenario, asset))
        process_signs.register(lambda: live_view().signs)
        marks_changed.connect(_show_marks)


def _show_marks(scenario: str, marks: Collection[RowMark], **_kwargs: object) -> None:
    """Show marks on this process's boards at once; other processes find them in the database."""
    from dashboard.board.live.live_view import live_view

    live_view().annotate(scenario, marks)
