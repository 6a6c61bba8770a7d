"""The situation at the start of a shift: what changed, and what people did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Case, Count, F, IntegerField, Max, Min, Q, QuerySet, Value, When

from dashboard.board.assets.overrides import PinnedAsset, overrides
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import HOUR_MS
from dashboard.core.states import queries
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.caveats import InDoubt, in_doubt, ranks_of
from dashboard.core.states.models import CHANGE, AssetState, Transition
from dashboard.core.states.queries import listed
from dashboard.operate.requests.replays import ReplayProgress, carried, newest
from dashboard.operate.scenarios.proposal import RuleChangeRow, changes
from dashboard.watch.agents.models import AgentFinding, MuteRequest
from dashboard.watch.agents.mutes import mutes
from dashboard.watch.annotations.models import SHIFT_MS, Acknowledgement, Handover, Note, Shift
from dashboard.watch.annotations.row_marks import RowMark, calm_of, handled, in_force, marks_of
from dashboard.watch.bulk.models import Run
from dashboard.watch.commands.models import Command, ScheduledTask
from dashboard.watch.incidents.models import Case as IncidentCase
from dashboard.watch.incidents.models import Window, give_facts
from domain.records import Mute
from domain.scenario import ALARMING, UNKNOWN, Scenario
from wire.sink import state_value

# ---- state changes -------------------------------------------------------------------------------
# Changes since a time, by asset: the first and last state, and the worst in between.

LOOKED_AT = 200_000
"""How many of the newest changes of all scenarios are examined."""
MOST = 50
"""Most assets of one scenario that are listed; those with the worst state come first."""
MOVES = Table("moves", "Asset", "From", "To", "Worst between", Column.number("Changes"))


class ChangedAsset(NamedTuple):
    """The changes of an asset.

    before, after: "" if it was not on the board; n: number of changes.
    """

    scenario: Scenario
    asset: str
    before: str
    after: str
    worst: str
    n: int

    @property
    def url(self) -> str:
        """Return the URL of the asset's page."""
        return asset_path(self.scenario.name, self.asset)

    @property
    def worse_between(self) -> bool:
        """Return whether it was worse in between than before and after."""
        return self.worst not in (self.before, self.after)


class ListedChanges(NamedTuple):
    """The changes that are listed for a scenario.

    Also how many assets changed, and whether older changes were left out.
    """

    listed: list[ChangedAsset]
    total: int
    cut: bool


def moves(scenario: Scenario, since: int) -> ListedChanges:
    """Return the assets that entered or left a state that is not good since `since` (Unix ms).

    Those that reached the worst state come first.
    """
    newest = Transition.objects.aggregate(newest=Max("pk"))["newest"] or 0
    every = _notable(scenario).filter(kind=CHANGE, at__gte=since)
    rows = every.filter(pk__gt=newest - LOOKED_AT)
    cut = newest > LOOKED_AT and every.filter(pk__lte=newest - LOOKED_AT).exists()
    groups = list(_grouped(scenario, rows)[:MOST])
    total = rows.values("asset").distinct().count() if len(groups) == MOST else len(groups)
    ends = _ends(scenario.name, groups)
    return ListedChanges([_moved(scenario, group, ends) for group in groups], total, cut)


def _notable(scenario: Scenario) -> QuerySet[Transition]:
    """Return a scenario's changes, except those among good states and "", off the board."""
    rows = Transition.objects.filter(scenario=scenario.name)
    if scenario.life_cycle:
        alarming = [spec.name for spec in scenario.states if not scenario.is_good(spec.name)]
        return rows.filter(Q(state__in=alarming) | Q(previous__in=alarming))
    fine = ["", *scenario.good_states]
    return rows.exclude(state__in=fine, previous__in=fine)


Group = tuple[str, int, int, str, str]


def _grouped(scenario: Scenario, rows: QuerySet[Transition]) -> QuerySet[Transition, Group]:
    """Return asset, severity of its worst state, number of changes, first and last place."""
    gone = len(scenario.states) + 1
    ranks = [When(state=spec.name, then=rank) for rank, spec in enumerate(scenario.states)]
    severity = Case(
        When(state="", then=gone),
        *ranks,
        default=Value(scenario.severity("")),
        output_field=IntegerField(),
    )
    groups = rows.values("asset").annotate(
        worst=Min(severity), n=Count("pk"), first=Min("place"), last=Max("place")
    )
    ordered = groups.order_by("worst", "-n", "asset")
    return ordered.values_list("asset", "worst", "n", "first", "last")


def _ends(scenario: str, groups: list[Group]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the states before and after the first and last changes, by asset and place."""
    places = {place for _, _, _, first, last in groups for place in (first, last)}
    rows = Transition.objects.filter(
        scenario=scenario,
        asset__in=listed([asset for asset, *_ in groups]),
        place__in=listed(sorted(places)),
    )
    columns = ("asset", "place", "previous", "state")
    return {(asset, place): (was, now) for asset, place, was, now in rows.values_list(*columns)}


def _moved(
    scenario: Scenario, group: Group, ends: dict[tuple[str, str], tuple[str, str]]
) -> ChangedAsset:
    asset, severity, n, first, last = group
    before = ends.get((asset, first), ("", ""))[0]
    after = ends.get((asset, last), ("", ""))[1]
    worst = _worst(scenario, severity, before, after)
    if before and scenario.severity(before) < scenario.severity(worst):
        worst = before
    return ChangedAsset(scenario, asset, before, after, worst, n)


def _worst(scenario: Scenario, severity: int, before: str, after: str) -> str:
    """Return the worst state in an asset's changes, from its severity."""
    if 0 <= severity < len(scenario.states):
        return scenario.states[severity].name
    if severity > 0:
        return after
    ends = (state for state in (after, before) if state and scenario.severity(state) < 0)
    return next(ends, UNKNOWN)


# ---- shift actions -------------------------------------------------------------------------------
# What people do in a shift besides commands to single assets: runs, mutes, replays, rules.


class ShiftActions(NamedTuple):
    """The actions of each kind, newest first, with their scenario if they belong to one."""

    runs: list[tuple[Scenario, Run]]
    mutes: list[tuple[Scenario, MuteRequest]]
    rules: list[tuple[Scenario, RuleChangeRow]]
    replays: list[ReplayProgress]


def shift_actions(known: Mapping[str, Scenario], since: int, now: int) -> ShiftActions:
    """Return what was done since `since` (Unix ms), and what began earlier and is not over.

    Only actions on these scenarios.
    """
    names = list(known)
    begun = Run.objects.started().filter(scenario__in=names)
    runs = begun.filter(started_at__gte=since) | begun.not_ended()
    asks = MuteRequest.objects.filter(scenario__in=names, created_at__gte=since)
    replays = [
        each
        for each in newest(now)
        if (each.row.asked_at >= since or each.open) and _is_of(each, known)
    ]
    return ShiftActions(
        [(known[run.scenario], run) for run in runs.order_by("-started_at", "-pk")[:MOST]],
        [(known[ask.scenario], ask) for ask in asks.order_by("-created_at", "-pk")[:MOST]],
        [(known[each.row.scenario], each) for each in changes(*names, since=since, now=now)],
        replays,
    )


def _is_of(replay: ReplayProgress, known: Mapping[str, Scenario]) -> bool:
    """Return whether the replay read one of these scenarios again."""
    of = [replay.row.scenario] if replay.row.scenario else carried(replay.row.query)
    return not of or any(name in known for name in of)


# ---- summary -------------------------------------------------------------------------------------
# The situation at the start of a shift, gathered from the database. Times in Unix ms.

SOON_MS = HOUR_MS
"""Whatever ends within this time is about to end."""
TEXTS = 10
"""Most texts of earlier shifts on the page."""

INCIDENTS = Table(
    "incidents", "Asset", Column.time("State"), Column.time("For"), "Acknowledged", "Newest note"
)
PINS = Table("handover-pins", "Asset", "Pinned to", Column.time("Ends in"), "By", "Why")


class UnhealthyAsset(NamedTuple):
    """An asset in a state that is not good, or in a good one that is disputed.

    disputed: the state that a vote says beyond the one shown, or None; doubted: agents in doubt
    that count; ack: who has it in hand; note: the newest.
    """

    scenario: Scenario
    asset: str
    state: str
    since: int
    disputed: str | None
    mark: RowMark | None
    held: bool
    note: Note | None
    doubted: list[InDoubt]

    @property
    def url(self) -> str:
        """Return the URL of the asset's page."""
        return asset_path(self.scenario.name, self.asset)


class Incidents(NamedTuple):
    """The incidents of a scenario, most severe first, and their total number.

    assets: how many the board has, including those in good states.
    """

    scenario: Scenario
    listed: list[UnhealthyAsset]
    total: int
    held: int
    assets: int


class Doubted(NamedTuple):
    """An asset in an undisputed good state on which an agent is in doubt."""

    scenario: Scenario
    asset: str
    state: str
    doubted: list[InDoubt]

    @property
    def url(self) -> str:
        """Return the URL of the asset's page."""
        return asset_path(self.scenario.name, self.asset)


class HandoverSection(NamedTuple):
    """A section of the page: its anchor, its title and its number of entries."""

    anchor: str
    title: str
    n: int


class About(NamedTuple):
    """An acknowledgement, a note or a command on an asset, and the URL of the asset's page."""

    scenario: Scenario
    url: str
    said: Acknowledgement | Note | Command


@dataclass(frozen=True, slots=True)
class Situation:
    """The content of the page. since: from when on changes, commands and notes are shown."""

    now: int
    since: int
    cases: list[IncidentCase]
    incidents: list[Incidents]
    doubted: list[Doubted]
    ending: list[PinnedAsset]
    endless: list[PinnedAsset]
    moves: list[tuple[Scenario, ListedChanges]]
    acks: list[About]
    commands: list[About]
    commands_total: int
    notes: list[About]
    mutes: list[tuple[Scenario, Mute]]
    findings: list[tuple[Scenario, AgentFinding]]
    windows: list[Window]
    tasks: list[tuple[Scenario, ScheduledTask]]
    actions: ShiftActions
    texts: list[Handover]
    on_shift: list[Shift]

    @property
    def pins(self) -> list[PinnedAsset]:
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
    def parts(self) -> list[HandoverSection]:
        """Return the sections that the page has, in order."""
        actions = self.actions
        candidates = [
            HandoverSection("text-title", "From the last shift", len(self.texts)),
            HandoverSection("cases-title", "Incidents by owner", len(self.cases)),
            *(HandoverSection(f"open-{o.scenario.name}", f"{o.scenario.title}: open", o.total)
              for o in self.incidents),
            HandoverSection("doubted-title", "In doubt", len(self.doubted)),
            HandoverSection("pins-title", "Overrides", len(self.pins)),
            HandoverSection("acks-title", "Acknowledgements ending", len(self.acks)),
            HandoverSection("findings-title", "Agents to look at", len(self.findings)),
            HandoverSection("mutes-title", "Muted agents", len(self.mutes)),
            HandoverSection("windows-title", "Maintenance", len(self.windows)),
            HandoverSection("tasks-title", "Tasks", len(self.tasks)),
            HandoverSection("runs-title", "Bulk runs", len(actions.runs)),
            HandoverSection("mute-asks-title", "Mute requests", len(actions.mutes)),
            HandoverSection("rules-title", "Rule changes", len(actions.rules)),
            HandoverSection("replays-title", "Replays", len(actions.replays)),
            *(
                HandoverSection(f"moves-{s.name}", f"{s.title}: changed", m.total)
                for s, m in self.moves
            ),
            HandoverSection("commands-title", "Commands", self.commands_total),
            HandoverSection("notes-title", "Notes", len(self.notes)),
        ]  # fmt: skip
        return [part for part in candidates if part.n]

    @property
    def assets(self) -> int:
        """Return how many assets the boards have."""
        return sum(each.assets for each in self.incidents)


def situation(known: Mapping[str, Scenario], viewer: str, since: int, now: int) -> Situation:
    """Return the situation in these scenarios."""
    pinned = overrides(known, now, viewer).listed
    acks = Acknowledgement.objects.in_force(now).filter(until__lte=now + SOON_MS)
    commands = Command.objects.filter(created_at__gte=since, scenario__in=list(known))
    notes = Note.objects.shown().filter(at__gte=since)
    return Situation(
        now=now,
        since=since,
        cases=_cases(known),
        incidents=[incidents(scenario, now) for scenario in known.values()],
        doubted=[each for scenario in known.values() for each in _calm_in_doubt(scenario)],
        ending=[each for each in pinned if each.until and each.until <= now + SOON_MS][:MOST],
        endless=[each for each in pinned if each.until is None][:MOST],
        moves=[(scenario, moves(scenario, since)) for scenario in known.values()],
        acks=_about(known, acks.order_by("until", "pk")[:MOST]),
        commands=_about(known, commands.order_by("-created_at", "-pk")[:MOST]),
        commands_total=commands.count(),
        notes=_about(known, notes.order_by("-at", "-pk")[:MOST]),
        mutes=_mutes(known, now),
        findings=_findings(known),
        windows=_windows(known, now),
        tasks=_tasks(known, now),
        actions=shift_actions(known, since, now),
        texts=list(Handover.objects.order_by("-at", "-pk")[:TEXTS]),
        on_shift=list(Shift.objects.going_on(now).order_by("began_at", "pk")),
    )


def _cases(known: Mapping[str, Scenario]) -> list[IncidentCase]:
    """Return the incidents that are not resolved by owner, those that nobody owns first."""
    rows = IncidentCase.objects.shown().unresolved().filter(scenario__in=list(known))
    return give_facts(list(rows.order_by("owner", "began_at", "pk")[:MOST]))


def incidents(scenario: Scenario, now: int) -> Incidents:
    """Return a scenario's open assets, most severe first."""
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
        lines.append(
            UnhealthyAsset(scenario, asset, state, since, disputed, mark, held, note, doubted)
        )
    counts = queries.counts(scenario.name)
    total = sum(n for state, n in counts.items() if not scenario.is_good(state))
    total += rows.filter(state__in=scenario.good_states).count()
    acks = handled(scenario, {}, now).acknowledged
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
    """Return the agents in doubt that count, from a state record's JSON."""
    record = state_value(text)
    return [one for one in in_doubt(scenario, record.votes, record.doubts) if one.counts]


def _mutes(known: Mapping[str, Scenario], now: int) -> list[tuple[Scenario, Mute]]:
    """Return the agents whose votes have no weight now."""
    muted = [
        (scenario, held.mute)
        for scenario in known.values()
        for held in mutes(scenario, now).values()
    ]
    return muted[:MOST]


def _findings(known: Mapping[str, Scenario]) -> list[tuple[Scenario, AgentFinding]]:
    """Return what is wrong with agents, such as their silence, the longest first."""
    rows = AgentFinding.objects.filter(scenario__in=list(known), ended_at=None)
    return [(known[row.scenario], row) for row in rows.order_by("since", "pk")[:MOST]]


def _windows(known: Mapping[str, Scenario], now: int) -> list[Window]:
    """Return the maintenance that goes on or begins soon."""
    rows = Window.objects.filter(scenario__in=["", *known], cancelled_at=None)
    return list(rows.filter(end__gt=now, begin__lte=now + SHIFT_MS).order_by("begin", "pk")[:MOST])


def _tasks(known: Mapping[str, Scenario], now: int) -> list[tuple[Scenario, ScheduledTask]]:
    """Return the tasks that are set aside, then those that are due soon, the next first."""
    rows = ScheduledTask.objects.open().filter(scenario__in=list(known))
    due = rows.filter(~Q(aside="") | Q(next_at__lte=now + SHIFT_MS))
    ordered = due.order_by(F("next_at").asc(nulls_first=True), "pk")
    return [(known[row.scenario], row) for row in ordered[:MOST]]


def _newest_notes(scenario: str, assets: list[str]) -> dict[str, Note]:
    notes = Note.objects.shown().filter(scenario=scenario, asset__in=listed(assets))
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
