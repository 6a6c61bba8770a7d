"""Labels: checked, read, written by people and by agents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.scenarios import dependencies, dependents, scenarios
from dashboard.core.common.sql import execute_many, lock_until_commit
from dashboard.core.states.caveats import alarming_ranks
from dashboard.core.states.filter_terms import KEYS
from dashboard.core.states.ingestion import BatchChanges
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import listed
from dashboard.watch.annotations.models import (
    AGENT,
    MAX_KEY,
    MAX_VALUE,
    PERSON,
    Label,
    LabelChange,
    bump,
)
from domain.scenario import Scenario
from domain.scenario_parser import DependsOn

# ---- validation ----------------------------------------------------------------------------------
# Validation of labels.

# Most labels of one asset.
MOST_LABELS = 16

_KEY = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_KEY - 1}}}")
KEY_EXPECTED = f"expected a small letter, then at most {MAX_KEY - 1} small letters, digits, _ or -"
VALUE_EXPECTED = f"expected 1 to {MAX_VALUE} printable characters"


def key_fault(key: str) -> str:
    """Return why this can be no label's key; empty where it can."""
    if key in KEYS:
        return f"{key} is a word of the filter's own"
    return "" if _KEY.fullmatch(key) else KEY_EXPECTED


def value_fault(value: str) -> str:
    """Return why this can be no label's value; empty where it can."""
    ok = 0 < len(value) <= MAX_VALUE and value.isprintable() and value == value.strip()
    return "" if ok else VALUE_EXPECTED


def fault(key: str, value: str) -> str:
    """Return why this can be no label, naming what of it; empty where it can."""
    if problem := key_fault(key):
        return f"key: {problem}"
    return f"value: {problem}" if (problem := value_fault(value)) else ""


# ---- labels --------------------------------------------------------------------------------------
# Labels as pages and sockets read them. Of a name's labels those that are shown.

# Most keys of one scenario that are known.
MOST_KEYS = 200
# Most keys whose labels a row of the board shows.
MOST_CHIPS = 3
# Most assets in trouble of which the rows that lie behind them say so, the worst.
MOST_CAUSES = 1_000


class LabelState(NamedTuple):
    """The number of changes of a scenario's labels, and the keys that its board shows."""

    n: int = 0
    chips: tuple[str, ...] = ()


def states() -> dict[str, LabelState]:
    """Return the state of each scenario that has had labels."""
    return {
        row.scenario: LabelState(row.n, tuple(filter(None, row.chips.split(","))))
        for row in LabelChange.objects.all()
    }


def state(scenario: str) -> LabelState:
    """Return the state of one scenario."""
    return states().get(scenario, LabelState())


def labels_of(scenario: str, assets: Collection[str]) -> dict[str, dict[str, str]]:
    """Return key and value of the labels of those of `assets` that have any."""
    labels: dict[str, dict[str, str]] = {}
    if assets:
        rows = Label.objects.shown(scenario).filter(asset__in=listed(assets))
        for asset, key, value in rows.values_list("asset", "key", "value"):
            labels.setdefault(asset, {})[key] = value
    return labels


def causes_of(scenario: str, assets: Collection[str]) -> dict[str, str]:
    """Return the name of what each of `assets` lies behind, for those that lie behind something.

    Labels of people alone count: no agent puts an asset where nobody is called for it.
    """
    depends = dependencies().get(scenario)
    if depends is None or not assets:
        return {}
    rows = _by_people(scenario, depends).filter(asset__in=listed(assets))
    return dict(rows.values_list("asset", "value"))


def has_causes(scenario: str) -> bool:
    """Return whether people say of any asset of a scenario what it lies behind."""
    depends = dependencies().get(scenario)
    return depends is not None and _by_people(scenario, depends).exists()


def failing_causes(scenario: str, newer: Mapping[str, str]) -> dict[str, str]:
    """Return what assets of a scenario lie behind and is not well: by name, the label of its state.

    newer: the states of assets of that other scenario that the database does not have yet, "" once
    purged.
    """
    depends = dependencies().get(scenario)
    if depends is None:
        return {}
    other, labels = scenarios()[depends.scenario], _by_people(scenario, depends)
    rows = AssetState.objects.filter(scenario=other.name, purged=False)
    rows = rows.filter(rank__in=alarming_ranks(other)).order_by("rank", "-since", "asset")
    named = rows.filter(Exists(labels.filter(value=OuterRef("asset"))))
    states = dict(named.values_list("asset", "state")[:MOST_CAUSES])
    causes = {asset: state for asset, state in states.items() if asset not in newer}
    alarming = {asset: state for asset, state in newer.items() if _is_alarming(other, state)}
    known = labels.filter(value__in=listed(alarming)).values_list("value", flat=True)
    causes |= {asset: alarming[asset] for asset in known.distinct()}
    some = islice(causes.items(), MOST_CAUSES)
    return {asset: other.spec(state).label for asset, state in some}


def _is_alarming(scenario: Scenario, state: str) -> bool:
    return bool(state) and scenario.is_alarming(state)


def _by_people(scenario: str, depends: DependsOn) -> QuerySet[Label]:
    """Return the labels by which people say what assets of a scenario lie behind."""
    return Label.objects.shown(scenario).filter(key=depends.label, source=PERSON)


def lying_behind(scenario: str, asset: str) -> Iterator[tuple[str, QuerySet[AssetState]]]:
    """Yield the scenarios of which assets lie behind this one, each with these assets."""
    for name in dependents(scenario):
        labels = _by_people(name, dependencies()[name]).filter(value=asset)
        rows = AssetState.objects.filter(scenario=name, purged=False)
        yield name, rows.filter(asset__in=labels.values("asset"))


def chips_of(labels: Mapping[str, str], keys: Collection[str]) -> list[list[str]]:
    """Return key and value of what a row shows, in the order of the keys."""
    return [[key, labels[key]] for key in keys if key in labels]


def keys(scenario: str) -> tuple[str, ...]:
    """Return the keys that the scenario's labels have, sorted."""
    return tuple(islice(_steps(scenario), MOST_KEYS))


def _steps(scenario: str) -> Iterator[str]:
    """Yield key after key: each is a look at an index, where all labels would be a walk."""
    rows = Label.objects.shown(scenario).order_by("key")
    key: str | None = ""
    while key := rows.filter(key__gt=key).values_list("key", flat=True).first():
        yield key


def values(scenario: str, key: str, begins: str, most: int) -> list[str]:
    """Return the first values of a key that begin so, sorted as the database does."""
    shown = Label.objects.shown(scenario).filter(key=key)
    rows = shown.values_list("value", flat=True).order_by("value")
    first_values: list[str] = []
    next_one = rows.filter(value__gte=begins).first()
    while next_one is not None and len(first_values) < most and next_one.startswith(begins):
        first_values.append(next_one)
        next_one = rows.filter(value__gt=next_one).first()
    return first_values


# ---- writer --------------------------------------------------------------------------------------
# Labels written: by people, and by agents in what they report. People's stand before agents'.

# By asset and key the value that people give; None: they give none any more.
LabelEdits = Mapping[str, Mapping[str, str | None]]
# By asset and key the value that agents give, and which of them.
ReportedLabels = Mapping[str, Mapping[str, tuple[str, str]]]

_WRITE = """\
INSERT INTO annotations_label (scenario, asset, key, value, source, name, at, shown)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (scenario, asset, key, source) DO UPDATE
SET value = excluded.value, name = excluded.name, at = excluded.at, shown = excluded.shown"""


class LabelEdit(NamedTuple):
    """One label of people as it is and as it would be; None: none. fault: why it cannot be."""

    asset: str
    key: str
    before: str | None
    after: str | None
    fault: str = ""

    @property
    def kind(self) -> str:
        """Return `new`, `changed`, `removed`, `same` or `refused`."""
        if self.fault:
            return "refused"
        if self.before == self.after:
            return "same"
        if self.before is None:
            return "new"
        return "removed" if self.after is None else "changed"


class _Row(NamedTuple):
    """A label as it is written."""

    scenario: str
    asset: str
    key: str
    value: str
    source: str
    name: str
    at: int
    shown: bool = True


def put(scenario: str, edits: LabelEdits, by: str, now: int) -> list[LabelEdit]:
    """Store people's labels in one transaction. Return the result of each.

    Labels beyond an asset's limit are `refused`.
    """
    with transaction.atomic():
        alone(scenario)
        changes = compare(scenario, edits)
        _carry_out(scenario, changes, by, now)
    return changes


def counted(changes: Iterable[LabelEdit]) -> Counter[str]:
    """Return how many changes of each kind there are."""
    return Counter(change.kind for change in changes)


def log_edits(actor: Actor, scenario: str, edits: LabelEdits, done: Mapping[str, int]) -> None:
    """Record in the audit what was written, if anything was."""
    if not any(done.get(kind) for kind in ("new", "changed", "removed")):
        return
    asset = next(iter(edits)) if len(edits) == 1 else ""
    values = dict(edits[asset]) if asset else None
    record(
        actor,
        "labels.changed",
        scenario=scenario,
        target=asset,
        labels=values,
        assets=None if asset else len(edits),
        new=done.get("new", 0),
        changed=done.get("changed", 0),
        removed=done.get("removed", 0),
    )


def compare(scenario: str, edits: LabelEdits) -> list[LabelEdit]:
    """Return what would become of people's labels."""
    known = _known(scenario, edits)
    return [
        change
        for asset, labels in edits.items()
        for change in _of_asset(asset, labels, known.get(asset, {}))
    ]


def replaced(scenario: str, edits: Mapping[str, Mapping[str, str]]) -> LabelEdits:
    """Return the same, and that people give these assets no other label.

    A label that only agents give stays theirs where its value is the same.
    """
    known = _known(scenario, edits)
    return {
        asset: {
            **{key: None for key, source in known.get(asset, {}) if source == PERSON},
            **_of_people(labels, known.get(asset, {})),
        }
        for asset, labels in edits.items()
    }


def _of_people(
    labels: Mapping[str, str], known: Mapping[tuple[str, str], str]
) -> dict[str, str | None]:
    return {
        key: value
        for key, value in labels.items()
        if (key, PERSON) in known or known.get((key, AGENT)) != value
    }


def _of_asset(
    asset: str, labels: Mapping[str, str | None], known: Mapping[tuple[str, str], str]
) -> Iterator[LabelEdit]:
    """Yield the changes of one asset: those first that make room."""
    there = {key for key, _ in known}
    for key, value in sorted(labels.items(), key=lambda pair: pair[1] is not None):
        before = known.get((key, PERSON))
        if value is None:
            if (key, AGENT) not in known:
                there.discard(key)
        elif key not in there and len(there) >= MOST_LABELS:
            yield LabelEdit(asset, key, before, value, f"an asset has at most {MOST_LABELS} labels")
            continue
        else:
            there.add(key)
        yield LabelEdit(asset, key, before, value)


def _known(scenario: str, assets: Collection[str]) -> dict[str, dict[tuple[str, str], str]]:
    """Return by asset, then by key and source, the values that there are."""
    known: dict[str, dict[tuple[str, str], str]] = {}
    rows = Label.objects.filter(scenario=scenario, asset__in=listed(list(assets)))
    for asset, key, source, value in rows.values_list("asset", "key", "source", "value"):
        known.setdefault(asset, {})[key, source] = value
    return known


def _carry_out(scenario: str, changes: Iterable[LabelEdit], by: str, now: int) -> None:
    rows, gone = [], []
    for change in changes:
        if change.kind in ("new", "changed"):
            assert change.after is not None
            rows.append(_Row(scenario, change.asset, change.key, change.after, PERSON, by, now))
        elif change.kind == "removed":
            gone.append(change)
    execute_many(_WRITE, rows)
    people = Label.objects.filter(scenario=scenario, source=PERSON)
    agents = Label.objects.filter(scenario=scenario, source=AGENT)
    for key, assets in _by_key((row.key, row.asset) for row in rows):
        agents.filter(key=key, asset__in=listed(assets), shown=True).update(shown=False)
    for key, assets in _by_key((change.key, change.asset) for change in gone):
        people.filter(key=key, asset__in=listed(assets)).delete()
        agents.filter(key=key, asset__in=listed(assets)).update(shown=True)
    if rows or gone:
        bump(scenario)


def ingest_reported_labels(scenario: str, reported: ReportedLabels, now: int) -> None:
    """Replace these assets' labels of agents by those that their live votes give.

    In the transaction that writes their states.
    """
    known = _known(scenario, reported)
    added, gone = [], []
    for asset, labels in reported.items():
        before = known.get(asset, {})
        room = MOST_LABELS - len(
            {key for key, source in before if source == PERSON} - labels.keys()
        )
        for key, (value, agent) in islice(sorted(labels.items()), room):
            if before.get((key, AGENT)) != value:
                seen = (key, PERSON) not in before
                added.append(_Row(scenario, asset, key, value, AGENT, agent[:255], now, seen))
        gone += [(key, asset) for key, source in before if source == AGENT and key not in labels]
    if not added and not gone:
        return
    alone(scenario)
    execute_many(_WRITE, added)
    for key, assets in _by_key(gone):
        rows = Label.objects.filter(scenario=scenario, key=key, source=AGENT)
        rows.filter(asset__in=listed(assets)).delete()
    bump(scenario)


def with_agents(scenario: str, assets: Collection[str]) -> set[str]:
    """Return which of these assets have a label of an agent."""
    rows = Label.objects.filter(scenario=scenario, source=AGENT)
    if not assets or not rows.exists():
        return set()
    return set(rows.filter(asset__in=listed(list(assets))).values_list("asset", flat=True))


def alone(scenario: str) -> None:
    """Lock a scenario's labels for ourselves until the transaction ends.

    Else people and an agent could give one asset the same key at the same time, and both or none
    would be shown.
    """
    lock_until_commit("labels", scenario)


def choose_chips(scenario: str, keys: Collection[str]) -> None:
    """Show these keys' labels on the board's rows."""
    LabelChange.objects.update_or_create(scenario=scenario, defaults={"chips": ",".join(keys)})


def _by_key(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for key, asset in pairs:
        groups.setdefault(key, []).append(asset)
    return groups.items()


# ---- reported labels -----------------------------------------------------------------------------
# Labels in what agents report: `"detail": {"labels": {"tier": "gold"}}` of a live vote.

# The part of a detail that has the labels.
FIELD = "labels"
# A record without it carries none; most have none, and are not looked at further.
HINT = f'"{FIELD}"'


def labels_of_votes(votes: Iterable[Any]) -> dict[str, tuple[str, str]]:
    """Return by key the value that the live votes give, and the agent.

    The newest wins, then the first by name. Invalid labels are skipped: a vote counts whatever its
    detail is.
    """
    by_key: dict[str, tuple[str, str]] = {}
    live = (vote for vote in votes if vote.silent is None)
    for vote in sorted(live, key=lambda vote: (-vote.time, vote.agent)):
        labels = (vote.detail_object() or {}).get(FIELD)
        if not isinstance(labels, dict):
            continue
        for key, value in list(labels.items())[:MOST_LABELS]:
            if isinstance(value, str) and not fault(key, value):
                by_key.setdefault(key, (value, vote.agent))
    return dict(sorted(by_key.items())[:MOST_LABELS])


def ingest_changes(changes: BatchChanges) -> None:
    """Store the labels that agents give in a batch."""
    ingest_vote_labels(changes.newest, changes.now)


def ingest_vote_labels(newest: Mapping[str, Mapping[str, Any]], now: int) -> None:
    """Store labels from a batch's newest records, in its transaction. now: Unix ms.

    newest: by scenario and asset what was read, with its `shape` and `text`.
    """
    for scenario, records in newest.items():
        reported = {
            asset: labels_of_votes(seen.shape.votes)
            for asset, seen in records.items()
            if HINT in seen.text and hasattr(seen.shape, "votes")
        }
        for asset in with_agents(scenario, records.keys()):
            reported.setdefault(asset, {})
        if reported:
            ingest_reported_labels(scenario, reported, now)
