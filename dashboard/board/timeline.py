"""What has happened to one asset, version by version: changes of its state, commands, reminders.

Read from the database, newest first, a page at a time. Reports that changed nothing are in the log
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.urls import reverse

from dashboard.annotations.models import Acknowledgement
from dashboard.bulk.asset_history import commands_of
from dashboard.commands.models import Command
from dashboard.commands.status import Progress, progress
from dashboard.core.scenarios import scenarios
from dashboard.core.times import HOUR_MS
from dashboard.states.board_rows import cause_of, cause_text
from dashboard.states.models import CONFIRMED, UNCONFIRMED, Transition
from dashboard.states.record_rows import place_of
from domain.version import Version
from wire.sink import CauseValue, StateValue, cause_value

PAGE = 30
"""Most entries of one page."""
WAITING = 5
"""Most commands without a place in the log that are shown."""
WAITING_MS = HOUR_MS
"""How long they are."""
OF_TIME = frozenset(
    (
        "override-end",
        "vote-expiry",
        "doubt-end",
        "vote-forgotten",
        "mute-end",
        "hold",
        "schedule",
        "reminder",
        "purge-after",
    )
)
"""Causes that no record of their own brought about: their offset is that of the one before."""

_PLACE = re.compile(r"([0-9]{19})\.([0-9]{13})")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. place: offset and step, empty while it has no place in the log.

    kind: change (state is empty after a purge), unconfirmed or confirmed (that mark alone changed),
    reminder or override-end (the state stayed), command, ack (somebody had it in hand, from this
    record on), or newest (the record shown, where nothing else tells of it); at: Unix ms; of_time:
    time caused it, after the record at this place.
    """

    place: str
    kind: str
    at: int
    version: str = ""
    state: str = ""
    cause: str = ""
    of_time: bool = False
    partition: int | None = None
    offset: int | None = None
    record_url: str = ""
    command: Command | None = None
    progress: Progress | None = None
    ack: Acknowledgement | None = None
    ack_end: int | None = None

    @property
    def unconfirmed_mark(self) -> bool:
        """Whether only the mark `unconfirmed` changed."""
        return self.kind in (UNCONFIRMED, CONFIRMED)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A page of entries; older: the place to go on from, empty where there is nothing older."""

    entries: tuple[Entry, ...]
    older: str
    first: bool


def timeline(
    scenario: str, asset: str, record: StateValue | None, now: int, before: str = ""
) -> Timeline:
    """Return the newest entries, or those before a place. record: the newest known, or None."""
    before = before if _PLACE.fullmatch(before) else ""
    merged = _records(scenario, asset, before)
    for entry in _commands(scenario, asset, before, now):
        merged[entry.place] = _one(merged.get(entry.place), entry)
    if record is not None and not before:
        newest = _newest(scenario, record)
        merged.setdefault(newest.place, newest)
    ordered = sorted(merged.values(), key=lambda entry: entry.place, reverse=True)
    shown, more = ordered[:PAGE], len(ordered) > PAGE
    older = shown[-1].place if more else ""
    waiting = [] if before else _waiting(scenario, asset, now)
    acks = _acks(scenario, asset, older, before, now)
    told = sorted((*acks, *shown), key=_height, reverse=True)
    return Timeline((*waiting, *told), older, not before)


def _height(entry: Entry) -> tuple[str, int]:
    """Return an entry's sort key: an acknowledgement comes above the record it was given on."""
    return (entry.place, entry.at if entry.ack else 0)


def _acks(scenario: str, asset: str, older: str, before: str, now: int) -> Iterable[Entry]:
    """Yield the newest acknowledgements that were given between these places."""
    found = Acknowledgement.objects.filter(scenario=scenario, asset=asset, place__gte=older)
    if before:
        found = found.filter(place__lt=before)
    for ack in found.order_by("-at")[:PAGE]:
        yield Entry(place=ack.place, kind="ack", at=ack.at, ack=ack, ack_end=ack.end(now))


def _records(scenario: str, asset: str, before: str) -> dict[str, Entry]:
    """Return by place the changes of the state, and the kept records after which it stayed."""
    found = Transition.objects.filter(scenario=scenario, asset=asset)
    if before:
        found = found.filter(place__lt=before)
    return {step.place: _record(scenario, step) for step in found.order_by("-place")[: PAGE + 1]}


def _record(scenario: str, step: Transition) -> Entry:
    cause = cause_value(step.cause)
    return Entry(
        place=step.place,
        kind=step.kind,
        at=step.at,
        version=str(Version.parse(step.version)),
        state=step.state,
        **_caused(scenario, cause),
    )


def _newest(scenario: str, record: StateValue) -> Entry:
    version = Version.parse(record.version)
    return Entry(
        place=place_of(version.sortable()),
        kind="newest",
        at=record.cause.time,
        version=str(version),
        **_caused(scenario, record.cause) | {"cause": cause_of(scenarios()[scenario], record)},
    )


def _caused(scenario: str, cause: CauseValue) -> dict[str, Any]:
    place = cause.partition, cause.offset
    return {
        "cause": cause_text(cause),
        "of_time": cause.type in OF_TIME,
        "partition": place[0],
        "offset": place[1],
        "record_url": reverse("board:record", args=(scenario, *place)) if place[1] >= 0 else "",
    }


def _commands(scenario: str, asset: str, before: str, now: int) -> Iterable[Entry]:
    """Yield the commands given here that have a place in the log."""
    found = Command.objects.filter(scenario=scenario, asset=asset, offset__isnull=False)
    below = None
    if match := _PLACE.fullmatch(before):
        below = int(match[1]) + (int(match[2]) > 0)  # a command's own step is 0
        found = found.filter(offset__lt=below)
    of_runs = commands_of(scenario, asset, below, PAGE + 1)
    for row in (*found.order_by("-offset")[: PAGE + 1], *of_runs):
        yield _command(row, now, place_of(Version(0, row.offset or 0, 0).sortable()))


def _waiting(scenario: str, asset: str, now: int) -> list[Entry]:
    """Return the newest commands that have no place in the log, or not yet."""
    found = Command.objects.filter(
        scenario=scenario, asset=asset, offset__isnull=True, created_at__gt=now - WAITING_MS
    )
    return [_command(row, now, "") for row in found.order_by("-created_at")[:WAITING]]


def _command(row: Command, now: int, place: str) -> Entry:
    came = progress(row, now)
    return Entry(
        place=place,
        kind="command",
        at=row.created_at,
        version=str(Version.parse(row.version)) if row.version else "",
        partition=row.partition,
        offset=row.offset,
        record_url=came.record_url,
        command=row,
        progress=came,
    )


def _one(change: Entry | None, command: Entry) -> Entry:
    """Return a command and the change that it made as one entry."""
    if change is None:
        return command
    return replace(change, command=command.command, progress=command.progress)
