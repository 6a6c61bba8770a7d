"""Labels written: by people, and by agents in what they report. People's stand before agents'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import QuerySet

from dashboard.audit.log import Actor, note
from dashboard.core.sql import execute_many, lock_until_commit
from dashboard.labels.models import AGENT, PERSON, Label, LabelChange
from dashboard.labels.validation import MOST
from dashboard.states.queries import listed

# By asset and key the value that people give; None: they give none any more.
Wanted = Mapping[str, Mapping[str, str | None]]
# By asset and key the value that agents give, and which of them.
ReportedLabels = Mapping[str, Mapping[str, tuple[str, str]]]

_WRITE = """\
INSERT INTO labels_label (scenario, asset, key, value, source, name, at, shown)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (scenario, asset, key, source) DO UPDATE
SET value = excluded.value, name = excluded.name, at = excluded.at, shown = excluded.shown"""
_BUMP = """\
INSERT INTO labels_labelchange (scenario, n, chips) VALUES (%s, 1, '')
ON CONFLICT (scenario) DO UPDATE SET n = labels_labelchange.n + 1"""


class Change(NamedTuple):
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


def put(scenario: str, wanted: Wanted, by: str, now: int) -> list[Change]:
    """Store people's labels, in one transaction. Returns what became of each.

    What would be more than an asset may have is left out, as `refused`.
    """
    with transaction.atomic():
        alone(scenario)
        changes = compare(scenario, wanted)
        _carry_out(scenario, changes, by, now)
    return changes


def counted(changes: Iterable[Change]) -> Counter[str]:
    """Return how many changes of each kind there are."""
    return Counter(change.kind for change in changes)


def tell(actor: Actor, scenario: str, wanted: Wanted, done: Mapping[str, int]) -> None:
    """Record in the audit what was written, if anything was."""
    if not any(done.get(kind) for kind in ("new", "changed", "removed")):
        return
    asset = next(iter(wanted)) if len(wanted) == 1 else ""
    values = dict(wanted[asset]) if asset else None
    note(
        actor,
        "labels.changed",
        scenario=scenario,
        target=asset,
        labels=values,
        assets=None if asset else len(wanted),
        new=done.get("new", 0),
        changed=done.get("changed", 0),
        removed=done.get("removed", 0),
    )


def compare(scenario: str, wanted: Wanted) -> list[Change]:
    """Return what would become of people's labels."""
    known = _known(scenario, wanted)
    return [
        change
        for asset, labels in wanted.items()
        for change in _of_asset(asset, labels, known.get(asset, {}))
    ]


def replaced(scenario: str, wanted: Mapping[str, Mapping[str, str]]) -> Wanted:
    """Return the same, and that people give these assets no other label."""
    known = _known(scenario, wanted)
    return {
        asset: {
            **{key: None for key, source in known.get(asset, {}) if source == PERSON},
            **labels,
        }
        for asset, labels in wanted.items()
    }


def _of_asset(
    asset: str, labels: Mapping[str, str | None], known: Mapping[tuple[str, str], str]
) -> Iterator[Change]:
    """Yield the changes of one asset: those first that make room."""
    there = {key for key, _ in known}
    for key, value in sorted(labels.items(), key=lambda pair: pair[1] is not None):
        before = known.get((key, PERSON))
        if value is None:
            if (key, AGENT) not in known:
                there.discard(key)
        elif key not in there and len(there) >= MOST:
            yield Change(asset, key, before, value, f"an asset has at most {MOST} labels")
            continue
        else:
            there.add(key)
        yield Change(asset, key, before, value)


def _known(scenario: str, assets: Collection[str]) -> dict[str, dict[tuple[str, str], str]]:
    """Return by asset, then by key and source, the values that there are."""
    known: dict[str, dict[tuple[str, str], str]] = {}
    rows = Label.objects.filter(scenario=scenario, asset__in=listed(list(assets)))
    for asset, key, source, value in rows.values_list("asset", "key", "source", "value"):
        known.setdefault(asset, {})[key, source] = value
    return known


def _carry_out(scenario: str, changes: Iterable[Change], by: str, now: int) -> None:
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


def take_in(scenario: str, reported: ReportedLabels, now: int) -> None:
    """Replace these assets' labels of agents by those that their live votes give.

    In the transaction that writes their states.
    """
    known = _known(scenario, reported)
    added, gone = [], []
    for asset, labels in reported.items():
        before = known.get(asset, {})
        room = MOST - len({key for key, source in before if source == PERSON} - labels.keys())
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


def labelled(scenario: str) -> QuerySet[Label, str]:
    """Return the assets that have labels."""
    return Label.objects.filter(scenario=scenario).values_list("asset", flat=True)


def forget(scenario: str, assets: Collection[str]) -> None:
    """Delete the labels of these assets, which are forgotten."""
    Label.objects.filter(scenario=scenario, asset__in=listed(list(assets))).delete()
    bump(scenario)


def alone(scenario: str) -> None:
    """Lock a scenario's labels for ourselves until the transaction ends.

    Else people and an agent could give one asset the same key at the same time, and both or none
    would be shown.
    """
    lock_until_commit("labels", scenario)


def bump(scenario: str) -> None:
    """Record that the scenario's labels have changed."""
    with connection.cursor() as cursor:
        cursor.execute(_BUMP, [scenario])


def choose_chips(scenario: str, keys: Collection[str]) -> None:
    """Show these keys' labels on the board's rows."""
    LabelChange.objects.update_or_create(scenario=scenario, defaults={"chips": ",".join(keys)})


def _by_key(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for key, asset in pairs:
        groups.setdefault(key, []).append(asset)
    return groups.items()
