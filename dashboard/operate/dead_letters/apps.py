"""The dead letters' app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from dashboard.watch.commands.models import Command


class DeadLettersConfig(AppConfig):
    """What the job refused, and what became of it."""

    name = "dashboard.operate.dead_letters"

    def ready(self) -> None:
        """Answer commands whose dead letter came before their place in the log was known."""
        from dashboard.watch.commands.submission import command_placed

        command_placed.connect(_settle)


def _settle(row: Command, **_kwargs: object) -> None:
    from dashboard.operate.dead_letters.ingestion import settle_sent

    settle_sent(row)
