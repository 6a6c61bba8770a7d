"""The timeline of one incident: changes of its state, acknowledgements and notes, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db.models import Q

from dashboard.annotations.models import Acknowledgement, Note
from dashboard.incidents.models import Incident
from dashboard.incidents.queries import Entry
from dashboard.states.board_rows import cause_text
from dashboard.states.models import Transition
from wire.sink import cause_value

MOST = 500
"""Most entries of each kind."""


class Moment(NamedTuple):
    """Something of an incident. at: Unix ms; state: the new one, empty where there is none."""

    at: int
    kind: str
    state: str = ""
    who: str = ""
    text: str = ""


class OfAsset(NamedTuple):
    """Something of one of several incidents."""

    entry: Entry
    moment: Moment


def timeline_of(entries: Iterable[Entry]) -> list[OfAsset]:
    """Return what happened during several incidents, the first MOST of it, in order."""
    moments = (OfAsset(entry, moment) for entry in entries for moment in timeline(entry))
    return sorted(moments, key=lambda each: (each.moment.at, each.entry.row.asset))[:MOST]


def timeline(entry: Entry) -> list[Moment]:
    """Return what happened during an incident, its end included."""
    row = entry.row
    moments = [*_changes(row, entry.until), *_acks(row, entry.until), *_notes(row, entry.until)]
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
