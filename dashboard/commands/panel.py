"""The command forms of one asset, ready for a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from dashboard.commands.following import progress, recent
from dashboard.commands.forms import FORMS, CommandForm
from dashboard.commands.models import Command as Row
from dashboard.commands.sending import now_ms
from domain.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Offer:
    """One form and where it goes; `open` where the user is at it."""

    form: CommandForm
    url: str
    open: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """The forms of one asset. `bound`: the one that came back; `command`: one to follow."""

    scenario: Scenario
    asset: str
    record: dict[str, Any] | None
    bound: CommandForm | None = None
    command: Row | None = None

    def context(self) -> dict[str, Any]:
        """What `commands/_forms.html` needs."""
        now = now_ms()
        return {
            "scenario": self.scenario,
            "asset": self.asset,
            "record": self.record,
            "offers": {kind: self._offer(kind) for kind in FORMS},
            "asset_url": asset_url(self.scenario.name, self.asset),
            "command": self.command,
            "progress": progress(self.command, now) if self.command else None,
            "recent": recent(self.scenario.name, self.asset, now),
            "may_command": True,
        }

    def _offer(self, kind: str) -> Offer:
        url = reverse("commands:command", args=(self.scenario.name, kind, self.asset))
        if self.bound is not None and self.bound.kind == kind:
            return Offer(self.bound, url, open=True)
        seen = str((self.record or {}).get("version", ""))
        return Offer(FORMS[kind](self.scenario, seen=seen), url, open=False)


def asset_url(scenario: str, asset: str) -> str:
    """Where the board shows the asset."""
    return reverse("board:asset", args=(scenario, asset))
