"""Stored events and present acknowledgements as the rules see them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from dashboard.annotations.models import Mark
from dashboard.core.chunks import STATEMENT, chunks
from dashboard.core.scenarios import scenarios
from dashboard.incidents.models import Incident
from dashboard.labels.queries import labels_of
from dashboard.maintenance.windows import windows_of
from dashboard.notifications.ingestion import is_late
from dashboard.notifications.models import AgentEvent, IncidentEvent
from dashboard.states.queries import listed
from domain.notifications.events import ENDED, MARKED, WITHDRAWN, Ack, Event

REPLAYED = "not sent: replayed"
"""It came long after it happened, and its incident was over by then."""
REGAINED = "found again"
"""The rebuild that had lost the incident found it again."""
UNKNOWN = "no such scenario"
"""Its scenario is not configured any more."""

Assets = dict[str, set[str]]
"""Assets by scenario."""


def of_rows(rows: Iterable[IncidentEvent]) -> list[Event]:
    """Return stored events as the rules see them; of those that they do not see, note the outcome.

    A late one is shown as its incident is by now.
    """
    rows = list(rows)
    labels = {name: labels_of(name, assets) for name, assets in _assets(rows).items()}
    late = _incidents(row for row in rows if _depends(row))
    events = []
    for row in rows:
        event = _event(row, labels.get(row.scenario, {}).get(row.asset, {}))
        if row.scenario not in scenarios():
            row.outcome = UNKNOWN
        elif not _depends(row):
            events.append(event)
        elif (now := _as_it_is(row, event, late)) is not None:
            events.append(now)
    return events


def of_agents(rows: Iterable[AgentEvent]) -> list[Event]:
    """Return stored events of agents as the rules see them; of those that they do not see, note the
    outcome."""
    events = []
    for row in rows:
        if row.scenario not in scenarios():
            row.outcome = UNKNOWN
        else:
            events.append(agent_event(row))
    return events


def agent_event(row: AgentEvent) -> Event:
    """Return an event of an agent as the rules see it."""
    place = (row.scenario, row.agent, row.at, row.place)
    return Event(row.kind, *place, row.finding, finding=row.words)


def _event(row: IncidentEvent, labels: dict[str, str]) -> Event:
    # What is withdrawn lasted until then, as far as messages told.
    at = row.recorded_at if row.kind == WITHDRAWN else row.at
    return Event(row.kind, row.scenario, row.asset, at, row.incident, row.state, labels)


def _depends(row: IncidentEvent) -> bool:
    """Return whether the rules see it only if its incident is still so."""
    if row.kind == WITHDRAWN:
        return True
    return row.kind != ENDED and is_late(row.at, row.recorded_at)


def _as_it_is(
    row: IncidentEvent, event: Event, incidents: dict[tuple[str, str, str], Incident]
) -> Event | None:
    incident = incidents.get((row.scenario, row.asset, row.incident))
    if row.kind == WITHDRAWN:
        if incident is None or incident.ended_at == incident.began_at:
            return event
        row.outcome = REGAINED
        return None
    if incident is None or incident.ended_at is not None:
        row.outcome = REPLAYED
        return None
    return Event(
        event.kind, event.scenario, event.asset, event.at, event.place, incident.state, event.labels
    )


def _incidents(rows: Iterable[IncidentEvent]) -> dict[tuple[str, str, str], Incident]:
    """Return the incidents of these events."""
    places: dict[str, set[str]] = {}
    for row in rows:
        places.setdefault(row.scenario, set()).add(row.incident)
    return {
        (incident.scenario, incident.asset, incident.place): incident
        for scenario, of_scenario in places.items()
        for chunk in chunks(of_scenario, STATEMENT)
        for incident in Incident.objects.filter(scenario=scenario, place__in=listed(chunk))
    }


def _assets(rows: Iterable[IncidentEvent]) -> Assets:
    assets: Assets = {}
    for row in rows:
        assets.setdefault(row.scenario, set()).add(row.asset)
    return assets


# ---- what is so at present --------------------------------------------------------------------


def marks(assets: Assets, acknowledged: Assets, now: int) -> Iterator[Event]:
    """Yield an event for each asset that somebody has in hand at `now` (Unix ms), and for each
    that was acknowledged, but is not now."""
    for scenario, names in assets.items():
        acks = _acks(scenario, names, now)
        for asset in acks.keys() | acknowledged.get(scenario, set()):
            yield Event(MARKED, scenario, asset, now, ack=acks.get(asset))


def _acks(scenario: str, assets: Collection[str], now: int) -> dict[str, Ack]:
    rows = Mark.objects.filter(scenario=scenario, ack_until__gt=now, asset__in=listed(assets))
    found = rows.values_list("asset", "ack_until", "ack_severity")
    return {asset: Ack(until or 0, severity or 0) for asset, until, severity in found}


class Maintenance:
    """When assets are in windows that hold messages back, between two times (Unix ms)."""

    def __init__(self, assets: Assets, begin: int, end: int) -> None:
        self._held = {
            (scenario, asset): held
            for scenario, names in assets.items()
            if scenario in scenarios()
            for asset, spans in windows_of(scenario, names, begin, end).items()
            if (held := [(span.begin, span.end) for span in spans if span.window.held])
        }

    def holds(self, scenario: str, asset: str, at: int) -> bool:
        """Return whether messages about an asset are held back at a time, Unix ms."""
        return any(begin <= at < end for begin, end in self._held.get((scenario, asset), ()))
