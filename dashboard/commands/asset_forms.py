"""The command forms of one asset, ready for a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.safestring import SafeString

from dashboard.commands.forms import (
    FORMS,
    CommandForm,
    ScheduleForm,
    asked_again,
    kept_of,
    shown,
)
from dashboard.commands.models import Command as Row
from dashboard.commands.purge_warnings import returning
from dashboard.commands.stale_forms import MOVED_ON, changes, read_sight
from dashboard.commands.status import progress
from dashboard.core.times import now_ms
from dashboard.rules.active_rule import as_carried
from domain.scenario import Scenario
from domain.version import Version
from wire.sink import StateValue


@dataclass(frozen=True, slots=True)
class Offer:
    """A form and where it goes; `open` where the user is at it.

    changes: what has changed since the form's page was made, where that is why it came back;
    warning: what is to be confirmed of a task before it is scheduled.
    """

    form: CommandForm
    url: str
    open: bool
    changes: tuple[SafeString, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A form that an address opens: of which command, with which state chosen."""

    kind: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """The forms of one asset. `bound`: the one that came back, with what has changed since its page
    was made; `command`: one to follow."""

    scenario: Scenario
    asset: str
    record: StateValue | None
    bound: CommandForm | None = None
    changes: tuple[SafeString, ...] = ()
    command: Row | None = None
    user_id: int | None = None
    begun: Begun = Begun()

    def context(self) -> dict[str, Any]:
        """Return the context of `commands/_forms.html`."""
        now = now_ms()
        return {
            "scenario": self.scenario,
            "asset": self.asset,
            "record": self.record,
            "offers": {kind: self._offer(kind, now) for kind in FORMS},
            "asset_url": asset_url(self.scenario.name, self.asset),
            "command": self.command,
            "progress": progress(self.command, now) if self.command else None,
            "again": self.again(now),
            "returning": returning(as_carried(self.scenario), self.record, now),
            "may_command": True,
            "now": now,
        }

    def again(self, now: int) -> Offer | None:
        """Return the followed command's form once more, if the job found it too late; else None."""
        row = self.command
        if row is None or row.source != "form" or row.user_id != self.user_id:
            return None
        if row.status != "answered" or row.outcome not in MOVED_ON:
            return None
        form = asked_again(self.scenario, row, self.record, now)
        return self._returned(form, self._since(row, now))

    def _since(self, row: Row, now: int) -> tuple[SafeString, ...]:
        seen = Version.parse(row.if_version) if row.if_version else None
        sight = read_sight(kept_of(row).get("sight", ""))
        return tuple(changes(self.scenario, self.asset, seen, sight, self.record, now))

    def _offer(self, kind: str, now: int) -> Offer:
        if self.bound is not None and self.bound.kind == kind:
            return self._returned(self.bound, self.changes)
        showing, begun = shown(self.record, now), self.begun.kind == kind
        if begun and self.scenario.knows(self.begun.state):
            showing["state"] = self.begun.state
        form = FORMS[kind](self.scenario, showing=showing)
        if begun:
            form.begin()
        return Offer(form, _url(self.scenario, kind, self.asset), open=begun)

    def _returned(self, form: CommandForm, since: tuple[SafeString, ...]) -> Offer:
        """Return a form that came back. since: what has changed since its page was made."""
        said = form.warning(self.record) if isinstance(form, ScheduleForm) else ""
        return Offer(form, _url(self.scenario, form.kind, self.asset), True, since, said)


def asset_url(scenario: str, asset: str) -> str:
    """Return the address at which the board shows the asset."""
    return reverse("board:asset", args=(scenario, asset))


def _url(scenario: Scenario, kind: str, asset: str) -> str:
    return reverse("commands:command", args=(scenario.name, kind, asset))
