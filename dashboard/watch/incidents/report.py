"""The timeline of an incident, and the report on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.db.models import Q

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.text import plain
from dashboard.core.common.times import utc
from dashboard.core.states.board_rows import cause_text
from dashboard.core.states.models import CHANGE, Transition
from dashboard.watch.annotations.models import Acknowledgement, Note
from dashboard.watch.incidents.models import Incident
from dashboard.watch.incidents.queries import IncidentGroup
from domain.scenario import Scenario
from wire.sink import cause_value

# ---- timeline ------------------------------------------------------------------------------------
# The timeline of an incident: state changes, acknowledgements and notes, in order.

MOST = 500
"""Most entries of each kind."""


class Moment(NamedTuple):
    """An entry of an incident's timeline.

    at: Unix ms; state: the new one, empty if there is none.
    """

    at: int
    kind: str
    state: str = ""
    who: str = ""
    text: str = ""


class OfAsset(NamedTuple):
    """A timeline entry of one of several incidents."""

    incident: Incident
    moment: Moment


def timeline_of(incidents: Iterable[Incident]) -> list[OfAsset]:
    """Return what happened during several incidents, in order; only the first MOST entries."""
    moments = (OfAsset(each, moment) for each in incidents for moment in timeline(each))
    return sorted(moments, key=lambda each: (each.moment.at, each.incident.asset))[:MOST]


def timeline(incident: Incident) -> list[Moment]:
    """Return what happened during an incident, including its end."""
    until = incident.until
    moments = [*_changes(incident, until), *_acks(incident, until), *_notes(incident, until)]
    return sorted(moments, key=lambda moment: moment.at)


def _changes(row: Incident, until: int) -> list[Moment]:
    changes = Transition.objects.filter(
        scenario=row.scenario, asset=row.asset, place__gte=row.place, at__lte=until
    ).order_by("place")[:MOST]
    return [
        Moment(each.at, each.kind, each.state, text=cause_text(cause_value(each.cause)))
        for each in changes
    ]


def _acks(row: Incident, until: int) -> list[Moment]:
    of_asset = Acknowledgement.objects.filter(scenario=row.scenario, asset=row.asset)
    during = of_asset.filter(at__gte=row.began_at, at__lte=until).order_by("at")[:MOST]
    given = [Moment(ack.at, "acknowledged", "", ack.username, ack.reason) for ack in during]
    taken = of_asset.filter(
        ~Q(ended_by=""), ended_at__gte=row.began_at, ended_at__lte=until
    ).order_by("ended_at")[:MOST]
    return given + [
        Moment(ack.ended_at or 0, "taken back", "", ack.ended_by, ack.end_words) for ack in taken
    ]


def _notes(row: Incident, until: int) -> list[Moment]:
    notes = Note.objects.filter(
        scenario=row.scenario,
        asset=row.asset,
        at__gte=row.began_at,
        at__lte=until,
        deleted_at=None,
    )
    return [
        Moment(note.at, "note", "", note.username, note.text)
        for note in notes.order_by("at")[:MOST]
    ]


# ---- report --------------------------------------------------------------------------------------
# The report on an incident, in Markdown. Times are in UTC.

TO_WRITE = {
    "Impact": "Who noticed, and what did not work?",
    "Cause": "Why did it happen?",
    "What went well, what did not": "Detection, response, communication.",
    "Actions": "- [ ] What, who, until when",
}


def as_markdown(incident: Incident) -> str:
    """Return the report: facts, timeline, and the sections that people fill in."""
    return "\n".join(_lines(incident)) + "\n"


def group_as_markdown(group: IncidentGroup, at_most: int) -> str:
    """Return the report on a group: facts, incidents, timeline, and sections to fill in.

    at_most: how many of its incidents to include, those that began first.
    """
    return "\n".join(_group_lines(group, group.incidents[:at_most])) + "\n"


def _group_lines(group: IncidentGroup, members: list[Incident]) -> Iterator[str]:
    scenario = group.scenario
    worst = plain(scenario.spec(group.worst).label)
    yield f"# {plain(group.key)} {plain(group.value)}: {worst}, {utc(group.began_at)}"
    yield from _table(_group_facts(group))
    yield from ("", "## Incidents", "", "| asset | began | lasted | worst |", "|---|---|---|---|")
    for each in members:
        state = plain(scenario.spec(each.worst).label)
        began = utc(each.began_at)
        yield f"| {plain(each.asset)} | {began} | {each.lasted} | {state} |"
    yield from ("", "## Timeline", "")
    for each, moment in timeline_of(members):
        yield f"- {utc(moment.at)}: {plain(each.asset)}, {_moment(scenario, moment)}"
    yield from _to_write()


def _group_facts(group: IncidentGroup) -> Iterator[tuple[str, str]]:
    yield "Scenario", plain(group.scenario.title)
    yield "Began", utc(group.began_at)
    yield "Ended", utc(group.ended_at) if group.ended_at is not None else "it goes on"
    yield "Lasted", group.lasted
    yield "Assets", str(group.assets)
    yield "Incidents", str(len(group.incidents))
    first = group.acknowledged
    if first is None:
        yield "Acknowledged", "not acknowledged"
    else:
        yield "Acknowledged", f"by {plain(first.acknowledged_by)}, after {group.unanswered}"


def _lines(row: Incident) -> Iterator[str]:
    scenario = scenarios()[row.scenario]
    worst = plain(scenario.spec(row.worst).label)
    yield f"# {plain(row.asset)}: {worst}, {utc(row.began_at)}"
    yield from _table(_facts(row, scenario))
    yield from ("", "## Timeline", "")
    yield from (f"- {utc(each.at)}: {_moment(scenario, each)}" for each in timeline(row))
    yield from _to_write()


def _table(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield from ("", "| | |", "|---|---|")
    for name, value in facts:
        yield f"| {name} | {value} |"


def _to_write() -> Iterator[str]:
    for title, hint in TO_WRITE.items():
        yield from ("", f"## {title}", "", hint)


def _facts(row: Incident, scenario: Scenario) -> Iterator[tuple[str, str]]:
    yield "Scenario", plain(scenario.title)
    yield "Began", utc(row.began_at)
    yield "Ended", utc(row.ended_at) if row.ended_at is not None else "ongoing"
    yield "Lasted", row.lasted
    if row.acknowledged_at is None:
        yield "Acknowledged", "no"
    else:
        yield "Acknowledged", f"by {plain(row.acknowledged_by)}, after {row.unanswered}"


def _moment(scenario: Scenario, moment: Moment) -> str:
    if moment.kind in ("acknowledged", "taken back", "note"):
        words = {"taken back": "acknowledgement taken back", "note": "note of"}
        text = f": {plain(moment.text)}" if moment.text else ""
        by = "" if moment.kind == "note" else "by "
        return f"{words.get(moment.kind, moment.kind)} {by}{plain(moment.who)}{text}"
    state = plain(scenario.spec(moment.state).label) if moment.state else "off the board"
    still = "" if moment.kind == CHANGE else "still "
    return f"{still}**{state}** ({plain(moment.text)})"
