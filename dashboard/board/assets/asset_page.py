"""The page of one asset: its state and why, its history, and the details of agents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.urls import reverse

from dashboard.board.assets.explanation import Why, dissenters, explain, flip_text, freed_text
from dashboard.board.assets.forecast import Flip, current_of, is_unreported
from dashboard.board.assets.similar_names import similar_names
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column
from dashboard.core.common.times import HOUR_MS, exact_span
from dashboard.core.job.status import LogTime, log_time, newest_beats
from dashboard.core.rules.models import in_force
from dashboard.core.states.board_rows import (
    asset_path,
    beneath_of,
    cause_in_words,
    cause_of,
)
from dashboard.core.states.caveats import Because, of_detail, of_flapping
from dashboard.core.states.models import CHANGE, CONFIRMED, UNCONFIRMED, Transition
from dashboard.core.states.rows import place_of
from dashboard.watch.annotations.labels import FIELD
from dashboard.watch.annotations.models import Acknowledgement
from dashboard.watch.bulk.progress import commands_of
from dashboard.watch.commands.forms import shown
from dashboard.watch.commands.models import Command
from dashboard.watch.commands.submission import CommandProgress, progress
from domain.names import USER_PREFIX
from domain.records import LOG_REPLACED, StateRecord
from domain.scenario import Scenario
from domain.version import Version
from wire.job import bucket_name
from wire.sink import CauseValue, StateValue, VoteValue, cause_value, state_record

# ---- vote details --------------------------------------------------------------------------------
# What agents add to their reports, as the page of an asset shows it: names, values, tables.

TIME_WORDS = frozenset({"at", "since", "until", "begin", "end", "time"})
"""A name that ends in one of these has a time, Unix ms, where it is a number of that size."""
EARLIEST, LATEST = 946_684_800_000, 4_102_444_800_000
"""2000 and 2100, Unix ms: a number outside is no time, whatever its name."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a detail; at: the time that it is, Unix ms, None for any other."""

    text: str
    at: int | None = None
    number: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of objects, as a table: a column for each of their names."""

    name: str
    columns: tuple[Column, ...]
    rows: list[list[Value]]


@dataclass(frozen=True, slots=True)
class Detail:
    """What one agent adds: names with single values, and tables."""

    agent: str
    values: list[tuple[str, Value]]
    tables: list[Rows]


def details_of(record: StateValue) -> list[Detail]:
    """Return what each vote's agent adds to it, by agent; without labels, which have a place of
    their own."""
    details = (_detail(vote) for vote in sorted(record.votes, key=lambda vote: vote.agent))
    return [detail for detail in details if detail.values or detail.tables]


def _detail(vote: VoteValue) -> Detail:
    fields = vote.detail_object() or {}
    shown = {name: value for name, value in fields.items() if name != FIELD}
    tables = {name: value for name, value in shown.items() if _is_table(value)}
    values = [(_title(name), _value(name, shown[name])) for name in shown if name not in tables]
    return Detail(vote.agent, values, [_rows(name, rows) for name, rows in tables.items()])


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _rows(name: str, rows: list[dict[str, Any]]) -> Rows:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_value(name, row.get(name)) for name in names] for row in rows]
    columns = tuple(
        Column(_title(name), numeric=all(row[place].number for row in cells))
        for place, name in enumerate(names)
    )
    return Rows(_title(name), columns, cells)


def _value(name: str, value: Any) -> Value:
    if value is None or value in ([], {}):
        return Value("")
    if isinstance(value, bool):
        return Value("yes" if value else "no")
    if isinstance(value, int | float):
        return Value(f"{value:,}", _time(name, value), number=_time(name, value) is None)
    return Value(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _time(name: str, value: float) -> int | None:
    """Return the time, Unix ms, that a value of this name is, or None."""
    is_time = name.replace("-", "_").rpartition("_")[2].lower() in TIME_WORDS
    return int(value) if is_time and EARLIEST <= value < LATEST else None


def _title(name: str) -> str:
    """Return a name of JSON as a page has it: `Verified until`."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


# ---- timeline ------------------------------------------------------------------------------------
# What has happened to one asset, version by version: changes of its state, commands, reminders.
#
# Read from the database, newest first, a page at a time. Reports that changed nothing are in the
# log alone.

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
        LOG_REPLACED,
    )
)
"""Causes that no record of their own brought about: their offset is that of the one before."""

_PLACE = re.compile(r"([0-9]{19})\.([0-9]{13})")


@dataclass(frozen=True, slots=True)
class TimelineEntry:
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
    progress: CommandProgress | None = None
    ack: Acknowledgement | None = None
    ack_end: int | None = None

    @property
    def unconfirmed_mark(self) -> bool:
        """Whether only the mark `unconfirmed` changed."""
        return self.kind in (UNCONFIRMED, CONFIRMED)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A page of entries; older: the place to go on from, empty where there is nothing older."""

    entries: tuple[TimelineEntry, ...]
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
    entries = sorted((*acks, *shown), key=_height, reverse=True)
    return Timeline((*waiting, *entries), older, not before)


def _height(entry: TimelineEntry) -> tuple[str, int]:
    """Return an entry's sort key: an acknowledgement is above its record."""
    return (entry.place, entry.at if entry.ack else 0)


def _acks(scenario: str, asset: str, older: str, before: str, now: int) -> Iterable[TimelineEntry]:
    """Yield the newest acknowledgements of states between these places."""
    acks = Acknowledgement.objects.filter(scenario=scenario, asset=asset, place__gte=older)
    if before:
        acks = acks.filter(place__lt=before)
    for ack in acks.order_by("-at", "-pk")[:PAGE]:
        yield TimelineEntry(place=ack.place, kind="ack", at=ack.at, ack=ack, ack_end=ack.end(now))


def _records(scenario: str, asset: str, before: str) -> dict[str, TimelineEntry]:
    """Return by place the changes of the state, and the kept records after which it stayed."""
    steps = Transition.objects.filter(scenario=scenario, asset=asset)
    if before:
        steps = steps.filter(place__lt=before)
    return {step.place: _record(scenario, step) for step in steps.order_by("-place")[: PAGE + 1]}


def _record(scenario: str, step: Transition) -> TimelineEntry:
    cause = cause_value(step.cause)
    return TimelineEntry(
        place=step.place,
        kind=step.kind,
        at=step.at,
        version=str(Version.parse(step.version)),
        state=step.state,
        cause=cause_in_words(scenarios()[scenario], step.state, cause),
        **_caused(scenario, cause),
    )


def _newest(scenario: str, record: StateValue) -> TimelineEntry:
    version = Version.parse(record.version)
    return TimelineEntry(
        place=place_of(version.sortable()),
        kind="newest",
        at=record.cause.time,
        version=str(version),
        cause=cause_of(scenarios()[scenario], record),
        **_caused(scenario, record.cause),
    )


def _caused(scenario: str, cause: CauseValue) -> dict[str, Any]:
    place = cause.partition, cause.offset
    return {
        "of_time": cause.type in OF_TIME,
        "partition": place[0],
        "offset": place[1],
        "record_url": reverse("board:record", args=(scenario, *place)) if place[1] >= 0 else "",
    }


def _commands(scenario: str, asset: str, before: str, now: int) -> Iterable[TimelineEntry]:
    """Yield the commands sent from here that have a place in the log."""
    commands = Command.objects.of_asset(scenario, asset).filter(offset__isnull=False)
    below = None
    if match := _PLACE.fullmatch(before):
        below = int(match[1]) + (int(match[2]) > 0)  # a command's own step is 0
        commands = commands.filter(offset__lt=below)
    of_runs = commands_of(scenario, asset, below, PAGE + 1)
    for row in (*commands.order_by("-offset")[: PAGE + 1], *of_runs):
        yield _command(row, now, place_of(Version(0, row.offset or 0, 0).sortable()))


def _waiting(scenario: str, asset: str, now: int) -> list[TimelineEntry]:
    """Return the newest commands that have no place in the log, or not yet."""
    commands = Command.objects.of_asset(scenario, asset).filter(
        offset__isnull=True, created_at__gt=now - WAITING_MS
    )
    return [_command(row, now, "") for row in commands.order_by("-created_at", "-pk")[:WAITING]]


def _command(row: Command, now: int, place: str) -> TimelineEntry:
    came = progress(row, now)
    return TimelineEntry(
        place=place,
        kind="command",
        at=row.created_at,
        version=str(Version.parse(row.version)) if row.version else "",
        partition=row.partition,
        offset=row.offset,
        record_url=row.record_url,
        command=row,
        progress=came,
    )


def _one(change: TimelineEntry | None, command: TimelineEntry) -> TimelineEntry:
    """Return a command and the change that it made as one entry."""
    if change is None:
        return command
    return replace(change, command=command.command, progress=command.progress)


# ---- asset page ----------------------------------------------------------------------------------
# What the page of one asset says: its state and why, who votes, who is silent, its history.

NAMED_IN = 200
"""How many of an asset's newest changes are searched for agents without a vote."""
MOST_UNREPORTED = 12
"""Most of them that are named."""
MOST_DETAILED = 12
"""Most agents whose details are shown."""


def facts_of(
    scenario: Scenario, asset: str, record: StateValue | None, now: int, before: str = ""
) -> dict[str, Any]:
    """Return the context of `board/_asset.html`. record: from the topic, or None; now: Unix ms.

    before: a place in the history to begin below, empty for its newest page.
    """
    past = timeline(scenario.name, asset, record, now, before)
    context = {
        "scenario": scenario,
        "asset": asset,
        "asset_url": asset_path(scenario.name, asset),
        "record": record,
        "showing": shown(record, now),
        "history": past.entries,
        "timeline": past,
        "before": "" if past.first else before,
        "now": now,
    }
    return context | _why(scenario, asset, record, now) if record else context


def _why(scenario: Scenario, asset: str, record: StateValue, now: int) -> dict[str, Any]:
    """Return the part of the context that only an asset on the board has."""
    state = state_record(record)
    beat = newest_beats(now).get(bucket_name(scenario.name, state.cause.partition))
    reached = max(state.version.offset, beat[1].offset if beat else -1)
    scenario = in_force(scenario, state.cause.partition, reached)
    why = explain(scenario, state)
    votes, details = _votes(scenario, state, why), details_of(record)
    bucket = log_time(scenario.name, state.cause.partition, now)
    known = {vote.agent for vote in state.votes} | {doubt.agent for doubt in state.doubts}
    unreported = unreported_agents(scenario.name, asset, known)
    return {
        "scenario": scenario,
        "why": why,
        "similar": [
            (name, asset_path(scenario.name, name)) for name in similar_names(scenario.name, asset)
        ],
        "beneath": beneath_of(scenario, record),
        "flips": _flips(why),
        "freed_text": freed_text(why.freed) if why.freed else "",
        "vote_columns": VOTES,
        "silent_columns": SILENT_VOTES,
        "votes": [vote for vote in votes if vote["silent"] is None],
        "silent": [vote for vote in votes if vote["silent"] is not None],
        "doubt_columns": DOUBTS,
        "voteless": [one for one in why.doubted if one.voteless],
        "in_doubt": any(one.counts for one in why.doubted),
        "details": details[:MOST_DETAILED],
        "more_details": max(0, len(details) - MOST_DETAILED),
        "unreported": unreported[:MOST_UNREPORTED],
        "more_unreported": max(0, len(unreported) - MOST_UNREPORTED),
        "no_report": is_unreported(scenario, state),
        "then_hold": scenario.hold(why.then or ""),
        "rises": state.pending and _rises(scenario, state),
        "bucket": bucket,
        "pending_shows": state.pending and _shows(bucket, state.pending.due),
        "reminder": _reminder(scenario, record, now),
        "cause": cause_of(scenario, record),
    }


SILENT_VOTES = (
    Column("Agent"),
    Column("Said"),
    Column("Silent since"),
    Column("Forgotten in"),
    Column("Weight", numeric=True),
)


DOUBTS = (Column("Agent"), Column("Said"), Column("Ends in"))
"""Of agents in doubt that have no vote."""


VOTES = (
    Column("Agent"),
    Column("Says"),
    Column("Age"),
    Column("Counts for"),
    Column("Weight", numeric=True),
)
"""Of live votes."""


def _votes(scenario: Scenario, state: StateRecord, why: Why) -> list[dict[str, Any]]:
    """Return the record's votes, the worst first.

    differs: from the state shown; can_mute: of an agent, not of a person; forgotten: when, Unix ms;
    doubted: why it is in doubt; notes: what else there is to know of it.
    """
    against, delay = dissenters(state), scenario.forget_delay or 0
    doubted: dict[str, tuple[Because, ...]] = {one.agent: one.why for one in why.doubted}
    ordered = sorted(state.votes, key=lambda vote: (scenario.severity(vote.state), vote.agent))
    return [
        {
            **asdict(vote),
            "differs": vote.agent in against,
            "can_mute": not vote.agent.startswith(USER_PREFIX),
            "forgotten": None if vote.silent is None else vote.silent + delay,
            "doubted": doubted.get(vote.agent, ()),
            "notes": [text for text in (of_flapping(scenario, vote), of_detail(vote)) if text],
        }
        for vote in ordered
    ]


def _rises(scenario: Scenario, state: StateRecord) -> bool:
    """Return whether what waits is worse than the state."""
    assert state.pending is not None
    current = current_of(scenario, state) or ""
    return scenario.severity(state.pending.state) < scenario.severity(current)


def _flips(why: Why) -> list[tuple[Flip, str]]:
    return [(flip, flip_text(flip)) for flip in why.flips]


def _shows(bucket: LogTime | None, due: int) -> int:
    return bucket.shows(due) if bucket else due


@dataclass(frozen=True, slots=True)
class UnreportedAgent:
    """An agent that an asset's history names and of which no vote is kept; at: when it was, ms."""

    agent: str
    at: int
    expired: bool


def unreported_agents(scenario: str, asset: str, known: set[str]) -> list[UnreportedAgent]:
    """Return the agents that caused one of the asset's newest changes and that nothing is known of
    now. known: those with a vote, or a doubt.

    The newest first. The history keeps what changed the state alone, so an agent that never did
    is not known here.
    """
    steps = Transition.objects.filter(scenario=scenario, asset=asset, kind=CHANGE)
    causes = steps.order_by("-place").values_list("at", "cause_type", "cause")
    agents: dict[str, UnreportedAgent] = {}
    for at, kind, cause in causes[:NAMED_IN]:
        agent = cause_value(cause).agent
        if agent and agent not in known:
            agents.setdefault(agent, UnreportedAgent(agent, at, expired=kind == "vote-expiry"))
    return list(agents.values())


def _reminder(scenario: Scenario, record: StateValue, now: int) -> dict[str, Any] | None:
    """Return how often the state is repeated, and when next (Unix ms), by the rule as it is now."""
    every = scenario.reminder(record.state)
    if every is None:
        return None
    passed = max(0, now - record.since) // every
    return {"every": exact_span(every), "next": record.since + (passed + 1) * every}
