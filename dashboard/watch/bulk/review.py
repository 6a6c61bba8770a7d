"""The assets of a run, reviewed before anything is sent."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from django.db import connection, transaction
from django.db.models import Count, QuerySet

from dashboard.core.common.sql import chunks
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import listed
from dashboard.watch.bulk.models import (
    ENDS_PINS,
    MAY_RETURN,
    READY,
    RETURNS,
    SKIPPED,
    STAYS,
    Item,
    Pin,
    Run,
)
from dashboard.watch.commands.warnings import may_hide, warning_of_many, young_ms
from domain.names import USER_PREFIX, name_ok
from domain.records import MAX_VOTERS
from domain.scenario import Scenario
from wire.sink import BriefVote, OverrideValue, Votes, votes_value

# ---- targets -------------------------------------------------------------------------------------
# The assets of a run: chosen by a filter, by their names, or because they are stale.

# Most assets of one run.
MOST = 100_000
# Rows that are held at a time, as each is a whole record.
CHUNK = 5_000


class TargetAsset(NamedTuple):
    """An asset that was chosen.

    version: sortable; record: JSON, empty where it is not on the board.
    """

    asset: str
    version: str = ""
    state: str = ""
    record: str = ""


class Names(NamedTuple):
    """The given names, each once, in order; and how many were repeated."""

    names: Sequence[str]
    repeated: int = 0


def by_rows(*rows: QuerySet[AssetState]) -> Iterator[list[TargetAsset]]:
    """Yield the assets of rows of the board, the first MOST, in portions.

    Each portion is a query of its own: who reads on while it writes would write upon what was there
    when it began to read, which SQLite refuses.
    """
    ids: list[int] = []
    for each in rows:
        ids += each.values_list("pk", flat=True)[: MOST - len(ids)]
    for portion in chunks(ids, CHUNK):
        columns = ("pk", "asset", "version", "state", "record")
        there = AssetState.objects.filter(pk__in=listed(portion), purged=False)
        assets = {pk: TargetAsset(*rest) for pk, *rest in there.values_list(*columns)}
        yield [assets[pk] for pk in portion if pk in assets]


def beyond(*rows: QuerySet[AssetState]) -> int:
    """Return how many assets match beyond MOST."""
    return max(0, sum(each.order_by().count() for each in rows) - MOST)


def by_names(scenario: str, names: Sequence[str]) -> Iterator[list[TargetAsset]]:
    """Yield the assets of these names, in their order, those unknown among them, in portions."""
    for portion in chunks(names, CHUNK):
        known = _on_board(scenario, portion)
        yield [known.get(name) or TargetAsset(name) for name in portion]


def names_of(lines: Iterable[str], scenario: str) -> Names:
    """Return the names in lines of text: spaces around one are part of it only where it is on the
    board.

    Lines without a name are passed over.
    """
    whole = [line.rstrip("\r\n") for line in lines]
    whole = [line for line in whole if line.strip()]
    spaced = [line for line in whole if line != line.strip()]
    kept = {name for portion in chunks(spaced, CHUNK) for name in _known(scenario, portion)}
    names = [line if line in kept else line.strip() for line in whole]
    once = list(dict.fromkeys(names))
    return Names(once, len(names) - len(once))


def visible(scenario: str) -> QuerySet[AssetState]:
    """Return the rows of a board."""
    return AssetState.objects.filter(scenario=scenario, purged=False)


def _on_board(scenario: str, names: Collection[str]) -> dict[str, TargetAsset]:
    rows = visible(scenario).filter(asset__in=listed(names))
    columns = rows.values_list("asset", "version", "state", "record")
    return {each[0]: TargetAsset(*each) for each in columns}


def _known(scenario: str, names: Collection[str]) -> set[str]:
    return set(visible(scenario).filter(asset__in=listed(names)).values_list("asset", flat=True))


# ---- review --------------------------------------------------------------------------------------
# The review of each chosen asset's outcome, by its row on the board, before anything is sent.
#
# The job decides at the command's own place in the log; a command that carries the version of the
# review is refused there if what is shown of the asset has changed since.

NOT_A_NAME = "not a name: expected 1-255 characters without control characters"
UNKNOWN = "not on the board"
SAME_PIN = "already pinned to this state"
NOT_PINNED = "neither pinned nor voted on by you"
TOO_MANY = f"{MAX_VOTERS} agents vote on it, and none of their votes gives way"

COLUMNS = (
    "run_id", "number", "asset", "outcome", "text", "was", "version", "returns", "age", "pinned_by",
    "pin", "command", "answered_version",
)  # fmt: skip


class CommandVerdict(NamedTuple):
    """The outcome that a command would have for an asset. text: why it is left out, empty where it
    is not; returns and age (ms): of what a purge would not end; pin: that the command would end."""

    text: str = ""
    returns: int = STAYS
    age: int | None = None
    pin: OverrideValue | None = None


def keep(run: Run, scenario: Scenario, chosen: Iterable[list[TargetAsset]], now: int) -> Run:
    """Keep the assets of a run, each with what would become of it at `now` (ms). Returns the run.

    In portions, so that nobody waits for the database long: `matched` is stored when all are there.
    """
    number = 0
    for portion in chosen:
        rows = list(_rows(run, scenario, portion[: MOST - number], number, now))
        _insert(rows)
        number += len(rows)
    Run.objects.filter(pk=run.pk).update(matched=number)
    run.matched = number
    return run


def command_id(run: uuid.UUID, asset: str) -> str:
    """Return the id of a run's command for an asset: the same at every call."""
    return str(uuid.uuid5(run, asset))


def _rows(
    run: Run, scenario: Scenario, portion: Iterable[TargetAsset], start: int, now: int
) -> Iterator[tuple[Any, ...]]:
    for number, chosen in enumerate(portion, start):
        verdict = judge(run, scenario, chosen, now)
        outcome = SKIPPED if verdict.text else READY
        name = chosen.asset if name_ok(chosen.asset) else chosen.asset[:255].replace("\0", "\ufffd")
        yield (
            run.pk.hex if connection.vendor == "sqlite" else run.pk,
            number,
            name.encode(errors="replace").decode(),
            outcome,
            verdict.text,
            chosen.state,
            chosen.version if run.unchanged else "",
            verdict.returns,
            verdict.age,
            verdict.pin.user if verdict.pin else "",
            _pin_text(verdict.pin),
            command_id(run.pk, name),
            "",
        )


def _insert(rows: list[tuple[Any, ...]]) -> None:
    """Insert rows by plain SQL, which takes a fifth of the time of model instances."""
    table = Item._meta.db_table  # noqa: SLF001 - Django's documented API
    names, marks = ", ".join(COLUMNS), ", ".join(["%s"] * len(COLUMNS))
    sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - our own names
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(sql, rows)


def judge(run: Run, scenario: Scenario, chosen: TargetAsset, now: int) -> CommandVerdict:
    """Return what would become of one asset."""
    if not name_ok(chosen.asset):
        return CommandVerdict(NOT_A_NAME)
    if not chosen.record:
        return CommandVerdict(UNKNOWN)
    seen = votes_value(chosen.record)
    pin = seen.override if run.kind in ENDS_PINS else None
    if run.kind == "purge":
        return _return(seen.votes, young_ms(scenario), now)._replace(pin=pin)
    return CommandVerdict(_left_out(run, scenario, seen), pin=pin)


def _pin_text(pin: OverrideValue | None) -> str:
    if pin is None:
        return ""
    return msgspec.json.encode(Pin(pin.state, pin.until, pin.reason)).decode()


def _left_out(run: Run, scenario: Scenario, seen: Votes) -> str:
    """Return why a command would change nothing; empty where it would change something."""
    own, pin = USER_PREFIX + run.username, seen.override
    voters = {vote.agent for vote in seen.votes}
    match run.kind:
        case "set" if pin is not None:
            same = (pin.state, pin.until, pin.user, pin.reason)
            as_it_is = same == (run.state, run.until, run.username, run.reason)
            return SAME_PIN if as_it_is else ""
        case "release" if pin is None and own not in voters:
            return NOT_PINNED
        case "vote" if own not in voters and not _has_room(scenario, seen.votes, run.state):
            return TOO_MANY
        case _:
            return ""


def _has_room(scenario: Scenario, votes: list[BriefVote], state: str) -> bool:
    """Return whether one more vote, for `state`, is kept."""
    if len(votes) < MAX_VOTERS:
        return True
    return not scenario.life_cycle and any(_gives_way(scenario, vote, state) for vote in votes)


def _gives_way(scenario: Scenario, vote: BriefVote, state: str) -> bool:
    """Return whether a vote makes room for one for `state` where no more are kept."""
    counts = vote.weight > 0 and vote.muted is None
    return not counts or scenario.severity(vote.state) >= scenario.severity(state)


def _return(votes: Iterable[BriefVote], young: int, now: int) -> CommandVerdict:
    """Return whether an asset is back after its purge: an agent that reported lately will again."""
    live = (v for v in votes if v.silent is None and not v.agent.startswith(USER_PREFIX))
    newest = max((vote.time for vote in live), default=None)
    if newest is None:
        return CommandVerdict()
    age = max(0, now - newest)
    return CommandVerdict(returns=RETURNS if age <= young else MAY_RETURN, age=age)


# ---- what a review came to ------------------------------------------------------------------


class Hiding(NamedTuple):
    """The warning of a task, and at how many assets it may hide something."""

    warning: str
    n: int


def hiding(run: Run, scenario: Scenario | None) -> Hiding | None:
    """Return the warning about a task that may hide something, or None.

    scenario: None if it is no longer configured.
    """
    if scenario is None or run.kind != "schedule":
        return None
    do, condition = str(run.schedule.get("do", "")), run.schedule.get("condition")
    shown = run.items.ready().values_list("was")
    n = sum(
        count
        for was, count in shown.annotate(n=Count("pk")).order_by()
        if may_hide(scenario, do, run.state, condition, was)
    )
    return Hiding(warning_of_many(scenario, do, run.state), n) if n else None
