"""The dead letters' app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from dashboard.watch.commands.models import Command


class DeadLettersConfig(AppConfig):
    """The app for records that the job refused, and what became of them."""

    name = "dashboard.operate.dead_letters"

    def ready(self) -> None:
        """Settle commands whose place in the log becomes known after their dead letter arrived."""
        from dashboard.watch.commands.submission import command_placed

        command_placed.connect(_settle)


def _settle(row: Command, **_kwargs: object) -> None:
    from dashboard.operate.dead_letters.ingestion import settle_sent

    settle_sent(row)
