"""The addresses that a line about an asset's time has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils.http import urlencode

from dashboard.states.board_rows import asset_path

if TYPE_CHECKING:
    from dashboard.summaries.models import SpanRow


class AssetLinks:
    """What lines of lists have in common: the addresses of the asset of their row."""

    row: SpanRow

    @property
    def url(self) -> str:
        """The address of the asset's page."""
        return asset_path(self.row.scenario, self.row.asset)

    @property
    def events(self) -> str:
        """The address of the changes of the asset."""
        query = {"scenario": self.row.scenario, "q": f'"{self.row.asset}"'}
        return f"{reverse('board:events')}?{urlencode(query)}"
