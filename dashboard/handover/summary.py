"""The situation at the beginning of a shift, gathered from the database. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Max, Q, QuerySet

from dashboard.agents.mutes import mutes
from dashboard.annotations.models import Acknowledgement, Handover, Note, Shift
from dashboard.annotations.row_marks import Mark, calm_of, in_force, marks_of
from dashboard.annotations.row_marks import held as held_of
from dashboard.annotations.shifts import LONGEST_MS
from dashboard.board.overrides import Override, overrides
from dashboard.commands.models import Command
from dashboard.core.tables import Column, Table
from dashboard.core.times import HOUR_MS
from dashboard.handover.shift_actions import Deeds, deeds
from dashboard.handover.state_changes import Moves, moves
from dashboard.states import queries
from dashboard.states.board_rows import asset_path
from dashboard.states.caveats import ranks_of
from dashboard.states.doubt_words import InDoubt, in_doubt
from dashboard.states.models import AssetState
from dashboard.states.queries import listed
from domain.records import Mute
from domain.scenario import ALARMING, Scenario
from wire.sink import state_value

MOST = 50
"""Most lines of each list."""
SOON_MS = HOUR_MS
"""What ends within this is about to end."""
TEXTS = 10
"""Most texts of earlier shifts on the page."""

INCIDENTS = Table(
    "incidents", "Asset", Column.time("State"), Column.time("For"), "Acknowledged", "Newest note"
)
PINS = Table("handover-pins", "Asset", "Pinned to", Column.time("Ends in"), "By", "Why")


class Incident(NamedTuple):
    """An asset whose state is not a good one, or whose good one is disputed. disputed: the state
    that a vote says beyond the one shown, or None; doubted: agents in doubt that count; ack: who
    has it in hand; note: the newest."""

    scenario: Scenario
    asset: str
    state: str
    since: int
    disputed: str | None
    mark: Mark | None
    held: bool
    note: Note | None
    doubted: list[InDoubt]

    @property
    def url(self) -> str:
        """Return the address of the asset's page."""
        return asset_path(self.scenario.name, self.asset)


class Incidents(NamedTuple):
    """The incidents of a scenario, most severe first, and how many there are of them all; `assets`:
    how many the board has, those in good states too."""

    scenario: Scenario
    listed: list[Incident]
    total: int
    held: int
    assets: int


class Doubted(NamedTuple):
    """An asset in a good state that nobody disputes, and on which an agent is in doubt."""

    scenario: Scenario
    asset: str
    state: str
    doubted: list[InDoubt]

    @property
    def url(self) -> str:
        """Return the address of the asset's page."""
        return asset_path(self.scenario.name, self.asset)


class Part(NamedTuple):
    """A part of the page: where it begins, its title, how many entries it has."""

    anchor: str
    title: str
    n: int


class About(NamedTuple):
    """An acknowledgement, a note or a command on an asset, and the address of the asset's page."""

    scenario: Scenario
    url: str
    said: Acknowledgement | Note | Command


@dataclass(frozen=True, slots=True)
class Situation:
    """The content of the page; `since`: from when on changes, commands and notes are shown."""

    now: int
    since: int
    incidents: list[Incidents]
    doubted: list[Doubted]
    ending: list[Override]
    endless: list[Override]
    moves: list[tuple[Scenario, Moves]]
    acks: list[About]
    commands: list[About]
    commands_total: int
    notes: list[About]
    mutes: list[tuple[Scenario, Mute]]
    deeds: Deeds
    texts: list[Handover]
    on_shift: list[Shift]

    @property
    def pins(self) -> list[Override]:
        """Return the overrides that end soon, then those without an end."""
        return [*self.ending, *self.endless]

    @property
    def open(self) -> int:
        """Return how many assets are open."""
        return sum(each.total for each in self.incidents)

    @property
    def commands_note(self) -> str:
        """Return how many commands were given, and how many of them are listed, in words."""
        given, shown = f"{self.commands_total:,} given", len(self.commands)
        return f"{given}, the newest {shown}" if self.commands_total > shown else given

    @property
    def parts(self) -> list[Part]:
        """Return the parts of the page that there are, in their order."""
        deeds = self.deeds
        candidates = [
            Part("text-title", "From the last shift", len(self.texts)),
            *(Part(f"open-{o.scenario.name}", f"{o.scenario.title}: open", o.total)
              for o in self.incidents),
            Part("doubted-title", "In doubt", len(self.doubted)),
            Part("pins-title", "Overrides", len(self.pins)),
            Part("acks-title", "Acknowledgements that end", len(self.acks)),
            Part("mutes-title", "Muted agents", len(self.mutes)),
            Part("runs-title", "Bulk runs", len(deeds.runs)),
            Part("mute-asks-title", "Mutes given", len(deeds.mutes)),
            Part("rules-title", "Rule changes", len(deeds.rules)),
            Part("replays-title", "Replays", len(deeds.replays)),
            *(Part(f"moves-{s.name}", f"{s.title}: changed", m.total) for s, m in self.moves),
            Part("commands-title", "Commands", self.commands_total),
            Part("notes-title", "Notes", len(self.notes)),
        ]  # fmt: skip
        return [part for part in candidates if part.n]

    @property
    def assets(self) -> int:
        """Return how many assets the boards have."""
        return sum(each.assets for each in self.incidents)


def situation(known: Mapping[str, Scenario], viewer: str, since: int, now: int) -> Situation:
    """Return how things stand in these scenarios."""
    pinned = overrides(known, now, viewer).listed
    acks = Acknowledgement.objects.filter(ended_at=None, until__gt=now, until__lte=now + SOON_MS)
    commands = Command.objects.filter(created_at__gte=since, scenario__in=list(known))
    notes = Note.objects.filter(at__gte=since, deleted_at=None)
    return Situation(
        now=now,
        since=since,
        incidents=[incidents(scenario, now) for scenario in known.values()],
        doubted=[each for scenario in known.values() for each in _calm_in_doubt(scenario)],
        ending=[each for each in pinned if each.until and each.until <= now + SOON_MS][:MOST],
        endless=[each for each in pinned if each.until is None][:MOST],
        moves=[(scenario, moves(scenario, since)) for scenario in known.values()],
        acks=_about(known, acks.order_by("until")[:MOST]),
        commands=_about(known, commands.order_by("-created_at")[:MOST]),
        commands_total=commands.count(),
        notes=_about(known, notes.order_by("-at")[:MOST]),
        mutes=_mutes(known, now),
        deeds=deeds(known, since, now),
        texts=list(Handover.objects.order_by("-at")[:TEXTS]),
        on_shift=list(
            Shift.objects.filter(ended_at=None, began_at__gt=now - LONGEST_MS).order_by("began_at")
        ),
    )


def incidents(scenario: Scenario, now: int) -> Incidents:
    """Return the assets of a scenario that are open, most severe first."""
    calm, rows = calm_of(scenario), _open(scenario)
    ordered = rows.order_by("rank", "-since", "asset")
    columns = ("asset", "state", "severity", "since", "disputed", "doubt", "record")
    states = list(ordered.values_list(*columns)[:MOST])
    names = [asset for asset, *_ in states]
    marks = {mark.asset: mark for mark in marks_of(scenario.name, names)}
    notes = _newest_notes(scenario.name, names)
    lines = []
    for asset, state, severity, since, disputed, doubt, record in states:
        mark = marks.get(asset)
        held = mark is not None and in_force(mark.ack, severity, calm, now)
        note = notes.get(asset)
        doubted = _counting(scenario, record) if doubt else []
        lines.append(Incident(scenario, asset, state, since, disputed, mark, held, note, doubted))
    counts = queries.counts(scenario.name)
    total = sum(n for state, n in counts.items() if not scenario.is_good(state))
    total += rows.filter(state__in=scenario.good_states).count()
    acks = held_of(scenario, lambda _: None, now).counts
    acknowledged = sum(n for state, n in acks.items() if not scenario.is_good(state))
    everything = max(sum(counts.values()), len(lines))
    return Incidents(scenario, lines, max(total, len(lines)), acknowledged, everything)


def _open(scenario: Scenario) -> QuerySet[AssetState]:
    """Return the assets in a state that is not good, or in a good one that is disputed."""
    rows = AssetState.objects.filter(scenario=scenario.name, purged=False)
    if scenario.life_cycle:
        return rows.filter(state__in=[s.name for s in scenario.states if s.colour in ALARMING])
    _, first_calm = ranks_of(calm_of(scenario))
    undisputed = Q(state__in=scenario.good_states, disputed=None)
    return rows.filter(rank__lt=first_calm).exclude(undisputed)


def _calm_in_doubt(scenario: Scenario) -> list[Doubted]:
    """Return the assets in good states that are not open, and on which an agent is in doubt."""
    rows = AssetState.objects.filter(scenario=scenario.name, purged=False, doubt__isnull=False)
    calm = rows.filter(state__in=scenario.good_states, disputed=None).order_by("asset")
    return [
        Doubted(scenario, asset, state, _counting(scenario, record))
        for asset, state, record in calm.values_list("asset", "state", "record")[:MOST]
    ]


def _counting(scenario: Scenario, text: str) -> list[InDoubt]:
    """Return the agents in doubt that count, of a state record's JSON."""
    record = state_value(text)
    return [one for one in in_doubt(scenario, record.votes, record.doubts) if one.counts]


def _mutes(known: Mapping[str, Scenario], now: int) -> list[tuple[Scenario, Mute]]:
    """Return the agents whose votes weigh nothing now."""
    muted = [
        (scenario, held.mute)
        for scenario in known.values()
        for held in mutes(scenario, now).values()
    ]
    return muted[:MOST]


def _newest_notes(scenario: str, assets: list[str]) -> dict[str, Note]:
    notes = Note.objects.filter(scenario=scenario, asset__in=listed(assets), deleted_at=None)
    newest = notes.order_by().values("asset").annotate(newest=Max("pk")).values("newest")
    return {note.asset: note for note in Note.objects.filter(pk__in=newest)}


def _about(
    known: Mapping[str, Scenario], entries: Iterable[Acknowledgement | Note | Command]
) -> list[About]:
    return [
        About(known[each.scenario], asset_path(each.scenario, each.asset), each)
        for each in entries
        if each.scenario in known
    ]
